"""The kinds of queues that a store can have, and those that its files show: the one list of kinds for the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reput.errors import ConfigError
from reput.files import fs
from reput.files import names as folder_names
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import DEFAULT_FILE_SIZE
from reput.formats.queue.queue_kinds import FILE, MESSAGE_KINDS, ROCKSDB
from reput.queue.batch_kind import BatchKind
from reput.queue.file_kind import FileKind
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.layout import StoreLayout

if TYPE_CHECKING:
    from reput.queue.rocksdb_kind import RocksdbKind


KindBeside = BatchKind
"""A kind that a store may have beside those that its settings choose, for topics of their own."""


def _files(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> FileKind:
    return FileKind(layout.consume_queue, file_size)


def _database(layout: StoreLayout, _: int = DEFAULT_FILE_SIZE) -> RocksdbKind:
    # Loaded only for a store that has it: loading takes longer than a small question.
    from reput.queue.rocksdb_kind import RocksdbKind

    return RocksdbKind(layout.queue_database, layout.own(own.ROCKSDB_LOGS), partial(_log_end, layout.commit_log))


def _log_end(commit_log: Path) -> int:
    """Return the log offset after the log's last file; no file is read."""
    ends = [0]
    for entry in fs.list_dir(commit_log):
        start = paths.parse_offset_name(entry.name) if entry.is_file else None
        ends.append(0 if start is None else start + fs.size_in(commit_log, entry))
    return max(ends)


class _Chosen(NamedTuple):
    """A kind that settings can choose: its maker, by paths and file size, and whether a store has queues of it."""

    make: Callable[[StoreLayout, int], QueueKind]
    is_present: Callable[[StoreLayout], bool]


_CHOSEN: Mapping[str, _Chosen] = {
    FILE: _Chosen(_files, lambda layout: _files(layout).is_present()),
    ROCKSDB: _Chosen(_database, lambda layout: folder_names.is_database(layout.queue_database)),
}


def kind_named(name: str, layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> QueueKind:
    """Return the queues of one kind that settings can choose, present or not.

    Raises:
        ConfigError: there is no such kind.
    """
    if name not in _CHOSEN:
        raise ConfigError(f"{name!r} is no kind of queues that settings can choose; there are {', '.join(_CHOSEN)}")
    return _CHOSEN[name].make(layout, file_size)


def kinds_named(names: Sequence[str], layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the queues of these kinds, in this order, present or not.

    Raises:
        ConfigError: see `kind_named`.
    """
    return [kind_named(name, layout, file_size) for name in names]


def present_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the kinds with an entry for each message of which the store has queues."""
    return [one.make(layout, file_size) for one in _CHOSEN.values() if one.is_present(layout)]


def kinds_beside(layout: StoreLayout) -> list[KindBeside]:
    """Return the kinds that a store may have beside those that its settings choose, present or not."""
    return [BatchKind(layout.batch_consume_queue)]


def all_kinds(layout: StoreLayout) -> dict[str, AnyKind]:
    """Return every kind that reput knows, by name."""
    kinds: list[AnyKind] = [*kinds_named(MESSAGE_KINDS, layout), *kinds_beside(layout)]
    return {kind.name: kind for kind in kinds}


def every_present_kind(layout: StoreLayout) -> list[AnyKind]:
    """Return the present kinds, and those that the store may have beside them."""
    return [*present_kinds(layout), *kinds_beside(layout)]
