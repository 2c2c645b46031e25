"""Packing decoded columns into ConsumeQueue entries: the kernel's call, with the arrays that it fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY_SIZE
from reput.kernels import kernels
from reput.kernels.columns import Columns


class Packed(NamedTuple):
    """The entries of a decoded range by queue, in log order within each.

    `entries`: uint8, 20 bytes an entry. Per queue row: `start` int64 (rows + 1) entries before it, `first` and `last`
    int64 queue offsets of its first and last record (-1 without records), `steady` uint8 whether each queue offset is
    one more than the one before.
    """

    entries: NDArray[np.uint8]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    steady: NDArray[np.uint8]


def pack_entries(columns: Columns) -> Packed:
    """Pack the entries of all records in the columns."""
    records, queues = columns.records, columns.queues
    packed = Packed(
        entries=np.empty(records * ENTRY_SIZE, dtype=np.uint8),
        start=np.zeros(queues + 1, dtype=np.int64),
        first=np.empty(queues, dtype=np.int64),
        last=np.empty(queues, dtype=np.int64),
        steady=np.empty(queues, dtype=np.uint8),
    )
    kernels().pack_entries(
        records,
        queues,
        columns.position,
        columns.size,
        columns.queue,
        columns.queue_offset,
        columns.tags_code,
        columns.flags,
        *packed,
    )
    return packed
