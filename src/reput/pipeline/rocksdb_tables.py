"""Tables for RocksDB: tasks merge what the splits have of a stretch of queues into sorted tables, by the redo's rules.

A table holds the queues of one stretch of keys, so tables do not overlap and are never compacted. Memory is bounded by
`_AT_ONCE` entries of one queue, beside a row a queue of the stretch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.database import TableWriter
from reput.formats.consume_queue import QueueKey
from reput.formats.rocksdb import VALUE_SIZE, queue_prefix
from reput.pipeline import parts
from reput.pipeline.job import Job
from reput.pipeline.queue_builder import QueueOutcome
from reput.pipeline.rocksdb_parts import PartRange, Piece, key_order, values_path
from reput.pipeline.rocksdb_rules import CrookedQueue

_AT_ONCE = 1 << 18
_TABLE_ENTRIES = 4 << 20
_FEW = 32


class Stretch(NamedTuple):
    """The queues that one task brings into tables: its number, what splits have of them, and which are crooked.

    `ends`: the queue offset at which a crooked queue goes on, where it has entries already.
    """

    number: int
    ranges: tuple[PartRange, ...]
    crooked: frozenset[QueueKey]
    ends: Mapping[QueueKey, int] = {}


class Built(NamedTuple):
    """What a task made: tables in the order of their keys, queues, and what the crooked ones did.

    `name`: of the task's files.
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


def build_tables(job: Job, stretch: Stretch) -> Built:
    """Write the tables of a stretch of queues, and leave their ends for the driver."""
    outcomes: list[QueueOutcome] = []
    entries = 0
    keys: list[QueueKey] = []
    ends: list[tuple[int, int, int, int]] = []
    # Each attempt writes files of its own, so that one that dies leaves a finished one alone.
    name = f"{stretch.number}-{uuid.uuid4().hex}"
    with job.writing(), _Tables(job, name) as tables:
        for key, pieces in queues_of(job, stretch.ranges):
            found: Iterable[Piece] = pieces
            if key in stretch.crooked:
                crooked = CrookedQueue(job, key, name)
                outcome = crooked.build(pieces, stretch.ends.get(key, 0))
                outcomes.append(outcome)
                found = crooked.result()
            end = tables.add(key, found)
            if end is not None:
                keys.append(key)
                ends.append(end)
                entries += end[2] - end[0] + 1
        _save_ends(job, name, keys, ends)
        made = tables.finished()
    return Built(name, made, len(keys), entries, tuple(outcomes))


def queues_of(job: Job, ranges: Sequence[PartRange]) -> Iterator[tuple[QueueKey, list[Piece]]]:
    """The queues of a stretch in the order of their keys, each with its pieces in log order."""
    found: dict[QueueKey, list[Piece]] = {}
    for part in ranges:
        queues = parts.load_ranges(parts.ranges_path(job.parts_folder, part.split), part.row_begin, part.row_end)
        path = values_path(job.parts_folder, part.split)
        size = part.entries * (VALUE_SIZE + (8 if part.has_offsets else 0))
        data = fs.map_file(path, size)
        at = part.entry_begin
        counts, firsts, steady = queues.entries.tolist(), queues.first.tolist(), queues.steady.tolist()
        for key, count, first, is_steady in zip(queues.keys, counts, firsts, steady, strict=True):
            values = data[at * VALUE_SIZE : (at + count) * VALUE_SIZE]
            offsets = None
            if not is_steady:
                begin = part.entries * VALUE_SIZE + at * 8
                offsets = (
                    data[begin : begin + count * 8].view(np.int64) if begin % 8 == 0 else _copied(data, begin, count)
                )
            found.setdefault(key, []).append(Piece(first, values, offsets))
            at += count
    for key in sorted(found, key=key_order):
        yield key, found[key]


def _copied(data: NDArray[np.uint8], begin: int, count: int) -> NDArray[np.int64]:
    return np.frombuffer(data[begin : begin + count * 8].tobytes(), dtype=np.int64)


