"""Decoding of a range of the log into columns: the kernel is called again each time that the columns must grow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.record import gives_further_entries
from reput.kernels import kernels, kind_in_use
from reput.kernels.layouts.columns import (
    IN_QUEUE,
    INNER_BATCH,
    MULTI_DISPATCH,
    Columns,
    DecodeRules,
    FurtherEntries,
    FurtherRecords,
    StateAt,
    Stop,
)
from reput.kernels.layouts.log import LogBytes


class DecodeSettings(NamedTuple):
    """Settings of decoding: how CRCs are checked, whether tags get items, delays in ms (level 1 first).

    `multi_dispatch`: whether messages get entries in further queues (enableMultiDispatch).
    """

    crc_check: int
    tag_items: bool
    delays_ms: tuple[int, ...]
    multi_dispatch: bool = True


class RangeDecoder:
    """Decodes one buffer of log (uint8) that starts at log offset `base`; positions count from the buffer's start.

    `limit`: bytes of the buffer that may be looked at, by default all of it.
    """

    def __init__(
        self,
        buffer: NDArray[np.uint8],
        base: int,
        settings: DecodeSettings,
        columns: Columns,
        limit: int | None = None,
    ) -> None:
        self.log = LogBytes(buffer, base, len(buffer) if limit is None else limit)
        self.settings = settings
        self.columns = columns
        # Level n at place n; level 0 is no delay.
        delays_ms = np.array((-1, *settings.delays_ms), dtype=np.int64)
        self.rules = DecodeRules(settings.crc_check, settings.tag_items, delays_ms)

    def boundary(self, begin: int, end: int) -> int:
        """Return the first position in [begin, end) where a record or a blank begins, -1 if there is none."""
        return kernels().find_boundary(self.log, begin, end, self.settings.crc_check)

    def decode(self, begin: int, end: int) -> Stop:
        """Add the records that start in [begin, end) to the columns; the columns' state says where this stopped."""
        if not self.columns.queues:
            self.columns.kind = kind_in_use()
        decode_range = kernels(self.columns.kind).decode_range
        while True:
            stop = Stop(decode_range(self.log, begin, end, self.rules, self.columns.arrays))
            if stop not in (Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL):
                return stop
            self.columns.grow(stop)
            begin = int(self.columns.state[StateAt.position])

    def read_further(self) -> None:
        """Read batches and entries in further queues, which few records have, once all records are in the columns."""
        state = self.columns.state
        if state[StateAt.inner_batches]:
            self._read_batches()
        if state[StateAt.multi_dispatches] and self.settings.multi_dispatch:
            self._read_further_queues()

    def _read_batches(self) -> None:
        columns = self.columns
        rows = self._flagged(INNER_BATCH)
        columns.batch_record = rows
        columns.batch_base = np.empty(len(rows), dtype=np.int64)
        columns.batch_messages = np.empty(len(rows), dtype=np.int16)
        kernels().inner_batches(self.log, columns.position[rows], columns.batch_base, columns.batch_messages)

    def _read_further_queues(self) -> None:
        columns = self.columns
        rows = self._flagged(MULTI_DISPATCH)
        own = [row for row in np.unique(columns.queue[rows]).tolist() if gives_further_entries(columns.topic(row))]
        rows = rows[np.isin(columns.queue[rows], own)]
        queue_id, position = columns.queue_id[columns.queue[rows]], columns.position[rows]
        columns.further_record, columns.further_queue, columns.further_offset = further_entries(
            self.log, FurtherRecords(rows, position, queue_id), columns
        )

    def _flagged(self, flag: int) -> NDArray[np.int32]:
        """Return the numbers of the records with this flag that get entries in queues."""
        flags = self.columns.flags[: self.columns.records]
        return np.flatnonzero((flags & (IN_QUEUE | flag)) == (IN_QUEUE | flag)).astype(np.int32)


def further_entries(log: LogBytes, asked: FurtherRecords, columns: Columns) -> FurtherEntries:
    """Return the entries that records get in further queues, in log order; add the queues to the table of `columns`.

    `log` holds the records.
    """
    count = len(asked.record)
    out, begin = _empty_entries(4 * count + 64), 0
    while begin < count:
        stop, begin = kernels(columns.kind).further_queues(log, begin, asked, columns.queue_table, columns.state, out)
        if stop == Stop.QUEUES_FULL:
            columns.grow(Stop.QUEUES_FULL)
        elif stop == Stop.RECORDS_FULL:
            out = _grown_entries(out)
    used = int(columns.state[StateAt.further])
    return FurtherEntries(out.record[:used], out.queue[:used], out.offset[:used])


def _empty_entries(count: int) -> FurtherEntries:
    """Make space for a number of entries."""
    return FurtherEntries(np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int64))


def _grown_entries(entries: FurtherEntries) -> FurtherEntries:
    """Make more space, for one record's names at least; what is there stays."""
    used = len(entries.record)
    bigger = _empty_entries(2 * used + MAX_PROPERTIES_SIZE)
    bigger.record[:used], bigger.queue[:used], bigger.offset[:used] = entries
    return bigger
