"""Decoded columns to what the indexes are made of: ConsumeQueue entries by queue, index items in log order. Pure.

Dispatch by transaction type: plain and committed messages get a ConsumeQueue entry, all but rolled-back ones get index
items (`CommitLogDispatcherBuildConsumeQueue`, `CommitLogDispatcherBuildIndex`). The decode kernel has put that into the
`flags` column; here nothing looks at one message alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.kernels.columns import Columns
from reput.kernels.pack import pack_entries


@dataclass(slots=True)
class QueueBatch:
    """The ConsumeQueue entries of one decoded range, grouped by queue, in log order within each.

    `entries`: uint8, 20 bytes an entry. Per queue row: `start` int64 (rows + 1) entries before it, `first` and `last`
    int64 queue offsets of its first and last record (-1 without records), `steady` uint8 whether each queue offset is
    one more than the one before.
    """

    columns: Columns
    entries: NDArray[np.uint8]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    steady: NDArray[np.uint8]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the queues that have entries here."""
        return np.flatnonzero(np.diff(self.start))

    def key(self, row: int) -> QueueKey:
        """The queue of a row."""
        return QueueKey(self.columns.topic(row), int(self.columns.queue_id[row]))

    def queue_entries(self, row: int) -> memoryview:
        """The bytes of a queue's entries."""
        begin, end = int(self.start[row]) * ENTRY_SIZE, int(self.start[row + 1]) * ENTRY_SIZE
        return self.entries.data[begin:end]

    def queues(self) -> Iterator[tuple[int, QueueKey]]:
        """Row and key of each queue that has entries here."""
        for row in self.rows.tolist():
            yield row, self.key(row)


def group_by_queue(columns: Columns) -> QueueBatch:
    """Group and pack the ConsumeQueue entries of decoded columns."""
    return QueueBatch(columns, *pack_entries(columns))
