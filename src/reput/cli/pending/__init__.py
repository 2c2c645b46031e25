"""`reput pending`: show what waits in a store.

May import the modules of `cli`, and what these may import.
"""
