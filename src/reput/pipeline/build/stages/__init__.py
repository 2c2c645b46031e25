"""Stages that every build has: decode the splits and prove them, then make queues of every kind from what they left.

May import `reorder`, `split` and `spark`.
"""
