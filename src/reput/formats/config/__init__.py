"""Topics, groups, filters and offsets as a broker keeps them in `config/`: JSON, and RocksDB.

May import `layout`, `paths`, `java`, `queue` and `database`.
"""
