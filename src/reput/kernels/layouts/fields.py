"""The fields that kernels find in records: one row of an int64 table per field, one column per record.

A stretch of bytes takes two rows: its place in the buffer (`..._AT`), and its size in bytes (`..._SIZE`) SIZE_BELOW
rows below. A missing property has size -1.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FIND_PROPERTIES = 1
COUNT_PAIRS = 2
"""Bits of `wants`: find KEYS, TAGS and UNIQ_KEY; count properties and their bytes."""


class FieldRow(IntEnum):
    """Rows of the table."""

    QUEUE_ID = 0
    FLAG = auto()
    QUEUE_OFFSET = auto()
    SYS_FLAG = auto()
    BORN_TIMESTAMP = auto()
    STORE_TIMESTAMP = auto()
    BODY_CRC = auto()
    RECONSUME_TIMES = auto()
    PREPARED_OFFSET = auto()
    BODY_AT = auto()
    BODY_SIZE = auto()
    TOPIC_AT = auto()
    TOPIC_SIZE = auto()
    PROPERTIES_AT = auto()
    PROPERTIES_SIZE = auto()
    BORN_HOST_AT = auto()
    BORN_HOST_SIZE = auto()
    STORE_HOST_AT = auto()
    STORE_HOST_SIZE = auto()
    KEYS_AT = auto()
    KEYS_SIZE = auto()
    TAGS_AT = auto()
    TAGS_SIZE = auto()
    UNIQUE_KEY_AT = auto()
    UNIQUE_KEY_SIZE = auto()
    PAIRS = auto()
    """Properties, those of a repeated name each counted: an upper bound."""
    NAMES_SIZE = auto()
    VALUES_SIZE = auto()


SIZE_BELOW = 1
"""A stretch's size is this number of rows below its place."""
assert all(
    FieldRow[row.name.removesuffix("_AT") + "_SIZE"] == row + SIZE_BELOW for row in FieldRow if row.name.endswith("_AT")
)


class Stretches(NamedTuple):
    """Stretches of bytes in `data` (uint8): `size` bytes from place `at` on (int64 each); a size below 0: none."""

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    size: NDArray[np.int64]

    @classmethod
    def of(cls, data: NDArray[np.uint8], table: NDArray[np.int64], place: FieldRow) -> Stretches:
        """The stretches of a field, given by the row of its places."""
        return cls(data, table[place], table[place + SIZE_BELOW])


class Gathered(NamedTuple):
    """Pieces of bytes as Arrow has them: piece n is `data[offsets[n] : offsets[n + 1]]` (uint8; int32)."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]

    @classmethod
    def empty(cls, pieces: int, size: int) -> Gathered:
        """Space for a number of pieces and for their bytes."""
        return cls(np.empty(size, dtype=np.uint8), np.empty(pieces + 1, dtype=np.int32))


class GatheredPairs(NamedTuple):
    """Properties as Arrow has a map: those of record n are pairs `offsets[n]` to `offsets[n + 1]` (int32)."""

    offsets: NDArray[np.int32]
    names: Gathered
    values: Gathered


def field_table(records: int) -> NDArray[np.int64]:
    """Make a table with space for a number of records."""
    return np.empty((len(FieldRow), records), dtype=np.int64)
