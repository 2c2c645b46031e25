"""merge: the queue ranges of all splits, in log order, become one range a queue; what does not run straight is found.

Only one split's ranges are in memory at a time, beside one row a queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import QueueKey
from reput.pipeline.split.parts import QueueRanges
from reput.queue.order import continues


@dataclass(slots=True)
class SplitQueues:
    """All queues of a log: per row its key, first and next queue offset, entries, and whether they run straight.

    Arrays have room to spare; `len(keys)` rows are in use.
    """

    keys: list[QueueKey] = field(default_factory=list)
    rows: dict[QueueKey, int] = field(default_factory=dict)
    first: NDArray[np.int64] = field(default_factory=lambda: np.full(1024, -1, dtype=np.int64))
    next: NDArray[np.int64] = field(default_factory=lambda: np.full(1024, -1, dtype=np.int64))
    count: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    straight: NDArray[np.bool_] = field(default_factory=lambda: np.ones(1024, dtype=np.bool_))

    def add(self, ranges: QueueRanges) -> None:
        """Add the ranges of the next split in log order."""
        rows = np.array([self.row(key) for key in ranges.keys], dtype=np.int64)
        fresh = self.next[rows] < 0
        self.first[rows[fresh]] = ranges.first[fresh]
        self.straight[rows] &= continues(self.next[rows], ranges.first) & (ranges.steady != 0)
        self.next[rows] = ranges.last + 1
        self.count[rows] += ranges.entries

    def drop_topics(self, topics: Collection[bytes]) -> None:
        """Let go of the queues of these topics, as if they had no entry."""
        for key, row in self.rows.items() if topics else ():
            if key.topic in topics:
                self.count[row], self.straight[row] = 0, True

    def row(self, key: QueueKey) -> int:
        """The row of a queue, made where it has none."""
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
        self.straight = np.concatenate([self.straight, np.ones(size, dtype=np.bool_)])

    def mark_crooked(self, keys: Iterable[QueueKey]) -> None:
        """Have these queues redone in log order, whatever their ranges say."""
        for key in keys:
            self.straight[self.row(key)] = False

    def crooked(self) -> list[QueueKey]:
        """The queues to redo in log order."""
        return [self.keys[row] for row in np.flatnonzero(~self.straight[: len(self.keys)]).tolist()]
