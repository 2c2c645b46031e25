"""Opening a store to read or to follow it, and opening it again after a change by another process.

May import `read` and all that `read` may.
"""
