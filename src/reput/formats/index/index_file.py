"""IndexFile: a 40-byte header, the hash slots, then the items, chained from a slot to the newest and back.

Item numbers start at 1, so item 0 is never used and a file of n items holds n - 1. The file's name is the local time of
its creation as 17 digits, yyyyMMddHHmmssSSS.

Source: `org.apache.rocketmq.store.index.IndexHeader`, `IndexFile`, `IndexService`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reput.formats.layout import INT32_MAX, Field, Layout

HEADER = Layout(
    "IndexFile header",
    "IndexHeader",
    [
        Field("begin_timestamp", "q", "store time (ms) of the first item's message"),
        Field("end_timestamp", "q", "store time (ms) of the last item's message"),
        Field("begin_physical_offset", "q", "physical offset of the first item's message"),
        Field("end_physical_offset", "q", "physical offset of the last item's message"),
        Field("hash_slot_count", "i", "slots in use"),
        Field("index_count", "i", "the next item number; 1 in an empty file"),
    ],
)
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 40

SLOT = Layout("IndexFile slot", "IndexFile", [Field("newest_item", "i", "number of the newest item, 0 for none")])
SLOT_SIZE = SLOT.size
assert SLOT_SIZE == 4

ITEM = Layout(
    "IndexFile item",
    "IndexFile.putKey",
    [
        Field("key_hash", "i", 'absolute hash of topic + "#" + key; slot = key_hash % slots'),
        Field("physical_offset", "q", "where the message's record starts in the CommitLog"),
        Field("time_diff_s", "i", "(store time - begin_timestamp) / 1000, between 0 and 2^31 - 1"),
        Field("previous_item", "i", "the item that was newest in this slot before, 0 for none"),
    ],
)
ITEM_SIZE = ITEM.size
assert ITEM_SIZE == 20
MAX_TIME_DIFF_S = INT32_MAX
"""The largest `time_diff_s`; a later record has it, too."""

DEFAULT_SLOTS = 5_000_000
DEFAULT_ITEMS = 20_000_000
TAG_KEY_PREFIX = b"T#"
"""The bytes between `topic + "#"` and the TAGS text in a tag item's key (RocketMQ 5.4.0 and later)."""

_NAME = re.compile(r"[0-9]{17}")


class Header(NamedTuple):
    """An IndexFile's header; offsets in bytes, times in milliseconds."""

    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int
    hash_slot_count: int
    index_count: int


def encode_header(header: Header) -> bytes:
    """Return the 40 bytes of a header."""
    return HEADER.struct.pack(*header)


def decode_header(data: bytes | memoryview) -> Header:
    """Return the header at the start of `data`; raises struct.error if fewer than 40 bytes are given."""
    return Header(*HEADER.struct.unpack_from(data, 0))


def items_at(slots: int, number: int = 0) -> int:
    """Return the byte offset of item `number` in a file with `slots` slots."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ITEM_SIZE


def file_size(slots: int, items: int) -> int:
    """Return the size in bytes of an IndexFile with these numbers of slots and items."""
    return items_at(slots, items)


def capacity(items: int) -> int:
    """Return how many items such a file holds: item 0 is never used."""
    return items - 1


def is_index_name(name: str) -> bool:
    """Return True if RocketMQ takes `name` for an IndexFile's; it skips others."""
    return _NAME.fullmatch(name) is not None


assert file_size(DEFAULT_SLOTS, DEFAULT_ITEMS) == 420_000_040
