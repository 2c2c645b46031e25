"""The one way along a queue: pulls from an offset on, each from the offset that the one before returned.

An expired begin goes on at the first message that is there, and a gap at the next one: the pull's answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from reput.store.read.message import StoredMessage
from reput.store.read.queue_answers import PullQuestion
from reput.store.read.results import MAX_PULL_BYTES, GetResult
from reput.store.read.tag_filter import ALL_MESSAGES
from reput.store.read.view import StoreView

_AT_ONCE = 256

PullQueue = Callable[[int, int], GetResult]
"""A pull of one queue: from this queue offset on, at most this number of messages."""


class QueuedMessage(NamedTuple):
    """A message with its place in a queue and in the log."""

    queue_offset: int
    physical_offset: int
    message: StoredMessage

    @property
    def size(self) -> int:
        """Length of the record in bytes."""
        return len(self.message.raw)


def pulls_of(
    pull: PullQueue, begin: int, end: int | None = None, at_once: int = _AT_ONCE
) -> Iterator[tuple[int, GetResult]]:
    """Yield the pulls of a queue until one leads no further, each with the offset at which it began.

    The last pull may have no message; its status says why the queue ends there.

    Args:
        pull: Pulls from the queue.
        begin: The first queue offset that is wanted.
        end: The queue offset after the last one that is wanted; without it, the queue's end as each pull sees it.
        at_once: The most messages of a pull.
    """
    offset = begin
    while end is None or offset < end:
        result = pull(offset, at_once if end is None else min(at_once, end - offset))
        yield offset, result
        if result.next_offset <= offset:
            return
        offset = result.next_offset


def messages_of(pull: PullQueue, begin: int, end: int | None = None) -> Iterator[QueuedMessage]:
    """Yield the messages of a queue from `begin` on, with the queue offsets of its entries.

    As in RocketMQ a record's own number may differ from its entry's.
    """
    for offset, result in pulls_of(pull, begin, end):
        # A pull passes over entries whose record has expired: those that it has are then known by their records.
        is_whole = result.next_offset - offset == len(result)
        for number, (place, message) in enumerate(zip(result.physical_offsets.tolist(), result, strict=True)):
            yield QueuedMessage(offset + number if is_whole else message.queue_offset, place, message)


def walk_queue(view: StoreView, topic: str, queue_id: int, begin: int) -> Iterator[QueuedMessage]:
    """Yield the messages of a queue from `begin` on that are there now; an expired begin is the first message."""

    def pull(offset: int, most: int) -> GetResult:
        return view.pull(PullQuestion(topic, queue_id, offset, most, ALL_MESSAGES, MAX_PULL_BYTES))

    return messages_of(pull, begin, view.max_offset(topic, queue_id))
