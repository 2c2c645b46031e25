"""What a batch of messages is made of, as the encode kernels take it: native-endian columns over bytes laid end to end.

A text or a body is a pair of places (begin, end; int64) in a uint8 array: this is how Arrow holds them, so nothing is
copied before the record is written. Empty tags, an empty unique key, no keys and no pairs are properties that are not
there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = TypeVar("Columns", bound=tuple)  # type: ignore[type-arg]


class Refusal(IntEnum):
    """Why a message of a batch cannot be stored."""

    NONE = 0
    BODY_TOO_LONG = 1
    PROPERTIES_TOO_LONG = 2
    BAD_TAGS = 3
    BAD_KEY = 4
    BAD_UNIQUE_KEY = 5
    BAD_PROPERTY = 6
    BAD_OFFSETS = 7


class Texts(NamedTuple):
    """Texts or bodies: `begin` and `end` are places in `data`."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def empty(cls, count: int) -> Texts:
        """So many texts without a byte."""
        return cls(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64), np.empty(0, dtype=np.uint8))


class Groups(NamedTuple):
    """For each message the rows of a table that are its own: [first, last)."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def empty(cls, count: int) -> Groups:
        """For so many messages no row."""
        return cls(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))


class MessageColumns(NamedTuple):
    """The columns of a batch; `queue` (int32) is a row of `QueueTable`, `sys_flag` has its host bits set.

    A message's keys are the rows `key_rows` of `keys`, its properties the rows `pair_rows` of `names` and `values`.
    """

    queue: NDArray[np.int32]
    flag: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    body: Texts
    tags: Texts
    unique_key: Texts
    key_rows: Groups
    keys: Texts
    pair_rows: Groups
    names: Texts
    values: Texts


class QueueTable(NamedTuple):
    """The queues of a batch. Per queue its id, and the magic and topic that its records have.

    `topic` is what a record holds of it: the length in one byte (v1) or two (v2), and the name.
    """

    queue_id: NDArray[np.int32]
    magic: NDArray[np.int32]
    topic: Texts


class Frame(NamedTuple):
    """What all records of a batch have in common: the born host's bytes, and store host, tries and prepared offset."""

    born_host: NDArray[np.uint8]
    tail: NDArray[np.uint8]


def frozen(columns: Columns) -> Columns:
    """The same, with no array that can be written: the compiled kernels know one kind of each only."""
    return _frozen(columns)  # type: ignore[no-any-return]


def _frozen(value: Any) -> Any:
    if isinstance(value, tuple):
        return type(value)(*map(_frozen, value))
    flags = value.flags
    if flags.writeable or not flags.c_contiguous:
        value = np.ascontiguousarray(value).view()
        value.flags.writeable = False
    return value
