"""The writing half of an open store: puts, flush, expiry of log files.

May import `open` and all that `open` may.
"""
