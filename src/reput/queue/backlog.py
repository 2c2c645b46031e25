"""Entries that wait for the tail of their queue.

In log order, in memory, each with a link to the previous one of its queue.

Putting an entry into its queue's tail costs a few microseconds of Python for each queue, however few entries come at
once. With hundreds of thousands of queues most queues get one entry and no reader. Their entries wait here, at some
nanoseconds each, until a caller asks for the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.kernels import backlog_kernels
from reput.kernels.layouts.columns import IN_QUEUE, Columns, QueueTable
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.vectors import address_of

_FIRST_ENTRIES = 1 << 12
_FEW = 64
_ROWS_AT_ONCE = 1 << 16
_NO_ENTRIES = np.empty(0, dtype=np.int32)


class Waiting(NamedTuple):
    """Entries of one queue in log order, 20 bytes each.

    Attributes:
        first: the queue offset of the first entry.
        steady: the entries are consecutive. Otherwise `offsets` returns their queue offsets.
    """

    key: QueueKey
    first: int
    steady: bool
    entries: memoryview
    offsets: Callable[[], list[int]]


class _KnownQueues(NamedTuple):
    """A decoder's table of queues as it was when entries came last: its first `rows` rows do not change any more.

    `kind`: the kind of kernels that made it, which alone finds its rows.
    """

    rows: int
    table: QueueTable
    kind: str
    addresses: NDArray[np.int64]
    address: int

    @classmethod
    def of(cls, columns: Columns) -> _KnownQueues:
        table = columns.queue_table
        addresses = table.addresses()
        return cls(columns.queues, table, columns.kind, addresses, address_of(addresses))

    def keys(self, rows: NDArray[np.int64]) -> list[QueueKey]:
        """Return the keys of some rows. Queues of one topic share its bytes."""
        names, topics, found = self.table.names.data, dict[bytes, bytes](), []
        sizes, ids = self.table.topic_size[rows].tolist(), self.table.queue_id[rows].tolist()
        for begin, size, queue_id in zip(self.table.topic_at[rows].tolist(), sizes, ids, strict=True):
            topic = bytes(names[begin : begin + size])
            found.append(QueueKey(topics.setdefault(topic, topic), queue_id))
        return found


class Backlog:
    """Waiting entries by queue. Not safe for threads, except `holds`: its owner holds a lock.

    All entries between two calls of `take_all` belong to one table of queues. `count`: the number of waiting entries.
    """

    def __init__(self) -> None:
        self.count = 0
        self._known: _KnownQueues | None = None
        self._newest = _NO_ENTRIES
        self._forget()

    def _forget(self) -> None:
        self._used = 0
        self._previous: NDArray[np.int32] = _NO_ENTRIES
        self._offset: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._entries: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def add(self, columns: Columns, sources: EntrySources) -> int:
        """Append entries of queues in the table of `columns`; return their number."""
        self._known = _KnownQueues.of(columns)
        if len(self._newest) < columns.queues:
            newest = np.full(len(columns.queue_id), -1, dtype=np.int32)
            newest[: len(self._newest)] = self._newest
            self._newest = newest
        self._make_room(int(np.count_nonzero(sources.flags & IN_QUEUE)))
        used = backlog_kernels().chain_entries(
            sources, self._used, self._entries, self._offset, self._previous, self._newest
        )
        added = used - self._used
        self._used = used
        self.count += added
        return int(added)

    def _make_room(self, count: int) -> None:
        needed = self._used + count
        if needed > len(self._previous):
            room = max(needed, 2 * len(self._previous), _FIRST_ENTRIES)
            for name, each in (("_previous", 1), ("_offset", 1), ("_entries", ENTRY_SIZE)):
                old = getattr(self, name)
                bigger = np.empty(room * each, dtype=old.dtype)
                bigger[: self._used * each] = old[: self._used * each]
                setattr(self, name, bigger)

    def holds(self, key: QueueKey) -> bool:
        """Return True if entries of a queue wait."""
        return self._row(key) >= 0

    def _row(self, key: QueueKey) -> int:
        known, newest = self._known, self._newest
        if known is None:
            return -1
        row = backlog_kernels(known.kind).find_row(key.topic, key.queue_id, known.rows, known.address)
        return row if 0 <= row < len(newest) and newest[row] >= 0 else -1

    def take(self, key: QueueKey) -> Waiting | None:
        """Remove and return the entries of a queue; None if there are none."""
        row = self._row(key) if self.count else -1
        if row < 0:
            return None
        (found,) = self._taken(np.array([row], dtype=np.int64), _FEW, [key])
        return found

    def take_all(self) -> Iterator[Waiting]:
        """Remove and yield the entries of all queues, queue by queue.

        The next entries may use another table of queues.
        """
        rows = np.flatnonzero(self._newest >= 0) if self.count else np.empty(0, dtype=np.int64)
        known = self._known
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[begin : begin + _ROWS_AT_ONCE]
            assert known is not None
            yield from self._taken(some, self.count, known.keys(some))
        self._forget()
        self._known, self._newest = None, _NO_ENTRIES

    def _taken(self, rows: NDArray[np.int64], room: int, keys: list[QueueKey]) -> Iterator[Waiting]:
        start, index = np.empty(len(rows) + 1, dtype=np.int64), np.empty(room, dtype=np.int32)
        arguments = rows, self._newest, self._previous, start
        total = backlog_kernels().take_chains(*arguments, index)
        if total > room:
            index = np.empty(total, dtype=np.int32)
            backlog_kernels().take_chains(*arguments, index)
        index = index[:total]
        self.count -= total
        offsets = self._offset[index]
        entries = self._entries.reshape(-1, ENTRY_SIZE)[index].reshape(-1).data
        # The rows whose offset is not one above the previous row. Rows between two queues do not count.
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        unsteady = np.zeros(len(rows), dtype=np.bool_)
        unsteady[np.searchsorted(start, np.setdiff1d(breaks, start), side="right") - 1] = True
        if not self.count:
            self._used = 0
        firsts, steady, bounds = offsets[start[:-1]].tolist(), (~unsteady).tolist(), pairwise(start.tolist())
        for key, first, is_steady, (begin, end) in zip(keys, firsts, steady, bounds, strict=True):
            piece = entries[begin * ENTRY_SIZE : end * ENTRY_SIZE]
            yield Waiting(key, first, is_steady, piece, partial(_list, offsets, begin, end))


def _list(offsets: NDArray[np.int64], begin: int, end: int) -> list[int]:
    found: list[int] = offsets[begin:end].tolist()
    return found
