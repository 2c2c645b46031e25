"""Messages that take more than one number: a batch in one record, and a message that also goes to further queues.

A batch (sysFlag 0x80) takes INNER_NUM numbers of its queue, and is stored with the first of them as INNER_BASE. A
message with INNER_MULTI_DISPATCH takes one number of each queue named there, and is stored with these numbers as
INNER_MULTI_QUEUE_OFFSET (with enableLmq; otherwise it is stored unchanged).

Source: `BatchConsumeQueue.assignQueueOffset`, `CommitLog.getMessageNum`, `LmqDispatch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reput.formats.config.consumer_offset import LMQ_QUEUE_ID
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import properties as props
from reput.formats.log.property_names import INNER_BASE, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, INNER_NUM
from reput.formats.log.record import FLAG_INNER_BATCH, MAX_BATCH_MESSAGES, gives_further_entries
from reput.formats.queue.queue_types import BATCH, QUEUE_TYPE
from reput.formats.topics.system_topics import LMQ_PREFIX
from reput.log.encode.encode import is_numbered
from reput.log.encode.message import Message, illegal
from reput.log.encode.topics import TopicState, TopicTable

_LMQ, _COMMA = LMQ_PREFIX.decode(), props.QUEUE_SEPARATOR.decode()


@dataclass(frozen=True, slots=True)
class CheckedInner:
    """A checked message: how many numbers it takes of its own queue, and its further queues."""

    message: Message
    messages: int
    further: tuple[TopicState, ...]

    def numbered(self, first: int, further: list[int]) -> Message:
        """Return the message as it is stored if its own queue gives it `first` and the further queues the others."""
        properties = dict(self.message.properties or {})
        if self.message.sys_flag & FLAG_INNER_BATCH:
            properties[INNER_BASE] = str(first)
        if self.further:
            properties[INNER_MULTI_QUEUE_OFFSET] = _COMMA.join(map(str, further))
        return replace(self.message, properties=properties)

    def next_offsets(self, topics: TopicTable, physical_offset: int) -> list[int]:
        """Return the numbers that the further queues give next.

        Raises:
            MessageRefusedError: A reader would take a record with such a number for damage.
        """
        return [topics.next_offset(topic, LMQ_QUEUE_ID, physical_offset) for topic in self.further]

    def following(self, numbers: list[int]) -> dict[tuple[TopicState, int], int]:
        """Return the next offsets of the further queues after they have given these numbers."""
        return {(topic, LMQ_QUEUE_ID): number + 1 for topic, number in zip(self.further, numbers, strict=True)}


def checked_inner(message: Message, topic: TopicState, topics: TopicTable, enable_lmq: bool) -> CheckedInner:
    """Return the message with the numbers that it takes.

    Raises:
        MessageRefusedError: Its topic takes no batches, its count is invalid, or a further queue is no light queue.
    """
    properties = message.properties or {}
    is_batch = bool(message.sys_flag & FLAG_INNER_BATCH)
    if INNER_NUM in properties and not is_batch:
        raise illegal(f"property {INNER_NUM} belongs to a batch in one record (sysFlag 0x{FLAG_INNER_BATCH:x})")
    if is_batch and not topic.is_batch:
        raise illegal(
            f"a batch in one record (sysFlag 0x{FLAG_INNER_BATCH:x}): topic {message.topic} does not take any. Set its "
            f"{QUEUE_TYPE} to {BATCH} in config/topics.json, and open the store again"
        )
    return CheckedInner(
        message,
        _count(properties[INNER_NUM]) if INNER_NUM in properties else 1,
        _further(properties[INNER_MULTI_DISPATCH], topics) if enable_lmq and _is_dispatched(message, topic) else (),
    )


def _count(text: object) -> int:
    count = parse_whole(text.encode("utf-8", "surrogatepass"), 32) if isinstance(text, str) else None
    if count is None or not 1 <= count <= MAX_BATCH_MESSAGES:
        raise illegal(f"property {INNER_NUM} is {text!r}: give the number of messages, 1 to {MAX_BATCH_MESSAGES}")
    return count


def _is_dispatched(message: Message, topic: TopicState) -> bool:
    if not message.properties or not message.properties.get(INNER_MULTI_DISPATCH):
        return False
    return gives_further_entries(topic.name) and not topic.is_batch and is_numbered(message.sys_flag)


def _further(text: object, topics: TopicTable) -> tuple[TopicState, ...]:
    names = text.split(_COMMA) if isinstance(text, str) else []
    for name in names:
        if not name.startswith(_LMQ):
            raise illegal(f"property {INNER_MULTI_DISPATCH}: {name!r} is no light queue; the names begin with {_LMQ}")
    if len(set(names)) < len(names):
        raise illegal(f"property {INNER_MULTI_DISPATCH}: it names a queue twice")
    found = tuple(topics.topic(name) for name in names)
    batches = [name for name, topic in zip(names, found, strict=True) if topic.is_batch]
    if batches:
        raise illegal(f"property {INNER_MULTI_DISPATCH}: {batches[0]} has {QUEUE_TYPE} {BATCH}")
    return found
