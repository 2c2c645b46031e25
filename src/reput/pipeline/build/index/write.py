"""An IndexFile is written: items first, then slots, then the header. Readers find older items by the new ones.

A task builds one file from the items that the splits left (`build_index_file`). A range of one task appends its items
at once (`append_items`). This happens again and again, so its cost must not grow with the file: a worker keeps the
slots of the file that it wrote last (20 MB for RocketMQ's size). Slots are a pure function of the items, so a worker
that returns to a file enters the items that others have written since.

Source: `IndexFile.putKey`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.index import index_file
from reput.formats.index.index_file import HEADER_SIZE, ITEM_SIZE, items_at
from reput.index.files import changed_slots, enter_items, slots_below, write_slots
from reput.kernels import kernels
from reput.kernels.layouts.columns import ItemRange, ItemSources
from reput.pipeline.build.index.plan import IndexEnd, IndexFilePlan, IndexFileResult, index_names, plan_index_files
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.parts import ItemColumns
from reput.pipeline.split.sink import finish_file, finish_folders

_ITEMS_AT_ONCE = 1 << 16


class _Slots(NamedTuple):
    """The slots of a file as its items below `number` make them; `used` of them are not empty."""

    slots: NDArray[np.int32]
    number: int = 1
    used: int = 0


class _SlotsKept(threading.local):
    """The slots of the file that this thread appended to last, and the file's identity."""

    identity: tuple[str, int, int, int] | None = None
    slots: _Slots | None = None


_kept = _SlotsKept()


def build_index_file(job: Job, plan: IndexFilePlan) -> IndexFileResult:
    """Build one IndexFile, or continue one, from the items that the splits left."""
    with job.writing():
        with _opened(job, plan) as (descriptor, path):
            known = _slots_below(path, job.index_slots, plan.start)
            before = plan.end_before
            if plan.before:
                before = parts.load_items(job, plan.before.split).place_of(plan.before.begin)
            writer = _IndexFileWriter(job, plan, descriptor, known, before)
            for segment in plan.segments:
                writer.add(parts.load_items(job, segment.split), segment.begin, segment.end)
            header = writer.finish(changed_slots(path, known.slots))
        finish_folders(job, [job.index_folder])
    return IndexFileResult(plan.name, header)


def append_items(
    job: Job, items: ItemColumns, result: SplitResult, end: IndexEnd, named_at: datetime
) -> list[IndexFileResult]:
    """Append a decoded range's items to the last IndexFile, and to new files when it is full.

    A repeat with the same arguments writes the same bytes: the files' names come from `named_at`.
    """
    names = index_names(named_at, end.name)
    plans = plan_index_files([result], index_file.capacity(job.index_items), names, end)
    done: list[IndexFileResult] = []
    for plan in plans:
        before = done[-1].end.last if done else end.last
        with _opened(job, plan) as (descriptor, path):
            identity = (str(path), job.begun, fs.inode_of(descriptor), job.index_slots)
            known = _kept_slots(plan, path, identity) or _slots_in_file(job, plan, descriptor, path)
            _kept.slots = None
            writer = _IndexFileWriter(job, plan, descriptor, known, before)
            touched = np.empty(0, dtype=np.int64)
            for segment in plan.segments:
                writer.add(items, segment.begin, segment.end)
                touched = items.item_hash[segment.begin : segment.end].astype(np.int64) % job.index_slots
            done.append(IndexFileResult(plan.name, writer.finish(touched)))
            _kept.identity, _kept.slots = identity, _Slots(known.slots, writer.number, writer.used)
    if plans:
        finish_folders(job, [job.index_folder])
    return done


@contextlib.contextmanager
def _opened(job: Job, plan: IndexFilePlan) -> Iterator[tuple[int, Path]]:
    """Open the plan's file for writing; yields its descriptor and its path."""
    path = Path(job.index_folder) / plan.name
    descriptor = fs.open_sized(str(path), index_file.file_size(job.index_slots, job.index_items), job.owner)
    try:
        with fs.errors_named(path, f"write {plan.items} items into an IndexFile"):
            yield descriptor, path
            finish_file(job, descriptor)
    finally:
        fs.close(descriptor)


