"""The plan of the IndexFiles: the items of each new file, and of the last present one.

Items are in log order over all files, so file n holds the items [n * capacity, (n + 1) * capacity). Within a file the
chains depend on the order. Files do not depend on one another, except for the time that a file begins with.

Source: `IndexService.buildIndex`, `IndexService.getAndCreateLastIndexFile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from reput.files import fs
from reput.formats.index import index_file
from reput.pipeline.split.job import Job, SplitResult


class ItemSegment(NamedTuple):
    """Items [begin, end) of a split's part."""

    split: int
    begin: int
    end: int


class IndexFilePlan(NamedTuple):
    """One IndexFile to build: its name, its items, and the item before them (None for the first file).

    `start` is the number of its first new item: 1 in a new file, more in a present file. `end_before` is the physical
    offset and time of the last item before a new file, if no split of this job holds that item.
    """

    name: str
    segments: tuple[ItemSegment, ...]
    before: ItemSegment | None
    start: int = 1
    end_before: tuple[int, int] = (0, 0)

    @property
    def items(self) -> int:
        """The items in the file."""
        return sum(segment.end - segment.begin for segment in self.segments)


class IndexEnd(NamedTuple):
    """The end of the present IndexFiles: the last one's name, the next item number in it, and its last item's place.

    `last`: physical offset and store time (ms). Without a file the name is empty.
    """

    name: str = ""
    next_item: int = 1
    last: tuple[int, int] = (0, 0)


class IndexFileResult(NamedTuple):
    """An IndexFile as it was built."""

    name: str
    header: index_file.Header

    @property
    def end(self) -> IndexEnd:
        """The end of the IndexFiles, if this is the last one."""
        header = self.header
        return IndexEnd(self.name, header.index_count, (header.end_physical_offset, header.end_timestamp))


def plan_index_files(
    results: Sequence[SplitResult], capacity: int, names: Iterator[str], end: IndexEnd | None = None
) -> list[IndexFilePlan]:
    """Return the IndexFiles that hold the items of all splits, after the present ones, which end at `end`.

    RocketMQ makes a file when it dispatches a message and there is no file, or the last one is full. So a log without
    keys has one empty file, and an empty file follows a full last file if any message came after.
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


def plan_of(job: Job, results: Sequence[SplitResult], end: IndexEnd | None = None) -> list[IndexFilePlan]:
    """Plan the IndexFiles of a job now, after those that end at `end`, and make their folder."""
    end = end or IndexEnd()
    fs.make_dirs(job.index_folder, job.owner)
    names = index_names(datetime.now(), end.name)  # noqa: DTZ005 - RocketMQ names them by local time
    return plan_index_files(results, index_file.capacity(job.index_items), names, end)


def _plan(
    plans: list[IndexFilePlan], segments: list[ItemSegment], names: Iterator[str], end: IndexEnd
) -> IndexFilePlan:
    """Return the next file's plan: the present file continues, or a new one begins."""
    name = end.name if end.name and not plans else next(names)
    start = end.next_item if end.name and not plans else 1
    return IndexFilePlan(name, tuple(segments), _item_before(plans), start, end.last)


def _item_before(plans: list[IndexFilePlan]) -> ItemSegment | None:
    if not plans:
        return None
    segment = plans[-1].segments[-1]
    return segment._replace(begin=segment.end - 1)


def _records_after(results: Sequence[SplitResult]) -> int:
    """Return the number of records after the last one with an item."""
    records = 0
    for result in reversed(results):
        if result.items:
            return records + result.records_after_last_item
        records += result.records
    return records


def index_names(start: datetime, last: str = "") -> Iterator[str]:
    """Yield names for new IndexFiles: local times from `start` on, a millisecond apart, so unique and ascending.

    All sort after the name `last`, even if the clock was set back since that was given.
    """
    moment = start
    while True:
        name = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
        if name <= last:
            moment = datetime.strptime(last[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 - a local time, as RocketMQ names
            moment = moment.replace(microsecond=int(last[14:]) * 1000)
        else:
            yield name
        moment += timedelta(milliseconds=1)


def largest_first(plans: Sequence[IndexFilePlan]) -> list[IndexFilePlan]:
    """Return the order in which tasks should begin: the longest must not begin last."""
    return sorted(plans, key=lambda plan: -plan.items)
