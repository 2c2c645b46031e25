"""Batch ConsumeQueue: per topic and queue, files of 46-byte entries, one for each batch of messages.

A record of such a queue holds several messages (sysFlag 0x80, properties INNER_NUM and INNER_BASE). Entries are in log
order, so the place of an entry does not give its queue offset: a search by `base_offset` finds it.

Source: `org.apache.rocketmq.store.queue.BatchConsumeQueue`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.layout import Field, Layout

BATCH_ENTRY = Layout(
    "Batch ConsumeQueue entry",
    "BatchConsumeQueue.putBatchMessagePositionInfo",
    [
        Field("physical_offset", "q", "where the record starts in the CommitLog"),
        Field("size", "i", "the record's length in bytes"),
        Field("tags_code", "q", "hash of the TAGS property, sign-extended"),
        Field("store_timestamp", "q", "when the record was stored"),
        Field("base_offset", "q", "queue offset of the batch's first message (INNER_BASE)"),
        Field("messages", "h", "messages in the batch (INNER_NUM), 1 to 32,767"),
        Field("compacted_offset", "i", "-1; compaction uses it"),
        Field("reserved", "i", "0"),
    ],
)
BATCH_ENTRY_SIZE = BATCH_ENTRY.size
assert BATCH_ENTRY_SIZE == 46

DEFAULT_FILE_SIZE = 300_000 * BATCH_ENTRY_SIZE
NOT_COMPACTED = -1


class BatchEntry(NamedTuple):
    """One entry of a batch ConsumeQueue: offsets and size in bytes, the time in ms, queue offset and messages."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    messages: int
    compacted_offset: int = NOT_COMPACTED
    reserved: int = 0

    @property
    def is_valid(self) -> bool:
        """True if RocketMQ takes this for an entry (all zero is the end)."""
        return self.physical_offset >= 0 and self.size > 0 and self.base_offset >= 0 and self.messages > 0

    @property
    def next_offset(self) -> int:
        """The queue offset after the batch's last message."""
        return self.base_offset + self.messages

    @property
    def is_pre_blank(self) -> bool:
        """False: queues of batches have no blanks."""
        return False

    @property
    def is_ext(self) -> bool:
        """False: the tags code is no address."""
        return False

    def values(self) -> dict[str, int]:
        """Return its fields, without its queue offset, for people and programs."""
        return {name: value for name, value in self._asdict().items() if name != "base_offset"}


def encode_batch_entry(entry: BatchEntry) -> bytes:
    """Return the 46 bytes of an entry."""
    return BATCH_ENTRY.struct.pack(*entry)


def decode_batch_entry(data: bytes | memoryview, offset: int = 0) -> BatchEntry:
    """Return the entry at byte `offset` of `data`; raises struct.error if fewer than 46 bytes are left."""
    return BatchEntry(*BATCH_ENTRY.struct.unpack_from(data, offset))
