"""One process changes a store: lock and epoch, swaps, deletions, and reading while a process is at work.

May import `disk`.
"""
