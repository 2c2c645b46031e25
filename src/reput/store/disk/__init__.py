"""The parts of a store's folder: paths, settings, kinds of queues, frontier, checkpoint.

May import `metadata`.
"""
