"""The vector that the kernel of clients' batches is called with: int64 words; a call passes its address.

The kernel splits the body of a batch (`reput.formats.log.client_batch`) into columns as the encode kernels read them.
All words hold addresses; the maker of a vector keeps that memory as long as the vector is in use.
"""

from __future__ import annotations

from reput.formats.layout import WORD_SIZE, Field, Layout
from reput.formats.log import properties as props
from reput.formats.log import property_names as names
from reput.formats.log.client_batch import HEAD_SIZE, LENGTH_SIZE

_INT = "q"

COLUMNS_LAYOUT = Layout(
    "The columns that a client's batch is split into",
    "reput",
    [
        Field("body_offsets_at", _INT, "filled: where each body begins, and the end of the last one, int64"),
        Field("property_offsets_at", _INT, "filled: the same for properties"),
        Field("topic_offsets_at", _INT, "filled: the same for topics"),
        Field("queue_ids_at", _INT, "filled: the queue ids, int64"),
        Field("born_at", _INT, "filled: the born timestamps, int64"),
        Field("flags_at", _INT, "filled: the applications' flags, int32"),
        Field("bodies_at", _INT, "filled: the bodies; as many bytes as the batch has are enough"),
        Field("properties_at", _INT, "filled: the properties as a record holds them; as many bytes are enough"),
        Field("topics_at", _INT, "filled: the topic, once for each message"),
    ],
    "=",
)
ColumnsAt = COLUMNS_LAYOUT.words

BROKEN, UNUSUAL = 0, -1
"""Answers in place of a number of messages: the body does not hold whole ones, or none; properties that need a look."""

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


def column_sizes(size: int, topic_size: int) -> dict[str, int]:
    """Return the bytes of the column that each word leads to, for a body of `size` bytes, in the words' order."""
    rows = most_rows(size)
    offsets, numbers = WORD_SIZE * (rows + 1), WORD_SIZE * rows
    sizes = (offsets, offsets, offsets, numbers, numbers, 4 * rows, size, size, topic_size * rows)
    return dict(zip(COLUMNS_LAYOUT.offsets, sizes, strict=True))
