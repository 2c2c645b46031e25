"""The log's files as a reader sees them: a listing, maps, the walk along them, and look-ups at a place.

May import `formats`, `kernels`, `files` and `errors`. What writes the log imports it, not the reverse.
"""
