"""convert from the present queues: tasks read their entries, and hand them to the kinds to build.

A task has some queues, or a stretch of a long one, and leaves what a decode task leaves of a split; the later stages
are those of a rebuild. The log is read only for what a kind does not store, the store times of file queues. An entry
whose record is gone is kept, with the time of the entry before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.log.record import HEAD, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueRange, is_blank
from reput.log.read.maps import LogMaps
from reput.pipeline.build.queues.ext import store_times
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job
from reput.pipeline.split.parts import QueueRanges
from reput.pipeline.split.sinks import MESSAGE_SINKS, TimedRun
from reput.queue.compare import compare, rows_of
from reput.queue.ext import ExtReader
from reput.queue.kinds import QueueKind, QueueOnDisk, ReadableQueues
from reput.queue.runs import EntryRun
from reput.store.disk.kinds import kinds_named
from reput.store.disk.layout import StoreLayout
from reput.store.read.sql_filter import plain_entries

_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """The source of entries: a store's queues of one kind, up to log offset `covered`, and its log.

    Attributes:
        ext_file_size: None for a store without ext.
        needs_records: each entry's record must exist.
    """

    layout: StoreLayout
    kind: ReadableQueues
    queue_file_size: int
    ext_file_size: int | None
    needs_records: bool
    log_file_size: int
    log_end: int
    covered: int


class QueuePart(NamedTuple):
    """Entries of a queue; `goes_on`: the queue has more after them."""

    entries: QueueRange
    goes_on: bool


class SourceTask(NamedTuple):
    """The input of one task: its number, and parts in the order of RocksDB's keys."""

    number: int
    parts: tuple[QueuePart, ...]


class ReadCounts(NamedTuple):
    """The counts of a task: entries, blanks among them, and entries without a record in the log; and the last record.

    `last_record` and `last_record_size` are its log offset (-1: none) and its length.
    """

    number: int
    entries: int
    blanks: int
    without_record: int
    last_record: int
    last_record_size: int


def take_entries(job: Job, source: Source, task: SourceTask) -> ReadCounts:
    """Read some queues, and leave their entries for every kind that is built."""
    reader = _CountingReader(source)
    rows = [one for part, queue in _queues(source, task) for one in reader.read(part, queue)]
    with job.writing():
        for kind in job.kinds:
            MESSAGE_SINKS[kind].take_rows(job, task.number, rows)
        parts.save_key_ranges(job, task.number, _ranges(task))
    return ReadCounts(
        task.number,
        sum(part.entries.end - part.entries.first for part in task.parts),
        reader.blanks,
        reader.without_record,
        reader.last_record,
        reader.last_record_size,
    )


def _ranges(task: SourceTask) -> QueueRanges:
    first = np.array([part.entries.first for part in task.parts], dtype=np.int64)
    end = np.array([part.entries.end for part in task.parts], dtype=np.int64)
    steady = np.ones(len(first), dtype=np.uint8)
    return QueueRanges([part.entries.key for part in task.parts], first, end - 1, end - first, steady)


def compare_staged(job: Job, source: Source, task: SourceTask) -> list[str]:
    """Read the same again, and compare it with what is staged; return a line for each queue that differs."""
    is_separate = job.database_part != paths.CONSUME_QUEUE
    staged = replace(source.layout, root=Path(job.staging), separate_database=is_separate)
    kinds = kinds_named(job.kinds, staged, job.queue_file_size)
    ext = ExtReader(Path(job.ext_folder), job.ext.file_size) if job.ext is not None else None
    different = []
    for kind in kinds:
        found = {queue.key: wrong for queue, wrong in _compared(kind, _CountingReader(source), source, task, ext)}
        different += [
            f"{part.entries.key} ({kind.name}): {found.get(part.entries.key, 'is not there')}"
            for part in task.parts
            if job.holds(kind.name, part.entries.key) and found.get(part.entries.key, "is not there")
        ]
    return different


def _compared(
    kind: QueueKind, reader: _CountingReader, source: Source, task: SourceTask, ext: ExtReader | None
) -> Iterator[tuple[QueueOnDisk, str]]:
    """Yield the staged queues of a task, each with what is wrong with it."""
    with kind.asked() as staged_queue:
        for part, queue in _queues(source, task):
            staged = staged_queue(part.entries.key)
            if staged is not None:
                yield staged, _difference(staged, part, reader.read(part, queue), ext)


def _difference(staged: QueueOnDisk, part: QueuePart, expected: Iterator[TimedRun], ext: ExtReader | None) -> str:
    end = staged.bounds().max_offset
    if end != part.entries.end and not (part.goes_on and end > part.entries.end):
        return f"ends at queue offset {end}, not at {part.entries.end}"
    for rows in expected:
        entries, times = staged.rows(rows.run.first, rows.run.next)
        if ext is not None:
            entries = plain_entries(entries, part.entries.key, ext)
        found = np.concatenate(compare(rows.run.rows, rows_of(entries, ENTRY_SIZE)))
        if times is not None:
            found = np.concatenate([found, np.flatnonzero(times != rows.store_timestamps)])
        if len(found):
            return f"another entry at queue offset {rows.run.first + int(found.min())}"
    return ""


