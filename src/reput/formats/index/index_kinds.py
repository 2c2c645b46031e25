"""The kinds of index by key by their names: those of the targets of a conversion, and their settings.

    file       IndexFiles; RocketMQ's default
    rocksdb    the index in RocksDB

Source: `MessageStoreConfig.indexRocksDBEnable`, `indexFileWriteEnable`, `indexFileReadEnable`.
"""

from __future__ import annotations

from collections.abc import Mapping

INDEX_FILES, INDEX_DATABASE = "file", "rocksdb"
DEFAULT_INDEXES = (INDEX_FILES,)
"""The kinds of a store whose settings and files name none."""

INDEX_TARGETS: Mapping[str, tuple[str, ...]] = {
    "file": (INDEX_FILES,),
    "rocksdb": (INDEX_DATABASE,),
    "both": (INDEX_FILES, INDEX_DATABASE),
}
"""The kinds of each target of a conversion, by name."""
INDEX_TARGET_SETTINGS: Mapping[str, str] = {
    "file": "indexRocksDBEnable=false",
    "rocksdb": "indexRocksDBEnable=true, indexFileWriteEnable=false, indexFileReadEnable=false",
    "both": "indexRocksDBEnable=true",
}
"""The settings of broker.conf with which a broker uses such an index."""
INDEX_IN_WORDS: Mapping[str, str] = {
    "file": "IndexFiles",
    "rocksdb": "RocksDB",
    "both": "IndexFiles and in RocksDB",
}
"""The targets in words for people."""
