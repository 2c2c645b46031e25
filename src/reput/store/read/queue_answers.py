"""The questions that every queue of an open store answers, whatever its entries are.

`StoreView.reader_of` gives the reader of a topic's queues, so no caller asks for the kind of a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from reput.formats.queue.consume_queue import QueueKey
from reput.queue.by_time import Boundary
from reput.queue.kinds import OpenQueues
from reput.store.read.results import GetResult
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

BROKER_PULL_MESSAGES: Final = 32
"""The most messages that a broker returns for a pull (maxTransferCountOnMessageInMemory)."""
BROKER_PULL_BYTES: Final = 256 << 10
"""The most bytes of records that it returns, but always one record (maxTransferBytesOnMessageInMemory)."""


class PullQuestion(NamedTuple):
    """A pull from a queue; see `Reading.get_message`."""

    topic: str
    queue_id: int
    offset: int
    max_messages: int
    wanted: TagFilter | SqlFilter
    max_bytes: int


class PullLimits(NamedTuple):
    """Bounds on what one pull returns, beside its own; None for no bound.

    RocketMQ's broker has 32 messages and 262,144 bytes (maxTransferCountOnMessageInMemory,
    maxTransferBytesOnMessageInMemory): they keep its network fair, and are off in an embedded store.
    """

    messages: int | None = None
    total_bytes: int | None = None


class QueueAnswers(Protocol):
    """The answers about the queues of some topics, once the store has caught up. Safe for threads."""

    has_batches: bool
    """True if an entry may be for several messages."""

    @property
    def queues(self) -> OpenQueues:
        """The queues, with their offsets. Hold the follower's lock while you use them."""

    def topics(self) -> set[str]:
        """Return the topics that have such queues; no queue is read. Hold the follower's lock for the call."""

    def pull(self, key: QueueKey, asked: PullQuestion) -> GetResult:
        """Return the answer to a pull."""

    def offset_by_time(self, key: QueueKey, timestamp_ms: int, boundary: Boundary) -> int:
        """Return the queue offset for a time; 0 if there is no such queue."""

    def store_time(self, key: QueueKey, offset: int) -> int:
        """Return the store time (ms) of the message at an offset; -1 if there is none."""

    def estimate(self, key: QueueKey, begin: int, end: int, wanted: TagFilter | SqlFilter) -> int:
        """Count the messages with offsets [begin, end) that pulls with this filter give."""

    def have_matches(self, key: QueueKey, begin: int, end: int, wanted: Sequence[TagFilter | SqlFilter]) -> list[bool]:
        """Return for each filter whether `estimate` finds a message."""


class AnswersBeside(QueueAnswers, Protocol):
    """The answers about queues of a kind that a store has beside others, for topics of their own."""

    own_topics: set[str]
    """Those topics; it grows as messages come."""
