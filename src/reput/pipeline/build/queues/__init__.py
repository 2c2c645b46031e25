"""Queues in files: entries for messages and for batches, blank entries, and ext units.

May import `stages`, `reorder`, `split` and `spark`.
"""
