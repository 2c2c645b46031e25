"""Entries of a queue with ext that have no address, and a search for their units.

RocketMQ gives every message's entry a unit, with four exceptions: records of other topics, light queues, units that
could not be put, and messages that came while ext was off. These entries have plain tags codes. So an entry without an
address is damage if its unit is between the units of its neighbours; otherwise it is only noted.

Source: `ConsumeQueue.putMessagePositionInfoWrapper`, `ConsumeQueueExt.put`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue_ext import MAX_ADDRESS, MIN_ADDRESS
from reput.queue.ext import ExtReader, list_ext_files

if TYPE_CHECKING:
    from reput.formats.queue.consume_queue import QueueKey

_COMPARED = 1024
"""The number of entries of a run without addresses, and of units between its neighbours, that are compared."""


class EntriesWithoutUnit:
    """Counts a queue's entries without an address, in order: `count` of them, the first at queue offset `first`.

    `has_lost`: at least one of them has its unit in the file, with no entry that leads to it.

    Args:
        begin: the byte offset after the unit of the last earlier entry; -1 if unknown.
    """

    def __init__(self, key: QueueKey, reader: ExtReader, begin: int) -> None:
        self.count, self.first, self.has_lost = 0, -1, False
        self._key, self._reader = key, reader
        self._since = begin
        self._waiting: set[tuple[int, int]] = set()

    def add(self, first: int, rows: NDArray[np.int64], codes: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Add a piece of the queue that begins at queue offset `first`.

        `rows` (int64) are those of its entries without an address, `times` (int64, ms) their records' store times;
        `codes` (int64) are the tags codes of all entries of the piece.
        """
        if len(rows):
            self.count += len(rows)
            self.first = first + int(rows[0]) if self.first < 0 else self.first
        addressed = np.flatnonzero(codes <= MAX_ADDRESS)
        after = np.searchsorted(addressed, rows)
        done = 0
        for place in np.unique(after).tolist():
            if place > done:
                self._go_on(codes, addressed[done:place])
                done = place
            run = np.flatnonzero(after == place)[: max(0, _COMPARED - len(self._waiting))]
            self._waiting.update(zip(codes[rows[run]].tolist(), times[run].tolist(), strict=True))
        self._go_on(codes, addressed[done:])

    def _go_on(self, codes: NDArray[np.int64], addressed: NDArray[np.int64]) -> None:
        """Compare the waiting entries with the units before those of the entries that follow."""
        if not len(addressed):
            return
        self._settle(int(codes[addressed[0]]) - MIN_ADDRESS)
        last = int(codes[addressed[-1]])
        unit = self._reader.unit(self._key, last)
        self._since = -1 if unit is None else last - MIN_ADDRESS + unit.size

    def end(self) -> None:
        """Compare the waiting entries at the end of the queue."""
        files = list_ext_files(self._reader.folder, self._key)
        self._settle(max((file.start + file.size for file in files), default=0))

    def _settle(self, until: int) -> None:
        size, at, seen = self._reader.file_size, self._since, 0
        while self._waiting and not self.has_lost and 0 <= at < until and seen < _COMPARED:
            unit = self._reader.unit(self._key, at + MIN_ADDRESS)
            if unit is None:
                at = (at // size + 1) * size
            else:
                self.has_lost = (unit.tags_code, unit.store_timestamp) in self._waiting
                at += unit.size
            seen += 1
        self._waiting.clear()