def _queues(source: Source, task: SourceTask) -> Iterator[tuple[QueuePart, QueueOnDisk]]:
    """Yield the parts of a task with their queues.

    Raises:
        DamagedStoreError: a queue has gone.
    """
    with source.kind.asked() as source_queue:
        for part in task.parts:
            queue = source_queue(part.entries.key)
            if queue is None:
                raise DamagedStoreError(f"{source.kind.folder}: {part.entries.key} has gone while it was read")
            yield part, queue


class _CountingReader:
    """A reader of entries, piece by piece, that counts what is odd about them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.log = LogMaps(source.layout.commit_log, source.log_file_size)
        size = source.ext_file_size
        self.ext = ExtReader(source.layout.consume_queue_ext, size) if size is not None else None
        self.blanks = self.without_record = 0
        self.last_record = self.last_record_size = -1

    def read(self, part: QueuePart, queue: QueueOnDisk) -> Iterator[TimedRun]:
        """Yield the entries of a part, with plain tags codes and store times."""
        time_before = 0
        for begin in range(part.entries.first, part.entries.end, _AT_ONCE):
            entries, stored_times = queue.rows(begin, min(begin + _AT_ONCE, part.entries.end))
            rows = entries.view(ENTRY.dtype)
            places, sizes = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
            blank = is_blank(places, sizes)
            self._refuse_impossible(queue, begin, places, sizes, blank)
            times = (
                self._times(places, sizes, blank) if stored_times is None or self.source.needs_records else stored_times
            )
            times = _filled(times, blank, time_before) if stored_times is None else stored_times
            time_before = int(times[-1])
            self.blanks += int(np.count_nonzero(blank))
            self._keep_last(places, sizes, blank)
            if self.ext is not None:
                entries = plain_entries(entries, part.entries.key, self.ext)
            yield TimedRun(part.entries.key, EntryRun(begin, entries.data), times)

    def _refuse_impossible(
        self,
        queue: QueueOnDisk,
        first: int,
        places: NDArray[np.int64],
        sizes: NDArray[np.int64],
        blank: NDArray[np.bool_],
    ) -> None:
        wrong = ~blank & ((places < 0) | (sizes < MIN_RECORD_SIZE) | (places > self.source.log_end - sizes))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise DamagedStoreError(
                f"{queue.place_of(first + at)}: {queue.key}, queue offset {first + at} refers to {sizes[at]} bytes at "
                f"log offset {places[at]}, which the log (up to {self.source.log_end}) cannot have. Convert from the "
                "log: --source log"
            )

    def _keep_last(self, places: NDArray[np.int64], sizes: NDArray[np.int64], blank: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(~blank)
        if len(rows):
            row = rows[np.argmax(places[rows])]
            if places[row] > self.last_record:
                self.last_record, self.last_record_size = int(places[row]), int(sizes[row])

    def _times(
        self, places: NDArray[np.int64], sizes: NDArray[np.int64], blank: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the store times of the records at these places; -1 if there is none."""
        times = np.full(len(places), -1, dtype=np.int64)
        records = np.flatnonzero(~blank)
        for array, rows, start in self.log.by_file(places[records]):
            mine = records[rows]
            mine = mine[places[mine] - start + sizes[mine] <= len(array)]
            mine = mine[_is_record(array, places[mine] - start, places[mine], sizes[mine])]
            times[mine] = store_times(array, places[mine] - start)
        self.without_record += int(np.count_nonzero((times < 0) & ~blank))
        return times


def _is_record(
    array: NDArray[np.uint8], inside: NDArray[np.int64], places: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return at which of these places of a log file the head of such a record is."""
    found: NDArray[np.bool_] = HEAD.taken(array, inside, "total_size") == sizes
    found &= np.isin(HEAD.taken(array, inside, "magic"), (MAGIC_V1, MAGIC_V2))
    found &= HEAD.taken(array, inside, "physical_offset") == places
    return found


def _filled(times: NDArray[np.int64], blank: NDArray[np.bool_], before: int) -> NDArray[np.int64]:
    """Return times with the gaps filled.

    A blank gets that of the next message, another entry that of the entry before.
    """
    if not (times < 0).any():
        return times
    known = np.flatnonzero(times >= 0)
    if not len(known):
        return np.full(len(times), before, dtype=np.int64)
    rows = np.arange(len(times))
    later = np.searchsorted(known, rows)
    back = np.where(later < len(known), times[known[np.minimum(later, len(known) - 1)]], times[known[-1]])
    earlier = np.searchsorted(known, rows, side="right") - 1
    ahead = np.where(earlier >= 0, times[known[np.maximum(earlier, 0)]], before)
    filled: NDArray[np.int64] = np.where(times >= 0, times, np.where(blank, back, ahead))
    return filled


def plan_tasks(queues: Sequence[QueueRange], entries_a_task: int, queues_a_task: int) -> list[SourceTask]:
    """Cut queues, which are in the order of RocksDB's keys, into tasks of about `entries_a_task` entries."""
    tasks: list[SourceTask] = []
    held: list[QueuePart] = []
    room = entries_a_task

    def finish() -> None:
        nonlocal held, room
        if held:
            tasks.append(SourceTask(len(tasks), tuple(held)))
        held, room = [], entries_a_task

    for queue in queues:
        begin = queue.first
        while begin < queue.end:
            end = min(queue.end, begin + room)
            held.append(QueuePart(QueueRange(queue.key, begin, end), end < queue.end))
            room -= end - begin
            begin = end
            if not room or len(held) >= queues_a_task:
                finish()
    finish()
    return tasks
