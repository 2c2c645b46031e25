"""The bitmaps of the SQL92 filters that a message matches, for many messages of one topic at once.

Source: `CommitLogDispatcherCalcBitMap`: a message has a bitmap if its topic has any filter, dead or alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.sql import CompiledFilter
from reput.dispatch.sql import compile as compile_sql
from reput.dispatch.sql.columns import PropertyColumns
from reput.errors import ConfigError


class FilterBits(NamedTuple):
    """A filter and its bits. `compiled` is None if reput cannot parse the text, though RocketMQ may."""

    compiled: CompiledFilter | None
    positions: tuple[int, ...]

    @classmethod
    def of(cls, expression: str, positions: Sequence[int]) -> FilterBits:
        """Return a registered filter."""
        try:
            return cls(compile_sql(expression), tuple(positions))
        except ConfigError:
            return cls(None, tuple(positions))


def bitmaps_of(filters: Sequence[FilterBits], columns: PropertyColumns, size: int) -> NDArray[np.uint8]:
    """Return the bitmaps (uint8, one row of `size` bytes for each message) of messages with these properties.

    A filter that cannot be evaluated counts as one that matches: an extra bit costs a look at the log, a missing bit a
    message.
    """
    bitmaps = np.zeros((len(columns), size), dtype=np.uint8)
    for one in filters:
        matched = np.ones(len(columns), dtype=np.bool_) if one.compiled is None else one.compiled.select(columns)
        for position in one.positions:
            bitmaps[matched, position // 8] |= np.uint8(1 << position % 8)
    return bitmaps
