"""The fields that kernels find in records: one row of an int64 table per field, one column per record.

Places (`..._AT`) are positions in the buffer, sizes are in bytes. A missing property has size -1.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

FIND_PROPERTIES = 1
COUNT_PAIRS = 2
"""Bits of `wants`: find KEYS, TAGS and UNIQ_KEY; count properties and their bytes."""


class FieldRow(IntEnum):
    """Rows of the table."""

    QUEUE_ID = 0
    FLAG = 1
    QUEUE_OFFSET = 2
    SYS_FLAG = 3
    BORN_TIMESTAMP = 4
    STORE_TIMESTAMP = 5
    BODY_CRC = 6
    RECONSUME_TIMES = 7
    PREPARED_OFFSET = 8
    BODY_AT = 9
    BODY_SIZE = 10
    TOPIC_AT = 11
    TOPIC_SIZE = 12
    PROPERTIES_AT = 13
    PROPERTIES_SIZE = 14
    BORN_HOST_AT = 15
    BORN_HOST_SIZE = 16
    STORE_HOST_AT = 17
    STORE_HOST_SIZE = 18
    KEYS_AT = 19
    KEYS_SIZE = 20
    TAGS_AT = 21
    TAGS_SIZE = 22
    UNIQUE_KEY_AT = 23
    UNIQUE_KEY_SIZE = 24
    PAIRS = 25
    """Properties, those of a repeated name each counted: an upper bound."""
    NAMES_SIZE = 26
    VALUES_SIZE = 27


def field_table(records: int) -> NDArray[np.int64]:
    """Make a table with space for a number of records."""
    return np.empty((len(FieldRow), records), dtype=np.int64)
