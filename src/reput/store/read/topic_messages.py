"""All messages of a topic, one after the other in the order in which they were stored: pulls of its queues, merged.

Memory holds one pull of each queue: the places of a few messages, whose bytes stay in the log's files.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from reput.errors import ConfigError
from reput.nearest import unknown_topic
from reput.store.disk.retained import read_topics
from reput.store.read.message import StoredMessage
from reput.store.read.results import GetResult
from reput.store.read.view import StoreView

_AT_ONCE = 256


class TopicQuestion(NamedTuple):
    """What is wanted of a topic: see `Reading.messages`. `limit`: the log offset where it ends."""

    queue_ids: Sequence[int]
    begin_ms: int | None
    end_ms: int | None
    limit: int


def refuse_unknown(view: StoreView, topic: str) -> None:
    """Refuse a topic without queues, unless the broker's configuration has it: nothing was put to it yet.

    Raises:
        ConfigError: nobody knows the topic; the text names those near it.
    """
    configured = read_topics(view.layout).names
    if topic.encode("utf-8", "surrogateescape") not in configured:
        names = {*view.topics(), *(name.decode("utf-8", "replace") for name in configured)}
        raise ConfigError(unknown_topic(view.layout.root, topic, sorted(names)))


def messages_of(
    asked: TopicQuestion, first_offset: Callable[[int], int], pull: Callable[[int, int, int], GetResult]
) -> Iterator[StoredMessage]:
    """The messages, by log offset.

    Args:
        first_offset: where to begin in a queue.
        pull: at most so many messages of a queue from an offset on.
    """
    queues = [_walk(asked, queue_id, first_offset(queue_id), pull) for queue_id in asked.queue_ids]
    for _, message in heapq.merge(*queues, key=itemgetter(0)):
        yield message


def _walk(
    asked: TopicQuestion, queue_id: int, offset: int, pull: Callable[[int, int, int], GetResult]
) -> Iterator[tuple[int, StoredMessage]]:
    """The messages of one queue with their log offsets."""
    while True:
        result = pull(queue_id, offset, _AT_ONCE)
        for physical_offset, message in zip(result.physical_offsets.tolist(), result, strict=True):
            # What was put since the question would never end beside a writer that is faster.
            if physical_offset >= asked.limit:
                return
            if asked.end_ms is not None and message.store_timestamp > asked.end_ms:
                return
            # A clock that was set back: the search by time finds the first of the queue that is late enough.
            if asked.begin_ms is None or message.store_timestamp >= asked.begin_ms:
                yield physical_offset, message
        if result.next_offset <= offset:
            return
        offset = result.next_offset
