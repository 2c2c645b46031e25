"""The second stage: one IndexFile a task, from the items that the splits left.

Items stand in log order over all files, so file n holds the items [n * capacity, (n + 1) * capacity). Within a file the
chains depend on the order; files do not depend on one another, but for the time that a file begins with.

Source: `IndexService.buildIndex`, `IndexService.getAndCreateLastIndexFile`, `IndexFile.putKey`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats import index_file
from reput.formats.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput.kernels import kernels
from reput.pipeline import parts
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.sink import finish_file

_ITEMS_AT_ONCE = 1 << 16


class ItemSegment(NamedTuple):
    """Items [begin, end) of a split's part; `records` and `items` are the part's lengths."""

    split: int
    records: int
    items: int
    begin: int
    end: int


class IndexFilePlan(NamedTuple):
    """One IndexFile to build: its name, its items, and the item before them (None for the first file)."""

    name: str
    segments: tuple[ItemSegment, ...]
    before: ItemSegment | None

    @property
    def items(self) -> int:
        """Items in the file."""
        return sum(segment.end - segment.begin for segment in self.segments)


class IndexFileResult(NamedTuple):
    """An IndexFile as it was built."""

    name: str
    header: index_file.Header


def plan_index_files(results: Sequence[SplitResult], capacity: int, names: Iterator[str]) -> list[IndexFilePlan]:
    """The IndexFiles that hold the items of all splits.

    RocketMQ makes a file when a message is dispatched and there is none, or the last is full: so a log without keys has
    one empty file, and a last file that is exactly full is followed by an empty one if any message came after.
    """
    plans: list[IndexFilePlan] = []
    current: list[ItemSegment] = []
    room = capacity
    last: ItemSegment | None = None
    for result in results:
        begin = 0
        while begin < result.items:
            if room == 0:
                plans.append(IndexFilePlan(next(names), tuple(current), _item_before(plans)))
                current, room = [], capacity
            end = min(result.items, begin + room)
            last = ItemSegment(result.number, result.records, result.items, begin, end)
            current.append(last)
            room -= end - begin
            begin = end
    if current:
        plans.append(IndexFilePlan(next(names), tuple(current), _item_before(plans)))
    full = room == 0 and _records_after(results) > 0
    if (not plans and any(result.records for result in results)) or full:
        plans.append(IndexFilePlan(next(names), (), _item_before(plans)))
    return plans


def _item_before(plans: list[IndexFilePlan]) -> ItemSegment | None:
    if not plans:
        return None
    segment = plans[-1].segments[-1]
    return segment._replace(begin=segment.end - 1)


def _records_after(results: Sequence[SplitResult]) -> int:
    """Records behind the last one that has an item."""
    records = 0
    for result in reversed(results):
        if result.items:
            return records + result.records_after_last_item
        records += result.records
    return records


def index_names(start: datetime) -> Iterator[str]:
    """Names for new IndexFiles: local times from `start` on, a millisecond apart, so unique and ascending."""
    moment = start
    while True:
        yield moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
        moment += timedelta(milliseconds=1)


def build_index_file(job: Job, plan: IndexFilePlan) -> IndexFileResult:
    """Build one IndexFile: items first, then slots, then the header."""
    path = f"{job.index_folder}/{plan.name}"
    size = index_file.file_size(job.index_slots, job.index_items)
    with job.writing():
        descriptor = fs.open_sized(path, size, job.owner)
        try:
            with fs.errors_named(path, f"write an IndexFile of {plan.items} items"):
                header = _FileBuilder(job, plan, descriptor).build()
                finish_file(job, descriptor)
        finally:
            fs.close(descriptor)
    return IndexFileResult(plan.name, header)


class _FileBuilder:
    """Chains the segments of one file through a buffer that stays in the cache."""

    def __init__(self, job: Job, plan: IndexFilePlan, descriptor: int) -> None:
        self.job = job
        self.plan = plan
        self.descriptor = descriptor
        self.slots: NDArray[np.int32] = np.zeros(job.index_slots, dtype=np.int32)
        self.used_slots = 0
        self.number = 1
        # Until item 1 is in, times count from the end of the file before.
        self.begin_timestamp = 0
        self.out: NDArray[np.uint8] = np.empty(_ITEMS_AT_ONCE * ITEM_SIZE, dtype=np.uint8)

    def build(self) -> index_file.Header:
        """Write the file; its header is returned too."""
        before = self._last_of(self.plan.before)
        self.begin_timestamp = before[1]
        first, last = before, before
        for segment in self.plan.segments:
            columns = parts.load_items(
                parts.items_path(self.job.parts_folder, segment.split), segment.records, segment.items
            )
            if self.number == 1:
                first = _place_of(columns, segment.begin)
            last = _place_of(columns, segment.end - 1)
            self._chain(columns, segment.begin, segment.end)
        header = index_file.Header(first[1], last[1], first[0], last[0], self.used_slots, self.number)
        fs.pwrite(self.descriptor, self.slots.byteswap().data.cast("B"), HEADER_SIZE)
        fs.pwrite(self.descriptor, index_file.encode_header(header), 0)
        return header

    def _last_of(self, segment: ItemSegment | None) -> tuple[int, int]:
        if segment is None:
            return 0, 0
        path = parts.items_path(self.job.parts_folder, segment.split)
        return _place_of(parts.load_items(path, segment.records, segment.items), segment.begin)

    def _chain(self, columns: parts.ItemColumns, begin: int, end: int) -> None:
        items_start = HEADER_SIZE + self.job.index_slots * SLOT_SIZE
        while begin < end:
            until = min(end, begin + _ITEMS_AT_ONCE)
            fresh, self.begin_timestamp = kernels().chain_items(
                _record_of(columns, begin),
                begin,
                until,
                columns.first_item,
                columns.position,
                columns.store_timestamp,
                columns.item_hash,
                self.slots,
                self.number,
                self.begin_timestamp,
                self.out,
            )
            piece = self.out.data[: (until - begin) * ITEM_SIZE]
            at = items_start + self.number * ITEM_SIZE
            fs.pwrite(self.descriptor, piece, at)
            # The disk works while the next items are chained; what is left for the sync at the end is little.
            fs.start_writeback(self.descriptor, at, len(piece))
            self.used_slots += fresh
            self.number += until - begin
            begin = until


def _record_of(columns: parts.ItemColumns, item: int) -> int:
    """The record that an item belongs to."""
    return int(np.searchsorted(columns.first_item, item, side="right")) - 1


def _place_of(columns: parts.ItemColumns, item: int) -> tuple[int, int]:
    """Physical offset and store time of the record that an item belongs to."""
    record = _record_of(columns, item)
    return int(columns.position[record]), int(columns.store_timestamp[record])
