"""Recovery: the offset up to which indexes are complete, and the log's end, after a close or a crash.

May import `disk` and `owner`.
"""
