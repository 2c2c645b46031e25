"""The queues of a store in another kind: a rebuild of them, from the log or from the present kind.

May import `build`, `split` and `spark`.
"""
