"""Appending a few items to the last IndexFile, again and again: what a batch costs must not grow with the file.

A worker keeps the slots of the file that it wrote last (20 MB for RocketMQ's size). They are a pure function of the
items, so a worker that comes to a file after others have written to it takes in the items that it has not seen. It
writes only the pages whose slots changed: all slots of a file would be 20 MB a batch.
"""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats import index_file
from reput.formats.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput.index.files import changed_slots, read_items, write_slots
from reput.kernels import kernels
from reput.kernels.columns import Columns
from reput.pipeline.index_build import (
    IndexEnd,
    IndexFilePlan,
    IndexFileResult,
    index_names,
    plan_index_files,
    slots_below,
)
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.sink import finish_file, finish_folders

_ITEMS_READ = 1 << 20


class _Slots(NamedTuple):
    """The slots of a file as its items below `number` make them; `used` of them are not empty."""

    identity: tuple[str, int, int, int]
    number: int
    slots: NDArray[np.int32]
    used: int


class _Kept(threading.local):
    """What this thread knows of the file that it wrote last."""

    slots: _Slots | None = None


_kept = _Kept()


def end_behind(file: IndexFileResult) -> IndexEnd:
    """Where the IndexFiles end, when this is the last one."""
    header = file.header
    return IndexEnd(file.name, header.index_count, (header.end_physical_offset, header.end_timestamp))


def append_items(
    job: Job, columns: Columns, result: SplitResult, end: IndexEnd, named_at: datetime
) -> list[IndexFileResult]:
    """Put a decoded range's items behind the last IndexFile's, in new files where it is full.

    A repeat with the same arguments writes the same bytes: the files' names come from `named_at`.
    """
    names = index_names(named_at, end.name)
    plans = plan_index_files([result], index_file.capacity(job.index_items), names, end)
    done: list[IndexFileResult] = []
    for plan in plans:
        before = end.last if not done else end_behind(done[-1]).last
        done.append(_append_to_file(job, plan, columns, before))
    if plans:
        finish_folders(job, [job.index_folder])
    return done


def _append_to_file(job: Job, plan: IndexFilePlan, columns: Columns, before: tuple[int, int]) -> IndexFileResult:
    path = f"{job.index_folder}/{plan.name}"
    size = index_file.file_size(job.index_slots, job.index_items)
    descriptor = fs.open_sized(path, size, job.owner)
    try:
        with fs.errors_named(path, f"append {plan.items} items"):
            header = _append(job, plan, columns, before, descriptor)
            finish_file(job, descriptor)
    finally:
        fs.close(descriptor)
    return IndexFileResult(plan.name, header)


def _append(
    job: Job, plan: IndexFilePlan, columns: Columns, before: tuple[int, int], descriptor: int
) -> index_file.Header:
    known = _slots_of(job, plan, descriptor)
    _kept.slots = None
    first, last, begin_timestamp = before, before, before[1]
    if plan.start > 1:
        header = index_file.decode_header(fs.read_bytes(f"{job.index_folder}/{plan.name}", HEADER_SIZE) or b"")
        first, begin_timestamp = (header.begin_physical_offset, header.begin_timestamp), header.begin_timestamp
    number, used = plan.start, known.used
    begin = plan.segments[0].begin if plan.segments else 0
    until = plan.segments[-1].end if plan.segments else 0
    if until > begin:
        if number == 1:
            first = _place_of(columns, begin)
        last = _place_of(columns, until - 1)
        out: NDArray[np.uint8] = np.empty((until - begin) * ITEM_SIZE, dtype=np.uint8)
        fresh, begin_timestamp = kernels().chain_items(
            _record_of(columns, begin),
            begin,
            until,
            columns.first_item,
            columns.position,
            columns.store_timestamp,
            columns.item_hash,
            known.slots,
            number,
            begin_timestamp,
            out,
        )
        # Items before slots before header: a reader of the old header follows nothing that is not there.
        fs.pwrite(descriptor, out.data, HEADER_SIZE + job.index_slots * SLOT_SIZE + number * ITEM_SIZE)
        write_slots(descriptor, known.slots, columns.item_hash[begin:until].astype(np.int64) % job.index_slots)
        used += fresh
        number += until - begin
    header = index_file.Header(first[1], last[1], first[0], last[0], used, number)
    fs.pwrite(descriptor, index_file.encode_header(header), 0)
    _kept.slots = known._replace(number=number, used=used)
    return header


def _slots_of(job: Job, plan: IndexFilePlan, descriptor: int) -> _Slots:
    """The slots in front of the plan's first item: those that this worker kept, brought up to it, or the file's."""
    path = f"{job.index_folder}/{plan.name}"
    identity = (path, job.begun, fs.inode_of(descriptor), job.index_slots)
    if plan.start == 1:
        # A new file, or one that a killed job left under this name: all slots become empty.
        slots = np.zeros(job.index_slots, dtype=np.int32)
        write_slots(descriptor, slots, changed_slots(Path(path), slots))
        return _Slots(identity, 1, slots, 0)
    kept = _kept.slots
    if kept is None or kept.identity != identity or kept.number > plan.start:
        slots = slots_below(Path(path), job.index_slots, plan.start)
        write_slots(descriptor, slots, changed_slots(Path(path), slots))
        return _Slots(identity, plan.start, slots, int(np.count_nonzero(slots)))
    for begin in range(kept.number, plan.start, _ITEMS_READ):
        items = read_items(Path(path), job.index_slots, begin, min(_ITEMS_READ, plan.start - begin))
        touched = items["key_hash"].astype(np.int64) % job.index_slots
        kept.slots[touched] = np.arange(begin, begin + len(items), dtype=np.int32)
    used = kept.used if kept.number == plan.start else int(np.count_nonzero(kept.slots))
    return kept._replace(number=plan.start, used=used)


def _record_of(columns: Columns, item: int) -> int:
    """The record that an item belongs to."""
    return int(np.searchsorted(columns.first_item[: columns.records + 1], item, side="right")) - 1


def _place_of(columns: Columns, item: int) -> tuple[int, int]:
    """Physical offset and store time of the record that an item belongs to."""
    record = _record_of(columns, item)
    return int(columns.position[record]), int(columns.store_timestamp[record])
