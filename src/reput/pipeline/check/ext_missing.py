"""Entries of a queue with ext that have no address, and whether their units stand there all the same.

RocketMQ gives every message's entry a unit, but leaves plain tags codes to entries of other topics' records, to those
of light queues, where a unit could not be put, and where messages came while ext was switched off. So an entry without
an address is damage where its unit stands between those that its neighbours lead to, else it only is told.

Source: `ConsumeQueue.putMessagePositionInfoWrapper`, `ConsumeQueueExt.put`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue_ext import MAX_ADDRESS, MIN_ADDRESS
from reput.queue.ext import ExtReader, list_ext_files

if TYPE_CHECKING:
    from reput.formats.consume_queue import QueueKey

_COMPARED = 1024
"""Entries of a run without addresses, and units between its neighbours', that are held against each other."""


class EntriesWithoutUnit:
    """Counts a queue's entries without an address, in order: `count` of them, the first at queue offset `first`.

    `has_lost` says that at least one of them has its unit there, where no entry leads to.

    Args:
        begin: the byte offset of the queue's units behind that of the last entry in front; -1 where that is not known.
    """

    def __init__(self, key: QueueKey, reader: ExtReader, begin: int) -> None:
        self.count, self.first, self.has_lost = 0, -1, False
        self._key, self._reader = key, reader
        self._since = begin
        self._waiting: set[tuple[int, int]] = set()

    def add(self, first: int, rows: NDArray[np.int64], codes: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Take in a piece of the queue that begins at queue offset `first`.

        `rows` (int64) are those of its entries without an address, `times` (int64, ms) their records' store times;
        `codes` (int64) are the tags codes of all entries of the piece.
        """
        if len(rows):
            self.count += len(rows)
            self.first = first + int(rows[0]) if self.first < 0 else self.first
        addressed = np.flatnonzero(codes <= MAX_ADDRESS)
        behind = np.searchsorted(addressed, rows)
        done = 0
        for place in np.unique(behind).tolist():
            if place > done:
                self._go_on(codes, addressed[done:place])
                done = place
            run = np.flatnonzero(behind == place)[: max(0, _COMPARED - len(self._waiting))]
            self._waiting.update(zip(codes[rows[run]].tolist(), times[run].tolist(), strict=True))
        self._go_on(codes, addressed[done:])

    def _go_on(self, codes: NDArray[np.int64], addressed: NDArray[np.int64]) -> None:
        """Entries with addresses follow: what waits had its units in front of theirs."""
        if not len(addressed):
            return
        self._settle(int(codes[addressed[0]]) - MIN_ADDRESS)
        last = int(codes[addressed[-1]])
        unit = self._reader.unit(self._key, last)
        self._since = -1 if unit is None else last - MIN_ADDRESS + unit.size

    def end(self) -> None:
        """There are no more entries."""
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
