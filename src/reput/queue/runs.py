"""Runs: consecutive entries of a queue as bytes, as tasks, builders and the tail hand them on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.queue.order import Int64s, consecutive_runs


class EntryRun(NamedTuple):
    """Consecutive entries of a queue from queue offset `first` on: their bytes, `entry_size` each.

    A `QueueRange` has the offsets without the bytes, and says of which queue they are.
    """

    first: int
    entries: memoryview
    entry_size: int = ENTRY_SIZE

    @property
    def next(self) -> int:
        """The queue offset after the last entry."""
        return self.first + len(self.entries) // self.entry_size

    @property
    def rows(self) -> NDArray[np.uint8]:
        """The entries as rows of bytes."""
        return np.frombuffer(self.entries, dtype=np.uint8).reshape(-1, self.entry_size)

    def above(self, repeats: int) -> EntryRun:
        """Return the run without its first entries, which are repeats."""
        if not repeats:
            return self
        return EntryRun(self.first + repeats, self.entries[repeats * self.entry_size :], self.entry_size)


def runs_of(offsets: Int64s, entries: memoryview, entry_size: int = ENTRY_SIZE) -> Iterator[EntryRun]:
    """Yield the runs of entries that have these queue offsets, in the order in which they are given."""
    for begin, end in consecutive_runs(offsets):
        yield EntryRun(int(offsets[begin]), entries[begin * entry_size : end * entry_size], entry_size)
