"""Which ranges of which queues, or of the log, a read takes.

May import `options`.
"""
