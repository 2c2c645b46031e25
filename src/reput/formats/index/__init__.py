"""The index by key: IndexFiles, the index in RocksDB, and the names of these kinds.

May import `layout`, `java`, `log`, `pending` and `database`.
"""
