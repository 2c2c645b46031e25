"""The kinds of ConsumeQueue by their names: reput's, broker.conf's, and those of the targets of a conversion.

    file       queue files, a folder each; RocketMQ's default
    rocksdb    all queues in one RocksDB
    batches    queues of batches (BatchCQ): a store may have them beside the others, for topics of their own

Source: `StoreType`, `MessageStoreConfig.rocksdbCQDoubleWriteEnable`.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE, ROCKSDB, BATCHES = "file", "rocksdb", "batches"
DEFAULT_KINDS = (FILE,)
"""The kinds of a store that says nothing."""
MESSAGE_KINDS = (FILE, ROCKSDB)
"""The kinds with an entry for each message: settings choose among them."""
KINDS = (*MESSAGE_KINDS, BATCHES)
"""Every kind. A store may have batches beside the others, for topics of their own."""
DEFAULT_KINDS_BUILT = (*DEFAULT_KINDS, BATCHES)
"""The kinds that a job builds in a store that says nothing."""

DEFAULT_STORE_TYPE = "default"
STORE_TYPES: Mapping[str, str] = {DEFAULT_STORE_TYPE: FILE, "defaultRocksDB": ROCKSDB}
"""The kind for each storeType of broker.conf."""
_STORE_TYPES_IN_ANY_CASE = {name.lower(): kind for name, kind in STORE_TYPES.items()}
DOUBLE_WRITE = (FILE, ROCKSDB)
"""The kinds for rocksdbCQDoubleWriteEnable of broker.conf, in a store of the default type."""

PLACED_KIND = FILE
"""The kind whose entries have addresses: entry n of a queue is at byte 20 n."""
PART_KIND = ROCKSDB
"""The kind that may have less than all queues in a double write: light queues alone, or some topics alone."""
LIGHT_SETTING, SELECTIVE_SETTING = "combineCQUseRocksdbForLmq", "rocksdbCQSelectiveDoubleWriteEnable"
"""The settings of broker.conf for that."""

FOLDER_SETTING = "useSeparateStorePathForRocksdbCQ"
"""The setting of broker.conf that gives the database of queues a folder of its own."""

TARGETS: Mapping[str, tuple[str, ...]] = {"file": (FILE,), "rocksdb": (ROCKSDB,), "both": DOUBLE_WRITE}
"""The kinds of each target of a conversion, by name."""
TARGET_SETTINGS: Mapping[str, str] = {
    "file": "storeType=default",
    "rocksdb": "storeType=defaultRocksDB",
    "both": "rocksdbCQDoubleWriteEnable=true",
}
"""The settings of broker.conf with which a broker uses such queues."""
KINDS_IN_WORDS: Mapping[tuple[str, ...], str] = {
    (ROCKSDB,): "in RocksDB",
    (FILE, ROCKSDB): "in files and in RocksDB",
}
"""The kinds in words for people, unless the queues are in files only."""


def kind_of_store_type(store_type: str) -> str | None:
    """Return the kind for a storeType, in any case of its letters (`StoreType.fromString`); None for no storeType."""
    return _STORE_TYPES_IN_ANY_CASE.get(store_type.lower())
