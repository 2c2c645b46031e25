"""The topic-queue table: the number that the next message of each queue gets, and each topic as records hold it."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from reput.formats.layout import WORD_SIZE
from reput.formats.log.record import (
    MAGIC_V1,
    MAGIC_V2,
    V2_TOPIC_LENGTH_ABOVE,
    batch_offset_bound,
    queue_offset_bound,
    topic_length_of,
)
from reput.formats.paths import MAX_QUEUE_ID, MAX_TOPIC_BYTES, is_topic_folder_name
from reput.kernels.layouts.place import TOPIC_LAYOUT, TopicAt
from reput.kernels.layouts.vectors import words_of
from reput.log.encode.message import MessageRefusedError, illegal

if TYPE_CHECKING:
    QueueOffsets = Mapping[tuple[bytes, int], int]
    StoredOffset = Callable[[bytes, int], int]

DENSE = 1 << 10
"""Queue ids below this have a place each in `TopicState.numbers`."""
NO_OFFSET = -1
_NUMBERS_AT, _QUEUES = TopicAt.numbers_at, TopicAt.queues


class TopicState:
    """A checked topic: the next offsets of its queues, its bytes, and its record version.

    `numbers` has the next offsets by queue id, NO_OFFSET for a queue that has none, and `further` those of the rare
    queue ids from DENSE on. `part` is the topic's part of a record: the length, in one or two bytes, and the name. `at`
    is the address of the topic's vector for the kernel (`TOPIC_LAYOUT`).
    """

    __slots__ = ("_vector", "at", "further", "is_batch", "magic", "name", "numbers", "part")

    def __init__(self, name: bytes, magic: int, is_batch: bool = False) -> None:
        self.name = name
        self.is_batch = is_batch
        self.magic = magic
        self.part = topic_length_of(magic).struct.pack(len(name)) + name
        self.numbers = array("q")
        self.further: dict[int, int] = {}
        words = words_of(TOPIC_LAYOUT, numbers_at=0, queues=0, magic=magic, part_size=len(self.part))
        self._vector = array("q", words)
        self._vector.frombytes(self.part + bytes(-len(self.part) % WORD_SIZE))
        self.at = self._vector.buffer_info()[0]

    def next_offset(self, queue_id: int) -> int:
        """Return the offset that the next message of a queue gets, NO_OFFSET if it has none."""
        if 0 <= queue_id < len(self.numbers):
            return self.numbers[queue_id]
        return self.further.get(queue_id, NO_OFFSET)

    def go_on_at(self, queue_id: int, offset: int) -> None:
        """Set a queue's next offset, or remove it with NO_OFFSET; `queue_id` is in 0 to MAX_QUEUE_ID."""
        if queue_id >= DENSE:
            self.further[queue_id] = offset
            return
        if queue_id >= self._vector[_QUEUES]:
            # The numbers move. Whatever interrupts this, the kernel never finds a queue at an old place.
            self._vector[_QUEUES] = 0
            self.numbers.extend([NO_OFFSET] * (queue_id + 1 - len(self.numbers)))
            self._vector[_NUMBERS_AT], self._vector[_QUEUES] = self.numbers.buffer_info()
        self.numbers[queue_id] = offset

    def next_offsets(self) -> Iterator[tuple[int, int]]:
        """Yield queue id and next offset of each queue that has one."""
        for queue_id, offset in [*enumerate(self.numbers), *self.further.items()]:
            if offset != NO_OFFSET:
                yield queue_id, offset


