"""The messages of one queue from an offset on, a pull at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reput.store.read.message import StoredMessage
from reput.store.read.queue_answers import PullQuestion
from reput.store.read.results import MAX_PULL_BYTES
from reput.store.read.tag_filter import EVERYTHING
from reput.store.read.view import StoreView

_AT_ONCE = 256


class QueuedMessage(NamedTuple):
    """A message with its place in a queue and in the log."""

    queue_offset: int
    physical_offset: int
    message: StoredMessage

    @property
    def size(self) -> int:
        """Length of the record in bytes."""
        return len(self.message.raw)


def walk_queue(view: StoreView, topic: str, queue_id: int, begin: int) -> Iterator[QueuedMessage]:
    """Yield the messages of a queue from `begin` on that are there now; an expired begin counts as the first message.

    The queue offsets are those of the queue's entries. As in RocketMQ a record's own number may differ from them.
    """
    end = view.max_offset(topic, queue_id)
    offset = max(begin, view.min_offset(topic, queue_id))
    while offset < end:
        asked = PullQuestion(topic, queue_id, offset, min(_AT_ONCE, end - offset), EVERYTHING, MAX_PULL_BYTES)
        result = view.pull(asked)
        places = result.physical_offsets.tolist()
        is_whole = result.next_offset - offset == len(places)
        for number, (place, message) in enumerate(zip(places, result, strict=True)):
            # A pull passes over entries whose record has expired.
            yield QueuedMessage(offset + number if is_whole else message.queue_offset, place, message)
        if result.next_offset <= offset:
            return
        offset = result.next_offset
