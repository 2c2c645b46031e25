"""The queues of a store in another kind: a rebuild of them, from the log or from the kind that is there.

May import `build`, `split` and `spark`.
"""
