"""ConsumeQueue: per topic and queue, files of 20-byte entries; entry n of the queue is at byte n * 20.

Source: `org.apache.rocketmq.store.ConsumeQueue`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reput.formats.layout import Field, Layout
from reput.formats.stored_text import shown_text

ENTRY = Layout(
    "ConsumeQueue entry",
    "ConsumeQueue.putMessagePositionInfo",
    [
        Field("physical_offset", "q", "where the record starts in the CommitLog"),
        Field("size", "i", "the record's length in bytes; an entry is valid when this is above 0"),
        Field(
            "tags_code",
            "q",
            "hash of the TAGS property, sign-extended; delivery time (ms) for a delayed message",
        ),
    ],
)
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 20

DEFAULT_FILE_SIZE = 300_000 * ENTRY_SIZE

PRE_BLANK_SIZE = 0x7FFFFFFF
PRE_BLANK = ENTRY.struct.pack(0, PRE_BLANK_SIZE, 0)
"""The entry that fills a queue's first file up to its first message, and a gap."""

LAST_BLANK_SIZE = 1
LAST_BLANK = ENTRY.struct.pack(0, LAST_BLANK_SIZE, 0)
"""The last blank of a queue that ends with blanks.

RocketMQ takes the last entry's physical offset + size for the place up to which the queue is built. After a pre-blank
it would skip all messages in the log's first 2 GiB.
"""


BLANKS_AT_ONCE = 50_000
"""The number of blanks that are written at once."""


def is_blank(physical_offset: Any, size: Any) -> Any:
    """Return True for an entry that only fills a place: before a queue's first message, or in a gap.

    Also for arrays.
    """
    return (physical_offset == 0) & ((size == PRE_BLANK_SIZE) | (size == LAST_BLANK_SIZE))


class QueueKey(NamedTuple):
    """A queue: its topic as stored (UTF-8) and its id."""

    topic: bytes
    queue_id: int

    def __str__(self) -> str:
        return f"{shown_text(self.topic)}/{self.queue_id}"


class OffsetRange(NamedTuple):
    """The queue offsets [min_offset, max_offset) of a queue, from the first record that the log still has."""

    min_offset: int
    max_offset: int


class QueueRange(NamedTuple):
    """The entries [first, end) of one queue, by queue offset."""

    key: QueueKey
    first: int
    end: int


class Entry(NamedTuple):
    """One entry of a ConsumeQueue: offsets and size in bytes, the stored tags code."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_valid(self) -> bool:
        """True if the peer takes this for an entry (pre-blanks count, all zero is the end)."""
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_pre_blank(self) -> bool:
        """True if it only fills a place; see `is_blank`."""
        return bool(is_blank(self.physical_offset, self.size))

    @property
    def is_ext(self) -> bool:
        """True if the tags code is an address in the ConsumeQueueExt (`ConsumeQueueExt.isExtAddr`)."""
        return self.tags_code < -(1 << 31)

    def values(self) -> dict[str, int]:
        """Return its fields, and what they mean, for people and programs."""
        return {**self._asdict(), "pre_blank": self.is_pre_blank, "ext": self.is_ext}


def blank_end(count: int) -> bytes:
    """Return the entries of `count` queue offsets without a message at the end of a queue."""
    return PRE_BLANK * (count - 1) + LAST_BLANK if count else b""


def encode_entry(entry: Entry) -> bytes:
    """Return the 20 bytes of an entry."""
    return ENTRY.struct.pack(*entry)


def decode_entry(data: bytes | memoryview, offset: int = 0) -> Entry:
    """Return the entry at byte `offset` of `data`; raises struct.error if fewer than 20 bytes are left."""
    return Entry(*ENTRY.struct.unpack_from(data, offset))


def file_size_in_use(configured_size: int) -> int:
    """Return the queue file size that RocketMQ uses for a configured one: rounded up to whole entries."""
    return -(-configured_size // ENTRY_SIZE) * ENTRY_SIZE
