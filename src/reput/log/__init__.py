"""The CommitLog: its files, walks along them, and the writer that appends and flushes records.

A queue, an index or a store is unknown here: they read the log, not the reverse. May import `formats`, `kernels`,
`files` and `errors`.
"""
