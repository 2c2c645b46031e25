"""The parts of a stretch of queues, joined as columns: one row for each piece, no Python object for an entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.queue_kinds import ROCKSDB
from reput.formats.queue.rocksdb_consume_queue import VALUE, VALUE_SIZE
from reput.kernels.layouts.table import EntryPieces
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job
from reput.pipeline.split.parts import key_order
from reput.pipeline.split.rocksdb_parts import PartRange, map_values
from reput.queue.runs import EntryRun, runs_of

Int64s = NDArray[np.int64]


class _SplitEntries(NamedTuple):
    """A split's part, mapped: the values of its entries, one row each, and their queue offsets."""

    values: NDArray[np.uint8]
    offsets: Int64s

    def positions(self, places: Int64s) -> Int64s:
        """Return the log offsets that these entries begin with."""
        return VALUE.taken(self.values.reshape(-1), places * VALUE_SIZE, "physical_offset")


class StretchColumns(NamedTuple):
    """The queues of a stretch in the order of their keys, and their pieces: by queue, then in log order.

    A piece has, as int64: `row`, its queue; `first`, the queue offset of its first entry; `entries`, their number;
    `source`, the file that has them from number `place` on. `steady` (bool): its queue offsets are consecutive. Queue r
    has the pieces [begin[r], begin[r + 1]).
    """

    keys: list[QueueKey]
    begin: Int64s
    row: Int64s
    first: Int64s
    entries: Int64s
    source: Int64s
    place: Int64s
    steady: NDArray[np.bool_]
    sources: tuple[_SplitEntries, ...]

    def entries_of(self, begin: int, end: int) -> EntryPieces:
        """Return the pieces of queues [begin, end), all steady, for the writer of tables.

        They are valid as long as these columns live.
        """
        chosen = slice(int(self.begin[begin]), int(self.begin[end]))
        bases = np.array([source.values.ctypes.data for source in self.sources], dtype=np.int64)
        address = bases[self.source[chosen]] + self.place[chosen] * VALUE_SIZE
        return EntryPieces(self.row[chosen], self.first[chosen], self.entries[chosen], address)

    def runs_of(self, row: int) -> Iterator[EntryRun]:
        """Yield the runs of one queue, in log order; entries are values of RocksDB."""
        for at in range(int(self.begin[row]), int(self.begin[row + 1])):
            source, place, count = self.sources[int(self.source[at])], int(self.place[at]), int(self.entries[at])
            values = source.values[place : place + count].reshape(-1).data
            if self.steady[at]:
                yield EntryRun(int(self.first[at]), values, VALUE_SIZE)
            else:
                yield from runs_of(source.offsets[place : place + count], values, VALUE_SIZE)

    def queues(self) -> Iterator[tuple[QueueKey, Callable[[], Iterator[EntryRun]]]]:
        """Yield each queue, and the call that returns its runs."""
        for row, key in enumerate(self.keys):
            yield key, partial(self.runs_of, row)

    def ends(self) -> NDArray[np.int64]:
        """Return queue offset and log offset of each queue's first entry, and of its last, as if all were in order."""
        first, last = self.begin[:-1], self.begin[1:] - 1
        ends = np.empty((len(self.keys), 4), dtype=np.int64)
        ends[:, 0], ends[:, 2] = self.first[first], self.first[last] + self.entries[last] - 1
        for number, source in enumerate(self.sources):
            begins, ending = self.source[first] == number, self.source[last] == number
            ends[begins, 1] = source.positions(self.place[first[begins]])
            ends[ending, 3] = source.positions(self.place[last[ending]] + self.entries[last[ending]] - 1)
        return ends


def stretch_columns(job: Job, ranges: Sequence[PartRange]) -> StretchColumns:
    """Join the parts that the splits have of a stretch; `ranges` are in log order."""
    rows: dict[QueueKey, int] = {}
    found, sources = list[tuple[NDArray[Any], ...]](), list[_SplitEntries]()
    for part in ranges:
        queues = parts.load_ranges(job, part.split, part.row_begin, part.row_end)
        place = part.entry_begin + np.cumsum(queues.entries) - queues.entries
        held = np.array([job.holds(ROCKSDB, key) for key in queues.keys], dtype=np.bool_)
        keys = [key for key, is_held in zip(queues.keys, held.tolist(), strict=True) if is_held]
        row = np.array([rows.setdefault(key, len(rows)) for key in keys], dtype=np.int64)
        source = np.full(len(row), len(sources), dtype=np.int64)
        found.append((row, queues.first[held], queues.entries[held], source, place[held], queues.steady[held]))
        sources.append(_SplitEntries(*map_values(job, part.split)))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)] or [np.empty(0, dtype=np.int64)] * 6
    keys = sorted(rows, key=key_order)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[[rows[key] for key in keys]] = np.arange(len(keys))
    row = rank[columns[0]]
    order = np.argsort(row, kind="stable")
    row, first, entries, source, place, steady = (column[order] for column in (row, *columns[1:]))
    begin = np.searchsorted(row, np.arange(len(keys) + 1))
    return StretchColumns(keys, begin, row, first, entries, source, place, steady != 0, tuple(sources))
