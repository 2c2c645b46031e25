"""A sender: puts to one queue of an open store, whose topic is checked and looked up once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from reput.log.encode.message import Message

if TYPE_CHECKING:
    from reput.log.append.positions import PreparedQueue
    from reput.log.encode.message import PutResult


class Sender:
    """Puts messages to one queue of an open store; `MessageStore.sender` makes one. Safe for threads.

    A put stores the bytes that `MessageStore.put_message` stores, with the same checks, answers and errors. There is
    no `Message` to make, and nothing to look up.

    A sender is of no use after its store is closed, and keeps nothing open. It stays good if its topic is deleted: the
    queue then begins again at 0.

    Attributes:
        topic: The topic.
        queue_id: The queue.
    """

    __slots__ = ("_put_message", "_put_prepared", "_queue", "queue_id", "topic")

    def __init__(
        self,
        queue: PreparedQueue,
        put_prepared: Callable[..., PutResult | None],
        put_message: Callable[[Message, int], PutResult],
    ) -> None:
        self.topic, self.queue_id = queue.name, queue.queue_id
        self._queue = queue
        self._put_prepared, self._put_message = put_prepared, put_message

    def __repr__(self) -> str:
        return f"<reput sender to {self.topic}/{self.queue_id}>"

    def put(
        self,
        body: bytes,
        tags: str | None = None,
        keys: str | Sequence[str] | None = None,
        *,
        unique_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        born_timestamp: int | None = None,
    ) -> PutResult:
        """Store one message; with SYNC_FLUSH it is durable when this returns.

        A rejected put does not raise: it returns a `status` and a `reason`.

        Args:
            body: The body.
            tags: The tag; an empty one counts as no tag.
            keys: One key, or several in a sequence.
            unique_key: The sender's own id of the message; the store does not generate one.
            properties: Further properties.
            flag: The application's own flag.
            born_timestamp: Time at which the message was created (ms since 1970); None means the time of the put.

        Raises:
            ClosedError: The store is closed.
            TailFullError: Too many messages are not indexed yet.
            FlushError: The disk refuses to make the message durable; open the store again.
            ForkedStoreError: Another process opened the store, and this one was forked from it.
        """
        if not properties:
            placed = self._put_prepared(self._queue, body, tags, keys, unique_key, flag, born_timestamp)
            if placed is not None:
                return placed
        message = Message(
            self.topic, body, tags, keys, properties, flag, born_timestamp=born_timestamp, unique_key=unique_key
        )
        return self._put_message(message, self.queue_id)