class _IndexFileWriter:
    """Appends items to one file; items are chained through a buffer that stays in the cache.

    `before`: physical offset and time of the last item before the plan's first one.
    """

    def __init__(self, job: Job, plan: IndexFilePlan, descriptor: int, known: _Slots, before: tuple[int, int]) -> None:
        self.number, self.used = plan.start, known.used
        self._descriptor = descriptor
        self._slots = known.slots
        self._items_start = items_at(job.index_slots)
        self._out: NDArray[np.uint8] = np.empty(min(plan.items, _ITEMS_AT_ONCE) * ITEM_SIZE, dtype=np.uint8)
        self._is_long = plan.items > _ITEMS_AT_ONCE
        self._first = self._last = before
        if plan.start > 1:
            header = index_file.decode_header(fs.read_bytes(f"{job.index_folder}/{plan.name}", HEADER_SIZE) or b"")
            self._first = header.begin_physical_offset, header.begin_timestamp
        # Until item 1 is written, times count from the end of the file before.
        self._begin_timestamp = self._first[1]

    def add(self, columns: ItemColumns, begin: int, end: int) -> None:
        """Chain the items [begin, end) of a split, and write them."""
        if self.number == 1:
            self._first = columns.place_of(begin)
        self._last = columns.place_of(end - 1)
        while begin < end:
            until = min(end, begin + _ITEMS_AT_ONCE)
            fresh, self._begin_timestamp = kernels().chain_items(
                ItemSources(columns.first_item, columns.position, columns.store_timestamp, columns.item_hash),
                ItemRange(columns.record_of(begin), begin, until, self.number, self._begin_timestamp),
                self._slots,
                self._out,
            )
            piece = self._out.data[: (until - begin) * ITEM_SIZE]
            at = self._items_start + self.number * ITEM_SIZE
            fs.pwrite(self._descriptor, piece, at)
            if self._is_long:
                # The disk works while the next items are chained, so the sync at the end has little left to do.
                fs.start_writeback(self._descriptor, at, len(piece))
            self.used += fresh
            self.number += until - begin
            begin = until

    def finish(self, changed: NDArray[np.int64]) -> index_file.Header:
        """Write the slots with these numbers, then the header."""
        write_slots(self._descriptor, self._slots, changed)
        (begin, begin_timestamp), (end, end_timestamp) = self._first, self._last
        header = index_file.Header(begin_timestamp, end_timestamp, begin, end, self.used, self.number)
        fs.pwrite(self._descriptor, index_file.encode_header(header), 0)
        return header


# --- slots -----------------------------------------------------------------------------------------


def _slots_below(path: Path, slots: int, number: int) -> _Slots:
    """Return the slots of a file as its items below `number` make them."""
    found = slots_below(path, slots, number)
    return _Slots(found, number, int(np.count_nonzero(found)))


def _slots_in_file(job: Job, plan: IndexFilePlan, descriptor: int, path: Path) -> _Slots:
    """Return the slots before the plan's first item; later slots that a killed job left in the file are taken back."""
    known = _slots_below(path, job.index_slots, plan.start)
    write_slots(descriptor, known.slots, changed_slots(path, known.slots))
    return known


def _kept_slots(plan: IndexFilePlan, path: Path, identity: tuple[str, int, int, int]) -> _Slots | None:
    """Return the slots that this worker kept, updated up to the plan's first item; None if it has none of this file."""
    kept = _kept.slots
    if plan.start == 1 or kept is None or _kept.identity != identity or kept.number > plan.start:
        return None
    if kept.number == plan.start:
        return kept
    enter_items(path, kept.slots, kept.number, plan.start)
    return _Slots(kept.slots, plan.start, int(np.count_nonzero(kept.slots)))
