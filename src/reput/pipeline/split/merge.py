"""merge: the queue ranges of all splits, in log order, become one range for each queue; queues out of order are found.

Memory holds the ranges of one split at a time, and one row for each queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.split.parts import QueueRanges
from reput.queue.order import continues


@dataclass(slots=True)
class SplitQueues:
    """All queues of a log. A row has a key, first and next queue offset, the entries, and a flag: they are in order.

    Arrays have spare rows; `len(keys)` rows are in use.
    """

    keys: list[QueueKey] = field(default_factory=list)
    rows: dict[QueueKey, int] = field(default_factory=dict)
    first: NDArray[np.int64] = field(default_factory=lambda: np.full(1024, -1, dtype=np.int64))
    next: NDArray[np.int64] = field(default_factory=lambda: np.full(1024, -1, dtype=np.int64))
    count: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    in_order: NDArray[np.bool_] = field(default_factory=lambda: np.ones(1024, dtype=np.bool_))

    def add(self, ranges: QueueRanges) -> None:
        """Add the ranges of the next split in log order."""
        rows = np.array([self.row(key) for key in ranges.keys], dtype=np.int64)
        fresh = self.next[rows] < 0
        self.first[rows[fresh]] = ranges.first[fresh]
        self.in_order[rows] &= continues(self.next[rows], ranges.first) & (ranges.steady != 0)
        self.next[rows] = ranges.last + 1
        self.count[rows] += ranges.entries

    def drop_topics(self, topics: Collection[bytes]) -> None:
        """Treat the queues of these topics as if they had no entry."""
        for key, row in self.rows.items() if topics else ():
            if key.topic in topics:
                self.count[row], self.in_order[row] = 0, True

    def row(self, key: QueueKey) -> int:
        """Return the row of a queue; a new queue gets one."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = len(self.keys)
            self.keys.append(key)
            if row == len(self.first):
                self._grow()
        return row

    def _grow(self) -> None:
        size = len(self.first)
        self.first = np.concatenate([self.first, np.full(size, -1, dtype=np.int64)])
        self.next = np.concatenate([self.next, np.full(size, -1, dtype=np.int64)])
        self.count = np.concatenate([self.count, np.zeros(size, dtype=np.int64)])
        self.in_order = np.concatenate([self.in_order, np.ones(size, dtype=np.bool_)])

    def mark_out_of_order(self, keys: Iterable[QueueKey]) -> None:
        """Mark these queues as out of order, whatever their ranges say."""
        for key in keys:
            self.in_order[self.row(key)] = False

    def out_of_order(self) -> list[QueueKey]:
        """Return the queues to build again in log order."""
        return [self.keys[row] for row in np.flatnonzero(~self.in_order[: len(self.keys)]).tolist()]
