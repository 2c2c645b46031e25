"""Opening of a store to read, and again after another process changed it.

May import `read` and all that `read` may.
"""
