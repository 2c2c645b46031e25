"""Tables for RocksDB: tasks merge the parts of a stretch of queues into sorted tables, by the order rule.

A table holds the queues of one stretch of keys, so tables do not overlap and are never compacted. Values go from the
splits' files, which are mapped, into blocks. Memory holds a block or two, and a row for each piece of a queue.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files.part_file import Part, part_path, write_part
from reput.files.rocksdb_table import TableFile, grouped
from reput.formats.own.part_file import PartKind
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, outer_places, queue_prefix
from reput.kernels.layouts.table import EntryPieces, Prefixes
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.rocksdb.columns import stretch_columns
from reput.pipeline.build.rocksdb.rules import OutOfOrderQueue
from reput.pipeline.split.job import Job
from reput.pipeline.split.parts import KEY_ROWS, TOPICS, key_columns, keys_of
from reput.pipeline.split.rocksdb_parts import PartRange
from reput.queue.runs import EntryRun

_AT_ONCE = 1 << 18
_TABLE_ENTRIES = 4 << 20


class TableQueues(NamedTuple):
    """The queues of one task's tables: its number, their ranges in the parts, and the queues that are out of order.

    `ends`: the queue offset at which a queue out of order continues, if it has entries already.
    """

    number: int
    ranges: tuple[PartRange, ...]
    out_of_order: frozenset[QueueKey]
    ends: Mapping[QueueKey, int] = {}


class Built(NamedTuple):
    """The result of a task: tables in the order of their keys, queues, and outcomes of queues out of order.

    `name`: the name of the task's files; `tables`: the tables' names in the job's parts folder.
    """

    name: str
    tables: tuple[str, ...]
    queues: int
    entries: int
    outcomes: tuple[QueueOutcome, ...]


class QueueEnds(NamedTuple):
    """The ends of a stretch's queues, in the order of their keys.

    int64 each: queue offset and log offset of the first message (`first`, `first_physical`), and of the last one.
    """

    keys: list[QueueKey]
    first: NDArray[np.int64]
    first_physical: NDArray[np.int64]
    last: NDArray[np.int64]
    last_physical: NDArray[np.int64]


def build_tables(job: Job, stretch: TableQueues) -> Built:
    """Write the tables of a stretch of queues, and leave their ends for the driver."""
    # Each attempt writes files of its own, so that one that dies leaves a finished one alone.
    name = f"{stretch.number}-{uuid.uuid4().hex}"
    columns = stretch_columns(job, stretch.ranges)
    ends, outcomes, begin = columns.ends(), list[QueueOutcome](), 0
    with job.writing():
        tables = _Tables(f"{job.parts_folder}/{name}", columns.keys)
        for row, key in enumerate(columns.keys):
            if key not in stretch.out_of_order:
                continue
            tables.add(columns.entries_of(begin, row))
            reordered = OutOfOrderQueue(job, key, name)
            outcomes.append(reordered.build(partial(columns.runs_of, row), stretch.ends.get(key, 0)))
            ends[row] = tables.add_queue(row, reordered.result())
            begin = row + 1
        tables.add(columns.entries_of(begin, len(columns.keys)))
        made = tables.finished()
        present = np.flatnonzero(ends[:, 0] >= 0)
        keys = [columns.keys[row] for row in present.tolist()]
        _save_ends(job, name, keys, ends[present])
    entries = int((ends[present, 2] - ends[present, 0] + 1).sum())
    return Built(name, tuple(PurePath(path).name for path in made), len(keys), entries, tuple(outcomes))


def table_paths(job: Job, built: Built) -> list[str]:
    """Return the paths of the tables that a task made."""
    return [f"{job.parts_folder}/{name}" for name in built.tables]


class _Tables:
    """The tables of one task, which begin with `base`; a new one is begun every `_TABLE_ENTRIES`."""

    def __init__(self, base: str, keys: Sequence[QueueKey]) -> None:
        self._base = base
        self._prefixes = Prefixes.of([queue_prefix(key) for key in keys])
        self._made: list[str] = []
        self._table: TableFile | None = None

    def add(self, pieces: EntryPieces) -> None:
        """Append entries; without any no table is begun, since RocksDB refuses an empty one."""
        if not pieces.entries.any():
            return
        for group in grouped(pieces, _TABLE_ENTRIES):
            if self._table is None or self._table.entries >= _TABLE_ENTRIES:
                self._finish()
                path = f"{self._base}-{len(self._made)}.sst"
                self._table = TableFile(path, self._prefixes)
                self._made.append(path)
            self._table.add(group)

    def add_queue(self, row: int, runs: Iterable[EntryRun]) -> tuple[int, int, int, int]:
        """Append a queue whose runs are consecutive; returns its ends in the columns' order, -1 without an entry."""
        first = last = first_physical = last_physical = -1
        for run in runs:
            places = (row, run.first, run.next - run.first, run.rows.ctypes.data)
            self.add(EntryPieces(*(np.array([place], dtype=np.int64) for place in places)))
            begins, last_physical = outer_places(run.entries)
            if first < 0:
                first, first_physical = run.first, begins
            last = run.next - 1
        return first, first_physical, last, last_physical

    def _finish(self) -> None:
        if self._table is not None:
            self._table.finish()
            self._table = None

    def finished(self) -> tuple[str, ...]:
        """Return the complete tables."""
        self._finish()
        return tuple(self._made)


def chunks(runs: Iterable[EntryRun]) -> Iterator[tuple[int, bytes]]:
    """Yield the values of consecutive runs in chunks, each with its first queue offset."""
    begin, count, held = -1, 0, list[bytes]()
    for run in runs:
        for at in range(0, run.next - run.first, _AT_ONCE):
            values = run.entries[at * VALUE_SIZE : (at + _AT_ONCE) * VALUE_SIZE].tobytes()
            if not held:
                begin = run.first + at
            held.append(values)
            count += len(values) // VALUE_SIZE
            if count >= _AT_ONCE:
                yield begin, b"".join(held)
                held, count = [], 0
    if held:
        yield begin, b"".join(held)


# --- ends of queues --------------------------------------------------------------------------------


ENDS = PartKind(
    "ends", {"first": "i8", "first_physical": "i8", "last": "i8", "last_physical": "i8", **KEY_ROWS}, TOPICS
)


def _save_ends(job: Job, name: str, keys: Sequence[QueueKey], ends: NDArray[np.int64]) -> None:
    columns = dict(zip(QueueEnds._fields[1:], ends.T, strict=True))
    write_part(part_path(job.parts_folder, ENDS, name), ENDS, **columns, **key_columns(keys))


def load_ends(job: Job, built: Built) -> QueueEnds:
    """Return the ends of the queues in a task's tables."""
    part = Part(part_path(job.parts_folder, ENDS, built.name), ENDS)
    return QueueEnds(keys_of(part), *(part.read(name) for name in QueueEnds._fields[1:]))
