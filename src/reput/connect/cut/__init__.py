"""Ranges of the log and of queues that a read takes.

May import `options`.
"""
