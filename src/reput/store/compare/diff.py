"""The two sides of a comparison of queues, and notes about the processes that hold their stores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.queue_kinds import DEFAULT_KINDS
from reput.queue.combined import kind_to_read
from reput.queue.ext import ExtReader
from reput.queue.kinds import QueuesOnDisk
from reput.queue.placement import EVERYWHERE, QueuePlacement
from reput.store.compare.queue_diff import QueueDifference, queue_differences
from reput.store.disk.kinds import kinds_beside, kinds_named
from reput.store.disk.layout import find_store
from reput.store.disk.log_paths import missing_folders
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.disk.wrong_types import wrong_types
from reput.store.info.info import store_info
from reput.store.info.use import look_at_use
from reput.store.owner.holders import Who


class DiffSide(NamedTuple):
    """One side of a comparison: its store, its kind of queues, the kinds beside it, and the begin of its log."""

    store: str
    kind: QueuesOnDisk
    log_min_offset: int
    ext: ExtReader | None = None
    beside: Sequence[QueuesOnDisk] = ()
    placement: QueuePlacement = EVERYWHERE

    def __str__(self) -> str:
        return f"{self.store} ({self.kind.name})"


def diff_sides(
    path: Path | str, other: Path | str | None = None, config: StoreConfig | None = None
) -> tuple[DiffSide, DiffSide]:
    """Return the two kinds of a store, or the first kind of each of two stores.

    Raises:
        ConfigError: the store has no two kinds, or a store has no queues.
    """
    if other is not None:
        return _sides(path, config, as_read=True)[0], _sides(other, config, as_read=True)[0]
    sides = _sides(path, config)
    if len(sides) < 2:
        raise ConfigError(
            f"{sides[0].store}: has {sides[0].kind.name} queues alone, so there is nothing to compare "
            "them with. Give another store, or compare them with the log: `reput check`"
        )
    return sides[0], sides[1]


def _sides(path: Path | str, config: StoreConfig | None, *, as_read: bool = False) -> list[DiffSide]:
    """Return a side for each kind of a store; with `as_read` one for all its queues."""
    store = StoreOnDisk.find(path, config, Purpose.LOOK, tolerant=True)
    layout, settings, kinds = store.layout, store.settings, store.message_kinds
    beside = kinds_beside(layout)
    ext = ExtReader(layout.consume_queue_ext, settings.ext_file_size) if settings.ext_file_size else None
    if not kinds and any(kind.is_present() for kind in beside):
        # All topics have queues of batches.
        kinds = kinds_named(DEFAULT_KINDS, layout, settings.queue_file_size)
    if not kinds:
        first = "".join(f"{text}. " for text in store.wrong_type_texts)
        raise ConfigError(
            f"{first}{layout.consume_queue}: no queues. `reput rebuild --only queue` builds them from the log"
        )
    placement = store.placement.of_kinds([kind.name for kind in kinds])
    sides = [kind_to_read(kinds, placement)] if as_read else kinds
    return [DiffSide(str(layout.root), one, store.log.min_offset, ext, beside, placement) for one in sides]


def differences(left: DiffSide, right: DiffSide) -> Iterator[QueueDifference]:
    """Yield the differences between two sides."""
    log_min_offset = max(left.log_min_offset, right.log_min_offset)
    pairs = [(left.kind, right.kind)]
    # The two kinds of one store have the same kinds beside them.
    pairs += zip(left.beside, right.beside, strict=True) if left.store != right.store else ()
    for ours, theirs in pairs:
        exts = (None, None) if ours.has_batches else (left.ext, right.ext)
        with (
            contextlib.closing(ours.compared(log_min_offset)) as one,
            contextlib.closing(theirs.compared(log_min_offset)) as other,
        ):
            yield from queue_differences(one, other, *exts, partial(_are_in_both, left, right))


def _are_in_both(left: DiffSide, right: DiffSide, key: QueueKey) -> bool:
    """Return True for a queue that belongs to both sides; all belong to both of two stores."""
    names = (left.kind.name, right.kind.name) if left.store == right.store else ()
    return all(left.placement.holds(name, key.topic) for name in names)


def holder_notes(sides: Sequence[DiffSide], config: StoreConfig | None = None) -> list[str]:
    """Name the processes that hold the stores of these sides, and count the messages that no queue has yet.

    Files in the place of folders and the reverse are named, too, and missing folders of the log.
    """
    notes: list[str] = []
    for store in dict.fromkeys(side.store for side in sides):
        layout = find_store(store, config or StoreConfig())
        notes += [one.text for one in wrong_types(layout)]
        notes += [one.missing_text for one in missing_folders(config or StoreConfig())]
        holder = look_at_use(layout).holder
        if holder.who is Who.NOBODY:
            continue
        note = f"{store}: {holder.text} has this store open, and only what the queues hold now is compared"
        if holder.who is Who.WRITER:
            # These messages are in the log alone: no queue is read.
            found = store_info(store, config, most_topics=0)
            at_least = "" if found.waiting_is_exact else "at least "
            waits = "message waits" if found.waiting_messages == 1 else "messages wait"
            note += (
                f"; its log is confirmed up to {found.confirmed_offset}, and {at_least}{found.waiting_messages:,} "
                f"{waits} for index entries"
            )
        notes.append(note)
    return notes
