"""The column family that every RocksDB has. Each database's module has the names of its others."""

DEFAULT_FAMILY = "default"
