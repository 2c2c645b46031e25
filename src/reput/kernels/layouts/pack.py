"""The arrays of the kernel that packs ConsumeQueue entries: the columns it reads, and those it fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.kernels.layouts.columns import Columns


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


class EntrySources(NamedTuple):
    """The columns of which entries are made, one place an entry, in log order; names and dtypes as in `Columns`.

    Only places with the flag IN_QUEUE give an entry.
    """

    position: NDArray[np.int64]
    size: NDArray[np.int32]
    queue: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    tags_code: NDArray[np.int64]
    flags: NDArray[np.uint8]

    @classmethod
    def of(cls, columns: Columns) -> EntrySources:
        """Take the records of decoded columns, each once."""
        records = columns.records
        return cls(
            columns.position[:records],
            columns.size[:records],
            columns.queue[:records],
            columns.queue_offset[:records],
            columns.tags_code[:records],
            columns.flags[:records],
        )
