"""Opening of a store to read or to follow it, and again after another process changed it.

May import `read` and all that `read` may.
"""
