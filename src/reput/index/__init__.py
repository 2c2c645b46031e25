"""The index by key on disk: IndexFiles, and the database in RocksDB; the search in each.

May import kernels, formats and files; knows nothing of a whole store.
"""
