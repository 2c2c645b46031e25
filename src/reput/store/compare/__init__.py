"""Comparison of the queues and indexes of two stores or two kinds.

May import `info` and all that `write` may.
"""
