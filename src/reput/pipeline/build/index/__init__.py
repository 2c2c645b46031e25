"""The index by key: the plan of IndexFiles and the tasks that write them, and the tables of the index in RocksDB.

May import `stages`, `split` and `spark`.
"""
