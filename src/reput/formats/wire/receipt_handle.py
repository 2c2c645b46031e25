"""The handle of a message that a pop has given, and the fields by which a pop's answer describes all of its handles.

A handle is eight words with a space between (`extraInfo`, property POP_CK):

    the first offset of the checkpoint, pop time (ms), invisible time (ms), revive queue, kind of topic, broker,
    queue, queue offset

A client makes the handle of each message from the answer's fields, which have an entry for each queue:

    startOffsetInfo     "kind queue offset;...": the first offset of the checkpoint
    msgOffsetInfo       "kind queue offset,offset;...": the offsets of the messages
    orderCountInfo      "kind qoQUEUE%OFFSET count;...", then "kind queue count": how often a message was given before

Source: `ExtraInfoUtil`, `KeyBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from reput.formats.java.java_numbers import parse_whole
from reput.formats.topics.pop_topics import TopicKind

POP_CK: Final = "POP_CK"
"""The property that has the handle of a message of a retry topic (`MessageConst.PROPERTY_POP_CK`)."""
ORDERLY_QUEUE: Final = 999
"""The revive queue in handles of orderly consumers, which have no checkpoint (`KeyBuilder.POP_ORDER_REVIVE_QUEUE`)."""
_WORDS = 8
_BITS = (64, 64, 64, 32, None, None, 32, 64)
"""The bits of each word that is a number."""


class ReceiptHandle(NamedTuple):
    """The handle of a message that a pop has given; times in ms."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    kind: TopicKind
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def is_orderly(self) -> bool:
        """True for a message of an orderly consumer."""
        return self.revive_queue == ORDERLY_QUEUE


def encode_handle(handle: ReceiptHandle) -> str:
    """Return the text of a handle."""
    return " ".join(map(str, handle))


def decode_handle(text: str) -> ReceiptHandle | None:
    """Return the handle of a text; None if the text is no handle."""
    words = text.split(" ")
    # A handle of a proxy has the offset in the log as a ninth word.
    if len(words) not in {_WORDS, _WORDS + 1}:
        return None
    values: list[int | str] = []
    for word, bits in zip(words, _BITS, strict=False):
        value = word if bits is None else parse_whole(word, bits)
        if value is None:
            return None
        values.append(value)
    start, popped, invisible, revive, kind, broker, queue, offset = values
    if kind not in set(TopicKind) or min(n for n in values if isinstance(n, int)) < 0:
        return None
    return ReceiptHandle(start, popped, invisible, revive, TopicKind(kind), broker, queue, offset)  # type: ignore[arg-type]


class PoppedQueue(NamedTuple):
    """The messages that a pop has given of one queue. `counts`: how often each was given before, in order."""

    kind: TopicKind
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    counts: Mapping[int, int]


def start_offset_info(queues: Iterable[PoppedQueue]) -> str:
    """Return the field `startOffsetInfo` of a pop's answer."""
    return ";".join(f"{one.kind} {one.queue_id} {one.start_offset}" for one in queues)


def message_offset_info(queues: Iterable[PoppedQueue]) -> str:
    """Return the field `msgOffsetInfo` of a pop's answer."""
    return ";".join(f"{one.kind} {one.queue_id} {','.join(map(str, one.offsets))}" for one in queues)


def order_count_info(queues: Iterable[PoppedQueue]) -> str:
    """Return the field `orderCountInfo` of an orderly pop's answer (`ConsumerOrderInfoManager.update`)."""
    entries: list[str] = []
    for one in queues:
        entries += [f"{one.kind} qo{one.queue_id}%{offset} {count}" for offset, count in one.counts.items()]
        # Older clients know one count of a queue.
        least = min(one.counts.values(), default=0) if len(one.counts) == len(one.offsets) else 0
        entries.append(f"{one.kind} {one.queue_id} {least}")
    return ";".join(entries)
