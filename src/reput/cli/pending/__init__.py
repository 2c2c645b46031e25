"""`reput pending`: show what waits in a store.

May import `cli/shared`, and what that may import.
"""
