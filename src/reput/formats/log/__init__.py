"""The CommitLog: records, what a record holds (properties, bodies), and the messages in the body of a batch.

May import `layout`, `paths`, `java` and `topics`.
"""
