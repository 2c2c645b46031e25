"""Live indexes take in the next range of the log, in place.

May import all of `build` but `rebuild`.
"""
