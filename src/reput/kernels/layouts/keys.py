"""The records of the kernel that makes the keys of the index database: its sources, its output, and its state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.index.index_database import ENTRY_KEY_EXTRA
from reput.formats.layout import Field, Layout
from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels.layouts.columns import Columns

_MOST_PROPERTIES = 1 << 16
"""Bytes of properties that the two bytes of their length allow."""
MOST_KEY_BYTES = ENTRY_KEY_EXTRA + MAX_TOPIC_BYTES + 3 * _MOST_PROPERTIES
"""Bytes of a key at most: a malformed byte of a text is three bytes there."""

KEY_STATE_LAYOUT = Layout(
    "The state of the kernel that makes the keys of the index database",
    "reput",
    [
        Field("record", "q", "the record that comes next"),
        Field("done", "q", "its keys that are in an output already"),
        Field("keys", "q", "keys in this output"),
        Field("last_record", "q", "log offset of the last record whose keys are all in an output, -1: none"),
        Field("store_timestamp", "q", "the highest store time (ms) of these records, 0: none"),
    ],
    "=",
)
KeyStateAt = KEY_STATE_LAYOUT.words


class KeySources(NamedTuple):
    """The columns of decoded records, names and dtypes as in `Columns`; those with the flag IN_INDEX may have keys."""

    position: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    flags: NDArray[np.uint8]

    @classmethod
    def of(cls, columns: Columns) -> KeySources:
        """The columns of a decoded range."""
        count = columns.records
        return cls(columns.position[:count], columns.store_timestamp[:count], columns.flags[:count])


class KeyOutput(NamedTuple):
    """Keys, one after the other: key n is `text[end[n] : end[n + 1]]` (uint8; int64), its value `store_timestamp[n]`.

    `end` begins with 0, and has one place more than `store_timestamp` (int64).
    """

    text: NDArray[np.uint8]
    end: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]

    @classmethod
    def for_keys(cls, keys: int, text_bytes: int) -> KeyOutput:
        """Return space for this number of keys with this number of bytes, at least for one of each length."""
        end = np.empty(keys + 1, dtype=np.int64)
        end[0] = 0
        text = np.empty(max(text_bytes, MOST_KEY_BYTES), dtype=np.uint8)
        return cls(text, end, np.empty(keys, dtype=np.int64))


def key_state() -> NDArray[np.int64]:
    """Return the state before the first record."""
    state = np.zeros(len(KEY_STATE_LAYOUT.fields), dtype=np.int64)
    state[KeyStateAt.last_record] = -1
    return state
