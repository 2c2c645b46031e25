"""The judgement of a queue whose entries differ from its records, for every kind of queues.

| what is there | judged as |
|---|---|
| entries that are not what their records give | damage |
| no entry before the first one, or none at all, and the store shows that the topic was deleted | a note |
| no entry after the last one | the queue is out of date: damage, or what a crash leaves |
| no entry between two others | damage |
| nothing of the queue, and its records wait for their indexes | the same as an end that is missing |
| nothing of the queue | the queue is lost: damage |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reput.formats.queue.consume_queue import ENTRY_SIZE, OffsetRange, QueueKey
from reput.nearest import FEW, some
from reput.pipeline.check.findings import indexed_to, is_unindexed, what_is_there
from reput.pipeline.check.gone import Gone, note_gone_on_purpose
from reput.pipeline.check.queue_file_tasks import place_in_queue
from reput.pipeline.check.state import Check
from reput.pipeline.split.sink import queue_path
from reput.queue.compare import Compared


class LackingQueue(NamedTuple):
    """A queue whose entries differ from those that its records give.

    `expected`: the numbers of the entries that its records give; `is_there`: the store has something of the queue;
    `is_in_order`: these numbers are consecutive in the log.
    """

    key: QueueKey
    expected: OffsetRange
    entries: Compared
    is_there: bool
    is_in_order: bool = True


class Place(NamedTuple):
    """The place of an entry: a file, the byte in it (None: unknown), and the beginning of a finding's detail."""

    file: str
    offset: int | None
    where: str = ""


class QueueJudge(ABC):
    """Judges the queues of one kind, and reports what is wrong with them: `take` each, then `end`."""

    counted = "offset"
    """The name of an entry's number."""
    content = "messages"
    """The name of what one entry is for."""
    without = "without a folder"
    """The state of a queue of which nothing is there."""

    def __init__(self, check: Check, kind: str, folder: Path) -> None:
        self.check = check
        self.kind = kind
        self.folder = folder
        self._waiting: list[LackingQueue] = []
        self._lost: list[LackingQueue] = []

    @abstractmethod
    def place_of(self, key: QueueKey, number: int) -> Place:
        """Return the place of the entry with a number, and of a queue that is not there the lowest folder that is."""

    @abstractmethod
    def waits(self, offset: int) -> bool:
        """Return True if the record at a log offset waits for its entry, so that its queue may not be there yet."""

    def is_lost(self, offset: int) -> bool:  # noqa: ARG002 - a kind in a database goes on where it ends
        """Return True if the record at a log offset had its entry, durably, so that no opening makes it again."""
        return False

    def folder_of(self, key: QueueKey) -> str:
        """Return the place of a queue, for people."""
        return queue_path(str(self.folder), key)

    def take(self, queue: LackingQueue) -> None:
        """Judge one queue. Queues of which nothing is there are reported together, at the `end`."""
        check, entries, key = self.check, queue.entries, queue.key
        offsets = queue.expected if queue.is_there else None
        lacking = entries.missing + entries.wrong
        place, is_in_order = self.folder_of(key), queue.is_in_order
        if note_gone_on_purpose(check, Gone(self.kind, key, place, offsets, lacking, entries.lacking_to, is_in_order)):
            return
        if entries.wrong:
            file, offset, where = self.place_of(key, entries.first_wrong)
            detail = f"entries that are not what their records give, first queue {self.counted} {entries.first_wrong}"
            check.report.damage("queue-entry-wrong", file, offset, entries.wrong, where + detail)
        if not entries.missing or key in check.half_deleted:
            return
        if not queue.is_there:
            (self._waiting if self.waits(entries.missing_from) else self._lost).append(queue)
            return
        file, offset, where = self.place_of(key, entries.first_missing)
        # A kill leaves a queue that lacks entries at its end alone.
        if entries.first_missing + entries.missing == queue.expected.max_offset:
            end = queue.expected.max_offset
            detail = f"the queue ends at {self.counted} {entries.first_missing}, its records at {end}"
            report = check.report.damage if self.is_lost(entries.missing_from) else check.out_of_date
            report("queue-out-of-date", file, offset, entries.missing, where + detail)
        elif self.waits(entries.missing_from):
            # A power cut keeps any part of what is not durable: a later file, too.
            detail = f"records from {self.counted} {entries.first_missing} on wait for entries; later ones have some"
            check.out_of_date("queue-out-of-date", file, offset, entries.missing, where + detail)
        else:
            detail = f"records without an entry, first queue {self.counted} {entries.first_missing}"
            check.report.damage("queue-entry-missing", file, offset, entries.missing, where + detail)

    def end(self) -> None:
        """Report the queues of which nothing is there."""
        place, _, where = what_is_there(str(self.folder), 0)
        if self._waiting:
            total = sum(one.entries.missing for one in self._waiting)
            detail = f"{where}queues {self.without} yet: {self._named(self._waiting)}; {total} {self.content} wait"
            self.check.out_of_date("queue-out-of-date", place, None, total, detail)
        if self._lost:
            total = sum(one.entries.missing for one in self._lost)
            detail = f"{where}queues {self.without}: {self._named(self._lost)}; {total} {self.content}"
            self.report_lost(place, len(self._lost), f"{detail} cannot be consumed")

    def report_lost(self, place: str, count: int, detail: str) -> None:
        """Report queues that are lost."""
        self.check.report.damage("queue-missing", place, None, count, detail)

    def _named(self, queues: list[LackingQueue]) -> str:
        return some([str(one.key) for one in queues], FEW)


class JudgeOfFiles(QueueJudge):
    """Judges queues in files of `file_size` bytes, with entries of `entry_size`."""

    entry_size = ENTRY_SIZE

    def __init__(self, check: Check, kind: str, folder: Path, file_size: int) -> None:
        super().__init__(check, kind, folder)
        self.file_size = file_size

    def place_of(self, key: QueueKey, number: int) -> Place:
        """Return the file and the byte in it."""
        place = place_in_queue(self.folder_of(key), self.file_size, number * self.entry_size)
        return Place(*what_is_there(*place))

    def waits(self, offset: int) -> bool:
        """See `is_unindexed`."""
        return is_unindexed(self.check, offset)

    @cached_property
    def _indexed_to(self) -> int:
        return indexed_to(self.check)

    def is_lost(self, offset: int) -> bool:
        """Return True for a record below the durable frontier, from which an opening goes on."""
        return offset < self._indexed_to
