"""The kinds of ConsumeQueue by their names: reput's, broker.conf's, and those of what a conversion can make.

    file       queue files, a folder each; RocketMQ's default
    rocksdb    all queues in one RocksDB

Source: `StoreType`, `MessageStoreConfig.rocksdbCQDoubleWriteEnable`.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE, ROCKSDB = "file", "rocksdb"
DEFAULT_KINDS = (FILE,)
"""What a store has that says nothing."""

DEFAULT_STORE_TYPE = "default"
STORE_TYPES: Mapping[str, str] = {DEFAULT_STORE_TYPE: FILE, "defaultRocksDB": ROCKSDB}
"""What broker.conf's storeType asks for."""
DOUBLE_WRITE = (FILE, ROCKSDB)
"""What its rocksdbCQDoubleWriteEnable asks for, in a store of the default type."""

TARGETS: Mapping[str, tuple[str, ...]] = {"file": (FILE,), "rocksdb": (ROCKSDB,), "both": DOUBLE_WRITE}
"""What a conversion can make, by the word for it."""
TARGET_SETTINGS: Mapping[str, str] = {
    "file": "storeType=default",
    "rocksdb": "storeType=defaultRocksDB",
    "both": "rocksdbCQDoubleWriteEnable=true",
}
"""What broker.conf must say for a broker to go on with such queues."""
KINDS_IN_WORDS: Mapping[tuple[str, ...], str] = {
    (ROCKSDB,): "in RocksDB",
    (FILE, ROCKSDB): "in files and in RocksDB",
}
"""Where queues are, for people, where it is not in files alone."""
