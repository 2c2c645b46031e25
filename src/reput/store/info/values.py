"""What `reput info` tells of a store, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.formats.queue_types import SIMPLE

CLEAN, TORN, DAMAGED, UNKNOWN = "clean", "torn", "damaged", "unknown"


@dataclass(slots=True)
class QueueInfo:
    """One queue: its offsets [min_offset, max_offset), files and their bytes, and its entries (a batch has one).

    `waiting`: messages of it that are in the log alone, and wait for their entries.
    """

    queue_id: int
    min_offset: int
    max_offset: int
    files: int
    bytes: int
    entries: int
    waiting: int = 0

    @property
    def messages(self) -> int:
        """Messages that the queue still has, those in batches and those that wait for their entries too."""
        return self.max_offset - self.min_offset


@dataclass(slots=True)
class TopicInfo:
    """The queues of one topic, and their type (SimpleCQ, or BatchCQ for queues of batches)."""

    topic: str
    queues: list[QueueInfo] = field(default_factory=list)
    type: str = SIMPLE

    @property
    def entries(self) -> int:
        """Entries of all its queues."""
        return sum(queue.entries for queue in self.queues)

    @property
    def messages(self) -> int:
        """Messages in all its queues."""
        return sum(queue.messages for queue in self.queues)


@dataclass(slots=True)
class IndexInfo:
    """One IndexFile as its header has it: items, and the store times (ms) and log offsets that they span.

    A file without an item spans no time.
    """

    name: str
    bytes: int
    items: int
    begin_timestamp: int | None
    end_timestamp: int | None
    begin_physical_offset: int
    end_physical_offset: int


@dataclass(slots=True)
class LogInfo:
    """The log: offsets and sizes in bytes, times in ms.

    `max_offset` is where the next record would stand; when `max_is_exact` is false the walk to it was given up, and it
    is at least that. `tail`: clean, torn (`tail_bytes` of a half-written record), damaged (records follow) or unknown.
    """

    folder: str
    files: int = 0
    file_size: int = 0
    bytes: int = 0
    min_offset: int = 0
    max_offset: int = 0
    max_is_exact: bool = True
    first_store_timestamp: int | None = None
    last_store_timestamp: int | None = None
    tail: str = CLEAN
    tail_bytes: int = 0


@dataclass(slots=True)
class OwnInfo:
    """reput's own state in the store: the watermarks' epoch, the frontier, a swap to finish, what killed jobs left.

    `at_work`: another reput process holds the store now; `writer` is its process id where it has the store open for
    messages, 0 where it is a job.
    `deleted` are the queues that reput deleted, and of which the log may have messages.
    """

    epoch: int | None = None
    at_work: bool = False
    writer: int = 0
    frontier: dict[str, Any] | None = None
    pending_swap: bool = False
    leftovers: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StoreInfo:
    """What `reput info` tells. Offsets and sizes are bytes, times milliseconds.

    `behind` lists what is missing or behind, `damage` what is wrong, `unsupported` the kinds that reput does not build;
    `queue_kinds` are the kinds of queues that there are; `topics` tells of the first.
    `unread_topics`: there are so many further ones whose queues were not read.
    `broker_running` is None where this user may not ask.

    `held_by` and `held_by_pid` name the process that holds the store now (see `reput.store.owner.holders`; pid 0: not
    known), `follower_pid` the follower that builds indexes beside it. While a writer or a broker holds it, the log is
    whole up to `confirmed_offset`, and what lies there or later is not judged. `waiting_messages` in front of that
    have no index entry yet; there may be more where `waiting_is_exact` is false.
    """

    store: str
    log: LogInfo
    topics: list[TopicInfo] = field(default_factory=list)
    unread_topics: int = 0
    queue_bytes: int = 0
    ext_files: int = 0
    ext_bytes: int = 0
    queue_kinds: list[str] = field(default_factory=list)
    index_files: list[IndexInfo] = field(default_factory=list)
    checkpoint: dict[str, int] | None = None
    abort: bool = False
    broker_running: bool | None = False
    held_by: str = "nobody"
    held_by_pid: int = 0
    follower_pid: int = 0
    confirmed_offset: int | None = None
    waiting_messages: int = 0
    waiting_is_exact: bool = True
    own: OwnInfo = field(default_factory=OwnInfo)
    unsupported: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def queues(self) -> int:
        """Number of queues."""
        return sum(len(topic.queues) for topic in self.topics)

    @property
    def queue_entries(self) -> int:
        """Entries of all queues."""
        return sum(topic.entries for topic in self.topics)

    @property
    def queue_messages(self) -> int:
        """Messages in all queues."""
        return sum(topic.messages for topic in self.topics)

    @property
    def index_items(self) -> int:
        """Items in all IndexFiles."""
        return sum(file.items for file in self.index_files)

    def to_dict(self) -> dict[str, Any]:
        """The values, ready for JSON, with the sums."""
        value = asdict(self)
        value |= {name: getattr(self, name) for name in ("queues", "queue_entries", "queue_messages", "index_items")}
        for told, topic in zip(value["topics"], self.topics, strict=True):
            told |= {"entries": topic.entries, "messages": topic.messages}
            for told_queue, queue in zip(told["queues"], topic.queues, strict=True):
                told_queue["messages"] = queue.messages
        return value
