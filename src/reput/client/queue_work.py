"""The messages of one queue that a consumer has: those that wait for a poll, and those that it works on.

The offset that may be committed is that of the first message that is not done; so messages may be done in any order,
and a consumer that is killed loses none.

Source: `ProcessQueue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reput.client.received import ReceivedMessage
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.subscription import Subscription


class _Given(NamedTuple):
    offset: int
    size: int


class QueueWork:
    """The messages of one queue.

    Args:
        queue: the queue.
        subscription: what the group wants of its topic.
        offset: the offset at which pulls begin.

    Attributes:
        next_offset: The offset of the next pull.
        sent_offset: The offset that the broker has; -1 if it has none of this work.
        broker_id: The id of the broker from which the next pull is to come.
        bytes: Bytes of all messages that are not done.
        is_dropped: True once the queue belongs to another consumer, or has been sent to another offset.
    """

    def __init__(self, queue: QueueName, subscription: Subscription, offset: int) -> None:
        self.queue = queue
        self.subscription = subscription
        self.next_offset = offset
        self.sent_offset = -1
        self.broker_id = 0
        self.bytes = 0
        self.is_dropped = False
        self._waiting: deque[ReceivedMessage] = deque()
        # In the order of their offsets; those that are done stay until all before them are.
        self._given: deque[_Given] = deque()
        self._done: set[int] = set()

    def __repr__(self) -> str:
        return f"QueueWork({self.queue}, {len(self._waiting)} wait, {len(self._given)} given, next {self.next_offset})"

    @property
    def count(self) -> int:
        """The messages that wait or are given, with those that are done while one before them is not."""
        return len(self._waiting) + len(self._given)

    @property
    def waiting(self) -> int:
        """The messages that wait for a poll."""
        return len(self._waiting)

    @property
    def committable(self) -> int:
        """The offset at which the group goes on if this consumer ends."""
        if self._given:
            return self._given[0].offset
        return self._waiting[0].queue_offset if self._waiting else self.next_offset

    def add(self, messages: Sequence[ReceivedMessage]) -> int:
        """Take messages that a pull has brought; return their bytes."""
        size = 0
        for message in messages:
            message.work = self
            size += len(message.raw)
        self._waiting.extend(messages)
        self.bytes += size
        return size

    def take(self, most: int) -> list[ReceivedMessage]:
        """Give the next messages away, at most `most`."""
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._given.extend(_Given(message.queue_offset, len(message.raw)) for message in taken)
        return taken

    def done(self, offset: int) -> int:
        """Note that a message is done; return the bytes of those that are given no longer."""
        given, done = self._given, self._done
        if not given or not given[0].offset <= offset <= given[-1].offset:
            # It was done before.
            return 0
        done.add(offset)
        freed = 0
        while given and given[0].offset in done:
            first = given.popleft()
            done.discard(first.offset)
            freed += first.size
        self.bytes -= freed
        return freed

    def all_done(self) -> int:
        """Note that all messages that were given are done; return their bytes."""
        freed = sum(one.size for one in self._given)
        self._given.clear()
        self._done.clear()
        self.bytes -= freed
        return freed

    def drop(self) -> int:
        """Give all messages up; return their bytes. The committable offset stays as it was."""
        self.next_offset = self.committable
        self.is_dropped = True
        freed, self.bytes = self.bytes, 0
        self._waiting.clear()
        self._given.clear()
        self._done.clear()
        return freed
