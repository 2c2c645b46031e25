"""The queues, or the index by key, of a store in another kind: a rebuild, from the log or from the present queues.

May import `build`, `split` and `spark`.
"""