class TopicTable:
    """All topics that the store has, or to which messages were put.

    `batch_topics` have queues of batches. `queues` has the next offsets of the existing queues. Puts to a queue are
    refused if a log of `end_offset` bytes cannot have reached its next offset: a reader would take a record with it for
    damage. `stored` returns the next offset of any other queue, when the first message is put to it.

    A topic of more than 127 bytes makes a v2 record. (RocketMQ counts UTF-16 units instead, and writes a negative
    length for a topic of fewer units but more bytes; reput does not imitate that.)
    """

    def __init__(
        self,
        queues: QueueOffsets,
        end_offset: int,
        auto_version: bool = True,
        batch_topics: Collection[bytes] = (),
        stored: StoredOffset | None = None,
    ) -> None:
        self._auto_version = auto_version
        self._batch_topics = frozenset(batch_topics)
        self._stored = stored
        self._held_back: dict[tuple[TopicState, int], int] = {}
        self.by_name: dict[str, TopicState] = {}
        """Topics by name, for a look-up without a call; `topic` fills it."""
        self.at_by_name: dict[str, int] = {}
        """Their `at` by name."""
        for (name, queue_id), offset in queues.items():
            try:
                topic = self.topic(name.decode())
            except MessageRefusedError:
                # Another program wrote it, and nothing can be put to it: a put gets the reason.
                continue
            if 0 <= offset <= _bound(topic, end_offset):
                topic.go_on_at(queue_id, offset)
            else:
                self._held_back[topic, queue_id] = offset

    def topic(self, name: str) -> TopicState:
        """Return the topic of this name; a new one is added.

        Raises:
            MessageRefusedError: No record can hold it, or it cannot be a folder's name.
        """
        known = self.by_name.get(name)
        if known is None:
            # Of two threads with the same new topic the second one takes the topic of the first.
            known = self.by_name.setdefault(name, self._checked(name))
            self.at_by_name[name] = known.at
        return known

    def _checked(self, name: str) -> TopicState:
        if not isinstance(name, str):
            raise illegal(f"topic {name!r}: give a text")
        try:
            data = name.encode()
        except UnicodeEncodeError:
            raise illegal(f"topic {name!r}: holds half of a character, which UTF-8 cannot encode") from None
        if len(data) > MAX_TOPIC_BYTES:
            raise illegal(f"topic {name[:40]!r}...: {len(data)} bytes, a folder's name has at most {MAX_TOPIC_BYTES}")
        if not is_topic_folder_name(data):
            raise illegal(f'topic {name!r}: cannot be a folder\'s name (empty, ".", "..", "/" or NUL)')
        if len(data) <= V2_TOPIC_LENGTH_ABOVE:
            return TopicState(data, MAGIC_V1, data in self._batch_topics)
        if not self._auto_version:
            raise illegal(f"topic {name[:40]!r}...: {len(data)} bytes, and autoMessageVersionOnTopicLen is off")
        return TopicState(data, MAGIC_V2, data in self._batch_topics)

    @staticmethod
    def check_queue_id(queue_id: int) -> None:
        """Refuse what is no queue id.

        Raises:
            MessageRefusedError: It is no number, or out of range.
        """
        try:
            is_queue_id = 0 <= operator.index(queue_id) <= MAX_QUEUE_ID
        except TypeError:
            is_queue_id = False
        if not is_queue_id:
            raise illegal(f"queue id {queue_id!r}: give 0 to {MAX_QUEUE_ID}")

    def next_offset(self, topic: TopicState, queue_id: int, physical_offset: int) -> int:
        """Return the offset for the next message put to a queue, without a change.

        Raises:
            MessageRefusedError: The queue id is invalid, or a reader would take a record with that offset for damage.
        """
        self.check_queue_id(queue_id)
        offset = topic.next_offset(queue_id)
        if offset != NO_OFFSET:
            return offset
        held_back = self._held_back.get((topic, queue_id))
        if held_back is not None:
            offset = held_back
        else:
            offset = self._stored(topic.name, int(queue_id)) if self._stored is not None else 0
        if not 0 <= offset <= _bound(topic, physical_offset):
            raise illegal(
                f"queue {topic.name.decode()}/{queue_id}: its next offset would be {offset}, which a log of "
                f"{physical_offset} bytes cannot have reached; run reput check"
            )
        return offset

    def offsets_of(self, name: str, queue_id: int | None = None) -> dict[int, int]:
        """Return the next offsets of a topic's queues, or of this one of them, by queue id."""
        topic = self.by_name.get(name)
        offsets = () if topic is None else topic.next_offsets()
        return {one: offset for one, offset in offsets if queue_id in (None, one)}

    def forget(self, name: str, queue_id: int | None = None) -> None:
        """Let a topic's queues, or this one of them, begin again at 0."""
        topic = self.by_name.get(name)
        if topic is None:
            return
        for one in self.offsets_of(name, queue_id):
            topic.go_on_at(one, NO_OFFSET)
        for held in [held for held in self._held_back if held[0] is topic and queue_id in (None, held[1])]:
            del self._held_back[held]

    def items(self) -> Iterator[tuple[tuple[bytes, int], int]]:
        """Yield each queue (topic, queue id) with its next offset."""
        for (topic, queue_id), offset in self._held_back.items():
            if topic.next_offset(queue_id) == NO_OFFSET:
                yield (topic.name, queue_id), offset
        for topic in list(self.by_name.values()):
            for queue_id, offset in topic.next_offsets():
                yield (topic.name, queue_id), offset


def _bound(topic: TopicState, physical_offset: int) -> int:
    return batch_offset_bound(physical_offset) if topic.is_batch else queue_offset_bound(physical_offset)
