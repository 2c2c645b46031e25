"""The RocksDB of a store, looked at whole.

content(store)["default"]                   every key and value of a column family
entries(store)                              every queue's entries by queue offset, read with the store's own reader
assert_same_queues(store)                   queue files and RocksDB of one store hold the same
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.files.database import DatabaseReader
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.queue.file_kind import FileKind
from reput.queue.rocksdb_kind import RocksdbKind, open_reader
from reput.store.disk.layout import StoreLayout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.formats.queue.consume_queue import Entry, QueueKey
    from reput.queue.kinds import QueueKind


def folder_of(store: Path) -> Path:
    """The folder of a store's database of queues."""
    return StoreLayout(store, store / paths.COMMIT_LOG).queue_database


def content(store: Path) -> dict[str, dict[bytes, bytes]]:
    """Every key and value, by column family."""
    with open_reader(folder_of(store)) as reader:
        return {name: dict(family.walk()) for name, family in reader.families.items()}


def content_of(folder: Path, families: Sequence[str]) -> dict[str, dict[bytes, bytes]]:
    """Every key and value of another database, by column family."""
    with DatabaseReader(folder, families) as reader:
        return {name: dict(family.walk()) for name, family in reader.families.items()}


def queues_content(store: Path) -> dict[str, dict[bytes, bytes]]:
    """The same without the place up to which the database is complete.

    RocketMQ notes the end of the last record that has an entry, and reput the end of the log. They differ where the log
    ends with messages of transactions that were prepared or rolled back.
    """
    found = content(store)
    del found[fmt.OFFSET_FAMILY][fmt.RESTART_KEY]
    return found


def rocksdb(store: Path) -> RocksdbKind:
    """The RocksDB kind of a store."""
    return RocksdbKind(folder_of(store), store / "logs")


def entries(kind: QueueKind) -> dict[QueueKey, dict[int, Entry]]:
    """Every queue of a kind with its entries from its first message on."""
    found = {}
    for queue in kind.queues():
        span = queue.span()
        found[queue.key] = dict(queue.read(span.min_offset, span.max_offset))
    return found


def assert_same_queues(store: Path) -> None:
    """Fail where queue files and RocksDB differ."""
    files, database = entries(FileKind(store / paths.CONSUME_QUEUE, 0)), entries(rocksdb(store))
    assert files == database
