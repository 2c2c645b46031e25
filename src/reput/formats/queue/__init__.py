"""ConsumeQueues of every kind: entries in files, of batches and in RocksDB, ext units; names of kinds and types.

May import `layout` and `database`.
"""
