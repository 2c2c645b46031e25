"""The log's one writer: it appends records to the current file, rolls to the next one, flushes, and removes old ones.

May import `log.read` and `log.encode`, and what they may import.
"""
