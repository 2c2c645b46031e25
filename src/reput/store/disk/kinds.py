"""The kinds of queues that a store can have, and those that its files show: the one list of kinds for the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reput.files import fs
from reput.files import names as folder_names
from reput.formats import own, paths
from reput.formats.consume_queue import DEFAULT_FILE_SIZE
from reput.formats.queue_kinds import FILE, ROCKSDB
from reput.queue.batch_kind import BatchKind
from reput.queue.file_kind import FileKind
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.layout import StoreLayout

if TYPE_CHECKING:
    from reput.queue.rocksdb_kind import RocksdbKind


def all_kinds(layout: StoreLayout) -> dict[str, AnyKind]:
    """Return every kind that reput knows, by name."""
    return {kind.name: kind for kind in (*kinds_named((FILE, ROCKSDB), layout), *kinds_beside(layout))}


def kinds_beside(layout: StoreLayout) -> list[AnyKind]:
    """Return the kinds that a store may have beside those that its settings choose, present or not."""
    return [BatchKind(layout.batch_consume_queue)]


def kinds_in_any_folder(layout: StoreLayout) -> list[AnyKind]:
    """Return every kind in every folder that it may be in, to know its files."""
    places = [replace(layout, separate_database=separate) for separate in (False, True)]
    return [kind_named(FILE, layout), *(kind_named(ROCKSDB, place) for place in places), *kinds_beside(layout)]


def kind_named(name: str, layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> QueueKind:
    """Return the queues of one kind that settings can choose, present or not."""
    if name == FILE:
        return FileKind(layout.consume_queue, file_size)
    return _database(layout)


def _database(layout: StoreLayout) -> RocksdbKind:
    # Loaded only for a store that has it: loading takes longer than a small question.
    from reput.queue.rocksdb_kind import RocksdbKind

    return RocksdbKind(layout.queue_database, layout.own(own.ROCKSDB_LOGS), partial(_log_end, layout.commit_log))


def _log_end(commit_log: Path) -> int:
    """Return the log offset after the log's last file; no file is read."""
    ends = [0]
    for entry in fs.list_dir(commit_log):
        start = None if entry.is_dir else paths.parse_offset_name(entry.name)
        ends.append(0 if start is None else start + fs.size_in(commit_log, entry))
    return max(ends)


def present_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the kinds with an entry for each message of which the store has queues."""
    files = kind_named(FILE, layout, file_size)
    found = [files] if files.is_present() else []
    if folder_names.is_database(layout.queue_database):
        found.append(kind_named(ROCKSDB, layout, file_size))
    return found


def kinds_named(names: Sequence[str], layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the queues of these kinds, in this order, present or not."""
    return [kind_named(name, layout, file_size) for name in names]


def every_present_kind(layout: StoreLayout) -> list[AnyKind]:
    """Return the same, and the kinds that the store may have beside them."""
    return [*present_kinds(layout), *kinds_beside(layout)]
