"""The second stage: one IndexFile a task, from the items that the splits left.

Items stand in log order over all files, so file n holds the items [n * capacity, (n + 1) * capacity). Within a file the
chains depend on the order; files do not depend on one another, but for the time that a file begins with.

Source: `IndexService.buildIndex`, `IndexService.getAndCreateLastIndexFile`, `IndexFile.putKey`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats import index_file
from reput.formats.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput.index.files import changed_slots, read_items, read_slots, write_slots
from reput.kernels import kernels
from reput.pipeline import parts
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.sink import finish_file, finish_folders

_ITEMS_AT_ONCE = 1 << 16
_ITEMS_READ = 1 << 20


class ItemSegment(NamedTuple):
    """Items [begin, end) of a split's part."""

    split: int
    begin: int
    end: int


class IndexFilePlan(NamedTuple):
    """One IndexFile to build: its name, its items, and the item before them (None for the first file).

    `start` is the number of its first new item: 1 in a new file, more where a file that is there goes on. `end_before`
    tells physical offset and time of the last item before a new file, where no split of this job holds it.
    """

    name: str
    segments: tuple[ItemSegment, ...]
    before: ItemSegment | None
    start: int = 1
    end_before: tuple[int, int] = (0, 0)

    @property
    def items(self) -> int:
        """Items in the file."""
        return sum(segment.end - segment.begin for segment in self.segments)


class IndexFileResult(NamedTuple):
    """An IndexFile as it was built."""

    name: str
    header: index_file.Header


class IndexEnd(NamedTuple):
    """Where the present IndexFiles end: the last one's name, the next item number in it, its last item's place.

    `last`: physical offset and store time (ms). Without a file the name is empty.
    """

    name: str = ""
    next_item: int = 1
    last: tuple[int, int] = (0, 0)


def plan_index_files(
    results: Sequence[SplitResult], capacity: int, names: Iterator[str], end: IndexEnd | None = None
) -> list[IndexFilePlan]:
    """The IndexFiles that hold the items of all splits, behind those that are there already up to `end`.

    RocketMQ makes a file when a message is dispatched and there is none, or the last is full: so a log without keys has
    one empty file, and a last file that is exactly full is followed by an empty one if any message came after.
    """
    end = end or IndexEnd()
    plans: list[IndexFilePlan] = []
    current: list[ItemSegment] = []
    room = capacity - (end.next_item - 1)
    for result in results:
        begin = 0
        while begin < result.items:
            if room == 0:
                if current:
                    plans.append(_plan(plans, current, names, end))
                current, room = [], capacity
                end = end._replace(name="", next_item=1)
            until = min(result.items, begin + room)
            current.append(ItemSegment(result.number, begin, until))
            room -= until - begin
            begin = until
    if current:
        plans.append(_plan(plans, current, names, end))
        end = end._replace(name="", next_item=1)
    full = room == 0 and _records_after(results) > 0
    if (not plans and not end.name and any(result.records for result in results)) or full:
        plans.append(_plan(plans, [], names, end._replace(name="", next_item=1)))
    return plans


def _plan(
    plans: list[IndexFilePlan], segments: list[ItemSegment], names: Iterator[str], end: IndexEnd
) -> IndexFilePlan:
    """The next file's plan: the present file goes on, or a new one begins."""
    name = end.name if end.name and not plans else next(names)
    start = end.next_item if end.name and not plans else 1
    return IndexFilePlan(name, tuple(segments), _item_before(plans), start, end.last)


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


def index_names(start: datetime, behind: str = "") -> Iterator[str]:
    """Names for new IndexFiles: local times from `start` on, a millisecond apart, so unique and ascending.

    All stand behind the name `behind`, even where the clock was set back since that was given.
    """
    moment = start
    while True:
        name = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
        if name <= behind:
            moment = datetime.strptime(behind[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 - a local time, as RocketMQ names
            moment = moment.replace(microsecond=int(behind[14:]) * 1000)
        else:
            yield name
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
        finish_folders(job, [job.index_folder])
    return IndexFileResult(plan.name, header)


class _FileBuilder:
    """Chains the segments of one file through a buffer that stays in the cache."""

    def __init__(self, job: Job, plan: IndexFilePlan, descriptor: int) -> None:
        self.job = job
        self.plan = plan
        self.descriptor = descriptor
        self.slots: NDArray[np.int32] = np.zeros(job.index_slots, dtype=np.int32)
        self.used_slots = 0
        self.number = plan.start
        # Until item 1 is in, times count from the end of the file before.
        self.begin_timestamp = 0
        self.out: NDArray[np.uint8] = np.empty(_ITEMS_AT_ONCE * ITEM_SIZE, dtype=np.uint8)

    def build(self) -> index_file.Header:
        """Write the file; its header is returned too."""
        before = self._last_of(self.plan.before) if self.plan.before else self.plan.end_before
        self.begin_timestamp = before[1]
        first, last = before, before
        if self.plan.start > 1:
            first = self._go_on()
        for segment in self.plan.segments:
            columns = parts.load_items(self.job, segment.split)
            if self.number == 1:
                first = columns.place_of(segment.begin)
            last = columns.place_of(segment.end - 1)
            self._chain(columns, segment.begin, segment.end)
        header = index_file.Header(first[1], last[1], first[0], last[0], self.used_slots, self.number)
        path = Path(self.job.index_folder) / self.plan.name
        write_slots(self.descriptor, self.slots, changed_slots(path, self.slots))
        fs.pwrite(self.descriptor, index_file.encode_header(header), 0)
        return header

    def _go_on(self) -> tuple[int, int]:
        """Take up the file that is there; returns physical offset and time of its first item."""
        path = Path(self.job.index_folder) / self.plan.name
        header = index_file.decode_header(fs.read_bytes(path, HEADER_SIZE) or b"")
        self.slots = slots_below(path, self.job.index_slots, self.plan.start)
        self.used_slots = int(np.count_nonzero(self.slots))
        self.begin_timestamp = header.begin_timestamp
        return header.begin_physical_offset, header.begin_timestamp

    def _last_of(self, segment: ItemSegment) -> tuple[int, int]:
        return parts.load_items(self.job, segment.split).place_of(segment.begin)

    def _chain(self, columns: parts.ItemColumns, begin: int, end: int) -> None:
        items_start = HEADER_SIZE + self.job.index_slots * SLOT_SIZE
        while begin < end:
            until = min(end, begin + _ITEMS_AT_ONCE)
            fresh, self.begin_timestamp = kernels().chain_items(
                columns.record_of(begin),
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


def slots_below(path: Path, slots: int, number: int) -> NDArray[np.int32]:
    """The slots of a file as its items below `number` make them (int32).

    They are a pure function of the items: where a slot names a later item, a job died before it was published, and all
    are made anew.
    """
    present = read_slots(path, slots)
    if len(present) == slots and int(present.max(initial=0)) < number and int(present.min(initial=0)) >= 0:
        return present
    made = np.zeros(slots, dtype=np.int32)
    for begin in range(1, number, _ITEMS_READ):
        items = read_items(path, slots, begin, min(_ITEMS_READ, number - begin))
        # Of items in one slot the last wins, as numpy assigns.
        made[items["key_hash"].astype(np.int64) % slots] = np.arange(begin, begin + len(items), dtype=np.int32)
    return made
