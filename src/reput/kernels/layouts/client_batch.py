"""The record that the kernel of clients' batches is called with: one vector of int64 fields; a call passes its address.

The kernel splits the body of a batch (`reput.formats.log.client_batch`) into columns as the encode kernels read them.
Fields whose names end in `_at` hold addresses; the maker of a record keeps that memory as long as the record is in use.
"""

from __future__ import annotations

from reput.formats.layout import Field, Layout
from reput.formats.log import properties as props
from reput.formats.log import property_names as names
from reput.formats.log.client_batch import HEAD_SIZE, LENGTH_SIZE

_INT = "q"

SPLIT_LAYOUT = Layout(
    "A client's batch, and the columns that it is split into",
    "reput",
    [
        Field("data_at", _INT, "the body of the batch"),
        Field("size", _INT, "its bytes"),
        Field("rows", _INT, "filled: messages"),
        Field("body_offsets_at", _INT, "filled: where each body begins, and the end of the last one, int64"),
        Field("bodies_at", _INT, "filled: the bodies; as many bytes as the batch has are enough"),
        Field("property_offsets_at", _INT, "filled: the same for properties"),
        Field("properties_at", _INT, "filled: the properties as a record holds them; as many bytes are enough"),
        Field("flags_at", _INT, "filled: the applications' flags, int32"),
    ],
    "=",
)
SplitAt = SPLIT_LAYOUT.words

SPLIT, BROKEN, UNUSUAL = 1, 0, -1
"""The answers: all is split; the body does not hold whole messages, or none; properties that need a look."""

BEGINNING = 4
"""Bytes by which names are compared."""
UNUSUAL_BEGINNINGS = frozenset(
    name[:BEGINNING]
    for name in (
        props.DELAY,
        names.TIMER_DELIVER_MS.encode(),
        names.TRANSACTION_PREPARED.encode(),
        props.INNER_NUM,
        props.CRC32,
    )
)
"""The beginnings of names that may change where and how a message is stored. Other names may begin so, too."""


def most_rows(size: int) -> int:
    """Return the most messages that a body of `size` bytes can have."""
    return size // (HEAD_SIZE + LENGTH_SIZE)
