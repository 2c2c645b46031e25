"""A batch of messages on its way into the log: it is checked before the writer takes its lock, and encoded under it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import numpy as np

from reput.errors import ConfigError
from reput.formats.log.property_names import DELAY
from reput.formats.log.record import TRANSACTION_MASK
from reput.log.encode.encode import RecordEncoder, RecordParts
from reput.log.encode.message import (
    Message,
    MessageRefusedError,
    PropertyEncoder,
    PutManyResult,
    PutStatus,
    check_message,
    illegal,
)
from reput.log.encode.topics import TopicState, TopicTable

Write = Callable[[int, bytes | memoryview], None]
"""Stores bytes at a position of the log's file; see `AppendFile.write`."""


class CheckedBatch(Protocol):
    """A checked batch: `size` bytes of records, which all go into one file."""

    @property
    def size(self) -> int:
        """Bytes that the records take."""

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records from `position` on, which is log offset `offset`, and number them in their queues.

        Whatever it raises, no number is used.

        Raises:
            MessageRefusedError: One of the messages cannot be stored.
            ReputError: `write` failed.
        """


def numbers_of(queues: Collection[tuple[TopicState, int]]) -> list[int]:
    """Return the next offsets of queues, NO_OFFSET for a queue without one."""
    try:
        return [topic.numbers[queue_id] for topic, queue_id in queues]
    except IndexError:
        return [topic.next_offset(queue_id) for topic, queue_id in queues]


def raise_numbers(
    queues: Collection[tuple[TopicState, int]], numbers: Iterable[int], before: list[int] | None = None
) -> None:
    """Set the next offsets of queues: of all of them, or of none if an interrupt comes.

    `before`: their `numbers_of`, if the caller has them.
    """
    before = before or numbers_of(queues)
    try:
        for (topic, queue_id), number in zip(queues, numbers, strict=True):
            try:
                topic.numbers[queue_id] = number
            except IndexError:
                topic.go_on_at(queue_id, number)
    except BaseException:
        for (topic, queue_id), old in zip(queues, before, strict=True):
            topic.go_on_at(queue_id, old)
        raise


class MessageBatch:
    """A batch of `Message`s. As in RocketMQ, it cannot hold transactions or delayed messages.

    Raises:
        MessageRefusedError: One of the messages cannot be stored; the reason says which.
    """

    def __init__(
        self,
        messages: Iterable[Message],
        queue_id: int | Sequence[int],
        topics: TopicTable,
        records: RecordEncoder,
        properties: PropertyEncoder,
        max_body: int,
    ) -> None:
        self._topics = topics
        self._records = records
        self._parts: list[RecordParts] = []
        if not isinstance(messages, Iterable):
            raise ConfigError(f"messages {messages!r:.80}: give a list of reput.Message, or an Arrow table")
        if isinstance(queue_id, str | bytes) or not (isinstance(queue_id, int) or hasattr(queue_id, "__len__")):
            raise ConfigError(f"queue_id {queue_id!r:.80}: give a number, or one for each message")
        for message in messages:
            row = len(self._parts)
            try:
                if not is_plain(message):
                    raise illegal("transactions and delayed messages cannot be in a batch; put them one by one")
                body = checked_body(message.body, max_body)
                data = properties.encode(message)
                frame = records.frame(message)
                topic = topics.topic(message.topic)
                if not isinstance(queue_id, int) and row >= len(queue_id):
                    raise illegal(f"there are {len(queue_id)} queue ids; give one for each message, or one for all")
            except MessageRefusedError as refusal:
                raise _named(refusal, row) from None
            except (AttributeError, TypeError):
                _check(message, row)
                raise
            own_id = queue_id if isinstance(queue_id, int) else queue_id[row]
            self._parts.append(RecordParts.of(message, frame, body, data, topic, own_id))
        if not isinstance(queue_id, int) and len(queue_id) > len(self._parts):
            raise illegal(
                f"{len(queue_id)} queue ids for {len(self._parts)} messages: give one for each, or one for all"
            )
        self._sizes = np.array([part.size for part in self._parts], dtype=np.int64)
        self.size = int(self._sizes.sum())

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Store the records and number them; see `CheckedBatch`."""
        starts = offset + np.cumsum(self._sizes) - self._sizes
        following: dict[tuple[TopicState, int], int] = {}
        numbers, records = [], []
        for row, (part, start) in enumerate(zip(self._parts, starts.tolist(), strict=True)):
            queue = part.topic, part.queue_id
            try:
                number = following.get(queue)
                if number is None:
                    number = self._topics.next_offset(part.topic, part.queue_id, start)
                records.append(self._records.encode(part, number, start, now_ms))
            except MessageRefusedError as refusal:
                _check(part.message, row)
                raise _named(refusal, row) from None
            following[queue] = number + 1
            numbers.append(number)
        write(position, b"".join(records))
        result = PutManyResult(PutStatus.PUT_OK, starts, self._sizes, np.array(numbers, dtype=np.int64), now_ms)
        # After this call nothing is called until the appender raises the log's end, so no interrupt comes in between.
        raise_numbers(following, following.values())
        return result


def _named(refusal: MessageRefusedError, row: int) -> MessageRefusedError:
    return MessageRefusedError(refusal.status, f"message {row} of the batch: {refusal.reason}")


def _check(message: object, row: int) -> None:
    try:
        check_message(message)
    except MessageRefusedError as refusal:
        raise _named(refusal, row) from None


def stored_nothing(status: PutStatus, reason: str = "") -> PutManyResult:
    """Return the answer to a batch of which nothing was stored."""
    empty = np.empty(0, dtype=np.int64)
    return PutManyResult(status, empty, empty, empty, reason=reason)


def is_plain(message: Message) -> bool:
    """Return True if a message may be in a batch: it has no transaction flag and no delay level."""
    delayed = message.properties is not None and DELAY in message.properties
    return not message.sys_flag & TRANSACTION_MASK and not delayed


def checked_body(body: object, max_body: int) -> bytes:
    """Return a body as bytes.

    Raises:
        MessageRefusedError: It is no body, or over `max_body` bytes.
    """
    if isinstance(body, (bytearray, memoryview)):
        body = bytes(body)
    if not isinstance(body, bytes):
        raise illegal(f"the body is of type {type(body).__name__}: give bytes")
    if len(body) > max_body:
        raise illegal(f"body of {len(body)} bytes: at most {max_body} (maxMessageSize)")
    return body
