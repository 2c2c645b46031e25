"""Extension of live indexes with the log: a follower, its streaming query, and the catch-up of an open store.

May import `build`, `split` and `spark`.
"""
