"""What a queue of batches does with entries in log order, one rule for the tail, for jobs that build it and for check.

RocketMQ appends whatever comes. Here the base offsets in a queue never fall, or no search could find a message: a batch
that begins below the end of the one before is a repeat, and left out, as in a ConsumeQueue. One that begins at 0 again,
in a queue of more than one batch, begins a new generation (the topic was deleted and made again): what was before goes.
A gap in the queue offsets leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Kept(NamedTuple):
    """Entries to append (dtype `BATCH_ENTRY`); `restarts`: after what the queue held before has gone."""

    entries: NDArray[np.void]
    restarts: bool


class BatchOrder:
    """One queue's way through the log; `next` is the queue offset behind its last batch (0: none yet).

    `batches`: how many entries there are now. `repeats`, `missing`, `restarts`: batches left out, queue offsets without
    a message, generations that went; `dropped`: the entries of those.
    """

    def __init__(self, next_offset: int = 0, batches: int = 0) -> None:
        self.next = next_offset
        self.batches = batches
        self.repeats = self.missing = self.restarts = self.dropped = 0

    def sort_out(self, entries: NDArray[np.void]) -> Iterator[Kept]:
        """Take the queue's next entries; they must be used up before the next call."""
        if not len(entries):
            return
        base = entries["base_offset"].astype(np.int64)
        behind = base + entries["messages"]
        if (self.batches == 0 or base[0] >= self.next) and bool((base[1:] >= behind[:-1]).all()):
            self._count(int(base[0]))
            self.missing += int((base[1:] - behind[:-1]).sum())
            self.batches += len(entries)
            self.next = int(behind[-1])
            yield Kept(entries, False)
            return
        yield from self._one_by_one(entries, base.tolist(), behind.tolist())

    def _one_by_one(self, entries: NDArray[np.void], base: list[int], behind: list[int]) -> Iterator[Kept]:
        for number, first in enumerate(base):
            restarts = first == 0 and self.batches > 1
            if restarts:
                self.restarts += 1
                self.dropped += self.batches
                self.batches = self.next = self.missing = 0
            elif self.batches and first < self.next:
                self.repeats += 1
                continue
            self._count(first)
            self.batches += 1
            self.next = behind[number]
            yield Kept(entries[number : number + 1], restarts)

    def _count(self, first: int) -> None:
        # A queue that begins above 0 lacks nothing: its first messages have expired.
        if self.batches:
            self.missing += first - self.next