class _Tables:
    """The tables of one task; a new one is begun every `_TABLE_ENTRIES`."""

    def __init__(self, job: Job, name: str) -> None:
        self._base = f"{job.parts_folder}/{name}"
        self._made: list[str] = []
        self._writer: TableWriter | None = None
        self._room = 0

    def add(self, key: QueueKey, pieces: Iterable[Piece]) -> tuple[int, int, int, int] | None:
        """Add a queue whose pieces follow one another; returns its ends, None where there is no entry."""
        prefix = queue_prefix(key)
        first = last = first_physical = last_physical = -1
        for begin, values in chunks(pieces):
            count = len(values) // VALUE_SIZE
            if first < 0:
                first, first_physical = begin, int.from_bytes(values[:8])
            last, last_physical = begin + count - 1, int.from_bytes(values[-VALUE_SIZE:][:8])
            self._write(prefix, begin, values, count)
        return (first, first_physical, last, last_physical) if first >= 0 else None

    def _write(self, prefix: bytes, first: int, values: bytes, count: int) -> None:
        if self._writer is None or self._room < count:
            self._finish()
            path = f"{self._base}-{len(self._made)}.sst"
            self._writer, self._room = TableWriter(path), _TABLE_ENTRIES
            self._made.append(path)
        keys = _few_keys(prefix, first, count) if count < _FEW else _many_keys(prefix, first, count)
        self._writer.add(keys, np.frombuffer(values, dtype=f"V{VALUE_SIZE}").tolist())
        self._room -= count

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._writer = None

    def finished(self) -> tuple[str, ...]:
        """The tables, complete."""
        self._finish()
        return tuple(self._made)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer = None


def _few_keys(prefix: bytes, first: int, count: int) -> list[bytes]:
    return [prefix + offset.to_bytes(8) for offset in range(first, first + count)]


def _many_keys(prefix: bytes, first: int, count: int) -> list[bytes]:
    """The same for many: rows of void become bytes in one call, in half the time of slices."""
    rows = np.empty((count, len(prefix) + 8), dtype=np.uint8)
    rows[:, : len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    rows[:, len(prefix) :] = np.arange(first, first + count).astype(">i8").view(np.uint8).reshape(count, 8)
    keys: list[bytes] = rows.view(f"V{rows.shape[1]}").reshape(-1).tolist()
    return keys


def chunks(pieces: Iterable[Piece]) -> Iterator[tuple[int, bytes]]:
    """The values of consecutive pieces in larger or smaller chunks, each with its first queue offset."""
    begin, count, held = -1, 0, list[bytes]()
    for piece in pieces:
        for at in range(0, piece.entries, _AT_ONCE):
            values = piece.values[at * VALUE_SIZE : (at + _AT_ONCE) * VALUE_SIZE].tobytes()
            if not held:
                begin = piece.first + at
            held.append(values)
            count += len(values) // VALUE_SIZE
            if count >= _AT_ONCE:
                yield begin, b"".join(held)
                held, count = [], 0
    if held:
        yield begin, b"".join(held)


# --- ends of queues --------------------------------------------------------------------------------


def _ends_path(job: Job, name: str) -> str:
    return f"{job.parts_folder}/{name}.ends"


def _save_ends(job: Job, name: str, keys: Sequence[QueueKey], ends: Sequence[tuple[int, int, int, int]]) -> None:
    names = b"".join(key.topic for key in keys)
    fs.save_array(
        _ends_path(job, name),
        np.array([len(names)], dtype=np.int64),
        np.array(ends, dtype=np.int64).reshape(-1),
        np.array([key.queue_id for key in keys], dtype=np.int64),
        np.array([len(key.topic) for key in keys], dtype=np.int64),
        np.frombuffer(names, dtype=np.uint8),
    )


def load_ends(job: Job, built: Built) -> QueueEnds:
    """The ends of the queues that a task brought into tables."""
    path, rows = _ends_path(job, built.name), built.queues
    (name_bytes,) = fs.load_array(path, "i8", 1).tolist()
    ends = fs.load_array(path, "i8", 4 * rows, 8).reshape(rows, 4)
    ids = fs.load_array(path, "i8", 2 * rows, 8 + 32 * rows)
    names = fs.load_array(path, "u1", name_bytes, 8 + 48 * rows).tobytes()
    bounds = [0, *np.cumsum(ids[rows:]).tolist()]
    keys = [
        QueueKey(names[begin:end], queue)
        for begin, end, queue in zip(bounds[:-1], bounds[1:], ids[:rows].tolist(), strict=True)
    ]
    return QueueEnds(keys, ends[:, 0], ends[:, 1], ends[:, 2], ends[:, 3])
