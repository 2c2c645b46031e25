"""Queues in RocksDB: the parts of splits become sorted tables, or are compared with the tables of a store.

May import `stages`, `reorder`, `split` and `spark`.
"""
