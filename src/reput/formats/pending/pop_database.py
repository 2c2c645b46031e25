"""Messages that pop consumers hold, in RocksDB: the column family `popState` of `kvStore`.

    key                                        value
    one for each message that is invisible     JSON: popTime, groupId, topicId, queueId, retryFlag, invisibleTime,
                                               offset, attemptTimes, attemptId, suspend

Keys sort by the time at which messages become visible again. An ack removes a key; a key whose time has come is put to
the retry topic and removed. The database is there with popConsumerKVServiceInit or popConsumerKVServiceEnable.

Source: `PopConsumerRecord`, `PopConsumerRocksdbStore`.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

FOLDER = "kvStore"
FAMILY = "popState"

POP_KEY_PARTS: tuple[tuple[str, str, str], ...] = (
    ("8", "visible_time", "when the message becomes visible again (ms)"),
    ("n", "group", "the consumer group, UTF-8"),
    ("1", "", "`@`"),
    ("n", "topic", "the topic, UTF-8"),
    ("1", "", "`@`"),
    ("4", "queue_id", "the queue"),
    ("1", "", "`@`"),
    ("8", "queue_offset", "the message's number in its queue"),
)
_NAMES = {"groupId": str, "topicId": str, "queueId": int, "popTime": int, "invisibleTime": int, "offset": int}


class PopRecord(NamedTuple):
    """A message that a group holds; times in ms."""

    group: str
    topic: str
    queue_id: int
    offset: int
    pop_time: int
    invisible_time: int
    attempts: int = 0

    @property
    def visible_time(self) -> int:
        """The time (ms) from which the message is given again, if no ack comes."""
        return self.pop_time + self.invisible_time


def pop_key(record: PopRecord) -> bytes:
    """Return the key of a record (`PopConsumerRecord.getKeyBytes`)."""
    names = b"".join(name.encode("utf-8", "surrogatepass") + b"@" for name in (record.group, record.topic))
    return struct.pack(">q", record.visible_time) + names + struct.pack(">icq", record.queue_id, b"@", record.offset)


def decode_pop_record(key: bytes, value: bytes) -> PopRecord | None:
    """Return the record of a key and a value; None if the value is no record, or another message's than the key."""
    try:
        values = json.loads(value)
        found = [values.get(name) for name in _NAMES]
    except (ValueError, AttributeError, RecursionError):
        return None
    if not all(isinstance(one, kind) for one, kind in zip(found, _NAMES.values(), strict=True)):
        return None
    group, topic, queue_id, pop_time, invisible_time, offset = found
    attempts = values.get("attemptTimes", 0)
    record = PopRecord(
        group, topic, queue_id, offset, pop_time, invisible_time, attempts if isinstance(attempts, int) else 0
    )
    try:
        return record if pop_key(record) == key else None
    except struct.error:
        return None
