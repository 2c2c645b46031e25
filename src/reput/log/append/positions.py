"""Places in a log and among its queues, as the log's writer gives and takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from reput.log.encode.topics import TopicState


class PreparedQueue(NamedTuple):
    """A queue that a writer need not look up: its topic's name, its id, and the writer's state of its topic."""

    name: str
    queue_id: int
    topic: TopicState


class Flushed(NamedTuple):
    """The result of a flush: all below log offset `offset`, stored up to `store_timestamp` (ms), is durable."""

    offset: int
    store_timestamp: int


class LogStart(NamedTuple):
    """The state in which an appender takes over a log.

    Attributes:
        end_offset: Log offset after the last good record.
        flushed_offset: Log offset up to which the log is durable; the first flush syncs the rest. None: all is durable.
        last_store_timestamp: Store time (ms) of the last record; no record gets an earlier one.
        queues: The next offset of each queue, by topic (UTF-8) and queue id.
        stored: Returns the next offset of any other queue, when the first message is put to it.
    """

    end_offset: int = 0
    flushed_offset: int | None = None
    last_store_timestamp: int = 0
    queues: Mapping[tuple[bytes, int], int] = MappingProxyType({})
    stored: Callable[[bytes, int], int] | None = None


NEW_LOG = LogStart()
