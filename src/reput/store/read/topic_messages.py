"""All messages of a topic in the order in which they were stored: pulls of its queues, merged.

Memory holds one pull of each queue: the places of a few messages, whose bytes stay in the log's files.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from reput.errors import ConfigError
from reput.formats.stored_text import shown_text, stored_bytes
from reput.nearest import near_it, quoted, some
from reput.store.read.message import StoredMessage
from reput.store.read.queue_walk import QueuedMessage, messages_of
from reput.store.read.results import GetResult
from reput.store.read.view import StoreView


class TopicQuestion(NamedTuple):
    """A question about a topic: see `Reading.messages`. `limit`: the log offset where the answer ends."""

    queue_ids: Sequence[int]
    begin_ms: int | None
    end_ms: int | None
    limit: int


def refuse_unknown(view: StoreView, topic: str) -> None:
    """Refuse a topic that neither has queues nor is in the broker's configuration, where it may be still empty.

    Raises:
        ConfigError: the store does not have the topic; the text names similar topics.
    """
    present, configured = view.topics(), view.topics_of_broker().names
    if topic not in present and stored_bytes(topic) not in configured:
        # Without a near one those that have messages: the others may be topics that a broker makes for itself.
        names = [*present, *sorted(shown_text(name) for name in configured)]
        hint = near_it(topic, list(dict.fromkeys(names))) or f"There are: {some(present or names)}"
        raise ConfigError(f"{view.layout.root}: no topic {quoted(topic)}. {hint}")


def messages_of_topic(
    asked: TopicQuestion, first_offset: Callable[[int], int], pull: Callable[[int, int, int], GetResult]
) -> Iterator[StoredMessage]:
    """Yield the messages by log offset.

    Args:
        first_offset: returns the first offset of a queue.
        pull: pulls from a queue id and an offset on, at most a number of messages.
    """
    queues = [
        _wanted(asked, messages_of(partial(pull, queue_id), first_offset(queue_id))) for queue_id in asked.queue_ids
    ]
    for found in heapq.merge(*queues, key=attrgetter("physical_offset")):
        yield found.message


def _wanted(asked: TopicQuestion, queue: Iterator[QueuedMessage]) -> Iterator[QueuedMessage]:
    for found in queue:
        # Messages put since the question do not count: with a faster writer there would be no end.
        if found.physical_offset >= asked.limit:
            return
        if asked.end_ms is not None and found.message.store_timestamp > asked.end_ms:
            return
        # A clock may have been set back: the search by time finds only the first message that is late enough.
        if asked.begin_ms is None or found.message.store_timestamp >= asked.begin_ms:
            yield found
