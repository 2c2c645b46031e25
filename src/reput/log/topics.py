"""The topic-queue table: the number that the next message of each queue gets, and each topic as records hold it."""

from __future__ import annotations

import operator
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from reput.formats.paths import MAX_TOPIC_BYTES, is_topic_folder_name
from reput.formats.record import MAGIC_V1, MAGIC_V2, V2_TOPIC_LENGTH_ABOVE, batch_offset_bound, queue_offset_bound
from reput.log.message import illegal

if TYPE_CHECKING:
    QueueOffsets = Mapping[tuple[bytes, int], int]

MAX_QUEUE_ID = 0x7FFFFFFF
_KEYS = [size << 16 for size in range(MAX_TOPIC_BYTES + 3)]
"""By the length of `Topic.part`."""


class Topic:
    """A topic that has been checked: its bytes, the record version it takes, and its queues' next offsets.

    `part` is what a record holds of it: the length, in one or two bytes, and the name. `key` has the length of that in
    the key of a record's shape; see `RecordEncoder.shape`.
    """

    __slots__ = ("is_batch", "key", "magic", "name", "next_offset", "part")

    def __init__(self, name: bytes, magic: int, is_batch: bool = False) -> None:
        self.name = name
        self.is_batch = is_batch
        self.magic = magic
        self.part = struct.pack(">h" if magic == MAGIC_V2 else ">b", len(name)) + name
        self.next_offset: dict[int, int] = {}
        # One number for all topics of a length: it stays in the processor's cache, however many topics there are.
        self.key = _KEYS[len(self.part)]


class TopicTable:
    """All topics that messages were put to or that the store had before.

    `batch_topics` have queues of batches. `queues` gives the next offsets of the queues there are. One that a log of
    `end_offset` bytes cannot have reached is held back: a record with it could not be told from damage, so puts to that
    queue are refused.

    A topic of more than 127 bytes makes a v2 record. (RocketMQ counts UTF-16 units instead, and writes a negative
    length for a topic of fewer units but more bytes; that is not imitated.)
    """

    def __init__(
        self,
        queues: QueueOffsets,
        end_offset: int,
        auto_version: bool = True,
        batch_topics: Collection[bytes] = (),
    ) -> None:
        self._auto_version = auto_version
        self._batch_topics = frozenset(batch_topics)
        self._held_back: dict[tuple[Topic, int], int] = {}
        self.by_name: dict[str, Topic] = {}
        """For a look-up without a call; `topic` fills it."""
        for (name, queue_id), offset in queues.items():
            topic = self.topic(name.decode())
            if 0 <= offset <= _bound(topic, end_offset):
                topic.next_offset[queue_id] = offset
            else:
                self._held_back[topic, queue_id] = offset

    def topic(self, name: str) -> Topic:
        """The topic of this name, made when it is new.

        Raises:
            MessageRefusedError: no record can hold it, or it cannot be a folder's name.
        """
        known = self.by_name.get(name)
        if known is None:
            # Of two threads at the same new topic one comes second, and takes what the first has made.
            known = self.by_name.setdefault(name, self._checked(name))
        return known

    def _checked(self, name: str) -> Topic:
        if not isinstance(name, str):
            raise illegal(f"topic {name!r}: give a text")
        try:
            data = name.encode()
        except UnicodeEncodeError:
            raise illegal(f"topic {name!r}: holds half a character, which UTF-8 cannot say") from None
        if len(data) > MAX_TOPIC_BYTES:
            raise illegal(f"topic {name[:40]!r}...: {len(data)} bytes, a folder's name has at most {MAX_TOPIC_BYTES}")
        if not is_topic_folder_name(data):
            raise illegal(f'topic {name!r}: cannot be a folder\'s name (empty, ".", "..", "/" or NUL)')
        if len(data) <= V2_TOPIC_LENGTH_ABOVE:
            return Topic(data, MAGIC_V1, data in self._batch_topics)
        if not self._auto_version:
            raise illegal(f"topic {name[:40]!r}...: {len(data)} bytes, and autoMessageVersionOnTopicLen is off")
        return Topic(data, MAGIC_V2, data in self._batch_topics)

    def next_offset(self, topic: Topic, queue_id: int, physical_offset: int) -> int:
        """The offset for the next message put to a queue; nothing is changed. Raises as `first_offset`."""
        offset = topic.next_offset.get(queue_id)
        return self.first_offset(topic, queue_id, physical_offset) if offset is None else offset

    def first_offset(self, topic: Topic, queue_id: int, physical_offset: int) -> int:
        """The offset for the first message put to a queue that has none in `Topic.next_offset`; nothing is changed.

        Raises:
            MessageRefusedError: it is no queue id, or a record with its offset could not be told from damage.
        """
        try:
            is_queue_id = 0 <= operator.index(queue_id) <= MAX_QUEUE_ID
        except TypeError:
            is_queue_id = False
        if not is_queue_id:
            raise illegal(f"queue id {queue_id!r}: give 0 to {MAX_QUEUE_ID}")
        offset = self._held_back.get((topic, queue_id), 0)
        if not 0 <= offset <= _bound(topic, physical_offset):
            raise illegal(
                f"queue {topic.name.decode()}/{queue_id}: its next offset would be {offset}, which a log of "
                f"{physical_offset} bytes cannot have reached; run reput check"
            )
        return offset

    def forget(self, topic: Topic, queue_id: int | None = None) -> None:
        """A topic's queues, or this one, begin again at 0."""
        for one in [*topic.next_offset] if queue_id is None else [queue_id]:
            topic.next_offset.pop(one, None)
        for held in [held for held in self._held_back if held[0] is topic and queue_id in (None, held[1])]:
            del self._held_back[held]

    def items(self) -> Iterator[tuple[tuple[bytes, int], int]]:
        """Each queue (topic, queue id) with its next offset."""
        for (topic, queue_id), offset in self._held_back.items():
            if queue_id not in topic.next_offset:
                yield (topic.name, queue_id), offset
        for topic in list(self.by_name.values()):
            for queue_id, offset in list(topic.next_offset.items()):
                yield (topic.name, queue_id), offset


def _bound(topic: Topic, physical_offset: int) -> int:
    return batch_offset_bound(physical_offset) if topic.is_batch else queue_offset_bound(physical_offset)
