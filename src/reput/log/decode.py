"""Decoding a stretch of log into columns: the kernel, called again wherever the columns have to grow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.kernels import decode_arguments, kernels
from reput.kernels.columns import Columns, State, Stop


class DecodeSettings(NamedTuple):
    """What decoding needs to know: how CRCs are checked, whether tags get items, delays in ms (level 1 first)."""

    crc_check: int
    tag_items: bool
    delays_ms: tuple[int, ...]


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
        self.buffer = buffer
        self.base = base
        self.settings = settings
        self.columns = columns
        # Level n at place n; level 0 stands for no delay.
        self.delays = np.array((-1, *settings.delays_ms), dtype=np.int64)
        self.limit = len(buffer) if limit is None else limit

    def boundary(self, begin: int, end: int) -> int:
        """The first position in [begin, end) where a record or blank stands, -1 for none."""
        return kernels().find_boundary(self.buffer, self.base, begin, end, self.limit, self.settings.crc_check)

    def decode(self, begin: int, end: int) -> Stop:
        """Add the records that start in [begin, end) to the columns; their state says where this stopped."""
        while True:
            stop = Stop(
                kernels().decode_range(
                    self.buffer,
                    self.base,
                    begin,
                    end,
                    self.limit,
                    self.settings.crc_check,
                    self.settings.tag_items,
                    self.delays,
                    *decode_arguments(self.columns),
                )
            )
            if stop not in (Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL):
                return stop
            self.columns.grow(stop)
            begin = int(self.columns.state[State.POSITION])
