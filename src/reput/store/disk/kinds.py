"""The kinds of queues of a store, by its files or else its configuration."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, StoreLockedError, UnsupportedStoreError
from reput.files import fs, locks
from reput.files import names as folder_names
from reput.formats import own, paths
from reput.formats.consume_queue import DEFAULT_FILE_SIZE, QueueKey
from reput.formats.queue_kinds import DEFAULT_KINDS, DEFAULT_STORE_TYPE, DOUBLE_WRITE, FILE, ROCKSDB, STORE_TYPES
from reput.queue.batch_files import BatchFiles
from reput.queue.file_kind import FileKind
from reput.queue.files import some_queues
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.layout import StoreLayout

_QUEUES_ASKED = 200


def all_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> dict[str, QueueKind]:
    """Return every kind that reput knows, by name."""
    return {name: kind_named(name, layout, file_size) for name in (FILE, ROCKSDB)}


def kind_named(name: str, layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> QueueKind:
    """Return the queues of one kind in a store, present or not."""
    if name == FILE:
        return FileKind(layout.consume_queue, file_size)
    # Loaded only for a store that has it: loading takes longer than a small question.
    from reput.queue.rocksdb_kind import RocksdbKind

    return RocksdbKind(layout.consume_queue, layout.own(own.ROCKSDB_LOGS), partial(_log_end, layout.commit_log))


def _log_end(commit_log: Path) -> int:
    """Return the log offset after the log's last file; no file is read."""
    ends = [0]
    for entry in fs.list_dir(commit_log):
        start = None if entry.is_dir else paths.parse_offset_name(entry.name)
        ends.append(0 if start is None else start + fs.size_in(commit_log, entry))
    return max(ends)


def present_kinds(layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the kinds of which the store has queues."""
    files = kind_named(FILE, layout, file_size)
    found = [files] if files.is_present() else []
    if folder_names.is_database(layout.consume_queue):
        found.append(kind_named(ROCKSDB, layout, file_size))
    return found


def configured_kinds(config: StoreConfig) -> list[str]:
    """Return the kinds that the configuration asks for, the one that answers reads first; empty if it names none.

    Raises:
        UnsupportedStoreError: a storeType that reput does not know.
    """
    store_type = config.store_type or (DEFAULT_STORE_TYPE if config.rocksdb_cq_double_write_enable else None)
    if store_type is None:
        return []
    first = STORE_TYPES.get(store_type)
    if first is None:
        known = " or ".join(STORE_TYPES)
        raise UnsupportedStoreError(f"storeType={store_type}: reput does not know this type of store. Give {known}")
    # RocketMQ writes both kinds only if the store type is files.
    if config.rocksdb_cq_double_write_enable and store_type == DEFAULT_STORE_TYPE:
        return list(DOUBLE_WRITE)
    return [first]


def store_kinds(
    layout: StoreLayout, config: StoreConfig | None = None, file_size: int = DEFAULT_FILE_SIZE
) -> list[QueueKind]:
    """Return the kinds that a store has, the one that answers reads first.

    These are queue files if neither the store's files nor its settings name a kind.

    Raises:
        UnsupportedStoreError: the configuration asks for a kind that the store, which has queues, does not have.
    """
    wanted, present = configured_kinds(config or StoreConfig()), present_kinds(layout, file_size)
    names = [kind.name for kind in present]
    missing = [name for name in wanted if name not in names]
    # A database may exist before the first message, and a store may have only queues of batches.
    if missing and any(_has_queue(kind) for kind in present):
        raise UnsupportedStoreError(
            f"{layout.consume_queue}: the configuration asks for {' and '.join(missing)} queues, and there are "
            f"{' and '.join(names)} queues. `reput convert` makes them"
        )
    return kinds_named(_in_order(wanted, names) or DEFAULT_KINDS, layout, file_size)


def kinds_named(names: Sequence[str], layout: StoreLayout, file_size: int = DEFAULT_FILE_SIZE) -> list[QueueKind]:
    """Return the queues of these kinds, in this order, present or not."""
    return [kind_named(name, layout, file_size) for name in names]


def _has_queue(kind: QueueKind) -> bool:
    with contextlib.closing(kind.queues()) as queues:
        return next(queues, None) is not None


def refuse_another_queue_file_size(layout: StoreLayout, config: StoreConfig, file_size: int) -> None:
    """Refuse a configured size if all queue files have one other size.

    A single file may have been cut: then the reader of its entries reports that.

    Raises:
        ConfigError: the setting is wrong, not the files.
    """
    if config.mapped_file_size_consume_queue is None:
        return
    queues = some_queues(layout.consume_queue, _QUEUES_ASKED)
    lengths = Counter(file.size for queue in queues for file in queue.files if file.size)
    if len(lengths) == 1 and lengths.total() > 1 and file_size not in lengths:
        raise ConfigError(
            f"mappedFileSizeConsumeQueue={config.mapped_file_size_consume_queue}: the queue files of "
            f"{layout.consume_queue} have {next(iter(lengths))} bytes. Set that, or leave the setting out"
        )


def refuse_odd_queue_files(
    kinds: Sequence[QueueKind], batches: BatchFiles, file_size: int, most: int | None = None
) -> None:
    """Refuse queues whose files have a wrong length or place: their names do not show where they end.

    A killed task leaves a file of no bytes; the next catch-up gives it its length, `file_size`. `most`: the number of
    queues of each kind that are checked; the others are checked at their first put (`damaged_queue`).

    Raises:
        DamagedStoreError: there is such a queue; a message put into it would get the number of another message.

    Source: `MappedFileQueue.doLoad`: RocketMQ refuses such a store too.
    """
    # Queues of batches are few, and a put does not look at their files again.
    for kind, most_of_kind in (*((kind, most) for kind in kinds), (batches, None)):
        with contextlib.closing(kind.queues()) as queues:
            for queue in islice(queues, most_of_kind):
                for damage in queue.oddities(file_size).damage:
                    raise DamagedStoreError(damage)


def every_kind(layout: StoreLayout, kinds: Sequence[QueueKind]) -> list[AnyKind]:
    """Return these kinds, and the queues of batches that a store may have beside them."""
    return [*kinds, BatchFiles(layout.batch_consume_queue)]


def damaged_queue(kinds: Sequence[QueueKind], key: QueueKey, file_size: int) -> str | None:
    """Return the damage in the files of one queue, to which nothing may be put then; None if there is none."""
    return next((damage for kind in kinds for damage in kind.damage_of(key, file_size)), None)


def refuse_held_kinds(layout: StoreLayout, kinds: Sequence[QueueKind]) -> None:
    """Refuse queues that another process has open to write, unless it is a follower, which gives way.

    Queues that this process cannot write since it was forked are refused too.

    RocketMQ opens its database while it loads a store, and takes the store's lock only after recovery.

    Raises:
        StoreLockedError: another process has the queues open.
        ForkedStoreError: see `QueueKind.refuse_in_fork`.
    """
    for kind in kinds:
        kind.refuse_in_fork()
    if locks.owner_is_live(layout.own(own.FOLLOWER_NAME)):
        return
    for kind in kinds:
        if kind.is_held():
            raise StoreLockedError(
                f"{layout.consume_queue}: another process has these {kind.name} queues open to write, such as a broker "
                "that is starting. Stop it, or wait for it"
            )


def _in_order(wanted: Sequence[str], present: Sequence[str]) -> list[str]:
    return [*wanted, *(name for name in present if name not in wanted)]
