"""The values that `reput info` shows of a store."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.formats.queue.queue_types import SIMPLE
from reput.store.metadata.state import MetadataState

CLEAN, TORN, DAMAGED, UNKNOWN = "clean", "torn", "damaged", "unknown"


@dataclass(slots=True)
class QueueInfo:
    """One queue: its offsets [min_offset, max_offset), files and their bytes, and its entries (a batch has one).

    `waiting`: its messages that are in the log alone and have no entries yet.
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
        """The number of messages of the queue, with those in batches and those without entries yet."""
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
    """An IndexFile by its header: items, and the store times (ms) and log offsets that they span.

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
class IndexDatabaseInfo:
    """The index database by its marks: the log offset and store time (ms) of the last record that it indexes.

    Both are None for a database that cannot be read; then `damage` says why.
    """

    folder: str
    last_physical_offset: int | None
    last_store_timestamp: int | None
    damage: str = ""


@dataclass(slots=True)
class LogInfo:
    """The log: offsets and sizes in bytes, times in ms.

    `max_offset` is the offset of the next record. If `max_is_exact` is false, the walk stopped early and the offset is
    a lower bound. `tail`: clean, torn (`tail_bytes` of a half-written record), damaged (records follow) or unknown.
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
    """reput's own state in the store: the watermarks' epoch, the frontier, a swap to finish, leftovers of killed jobs.

    `at_work`: another reput process holds the store now; `writer` is its process id if it puts messages, 0 for a job.
    `deleted` are the queues that reput deleted; the log may still have their messages.
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
    """The answer of `reput info`. Offsets and sizes are bytes, times milliseconds.

    `out_of_date` lists what indexes lack, `damage` what is wrong. `unsupported` is empty: such a store is refused.
    `queue_kinds` are the kinds of queues in the store, `queue_folders` the folder of each, below the store; `topics`
    has the queues of the first one. `placement`: the settings of broker.conf with which a kind holds less than all
    queues. `unread_topics` counts the topics whose queues were not read. `metadata` says where topics, groups and
    committed offsets are, and how old that is. `broker_running` is None if this user has no access to the lock.

    `held_by` and `held_by_pid` name the process that holds the store now (see `reput.store.owner.holders`; pid 0 is
    unknown), `held_by_server` says that it serves RocketMQ clients, and `follower_pid` names the follower that builds
    indexes beside it. While a writer or a broker holds the store, the log is whole up to `confirmed_offset`, and later
    bytes are not judged. `waiting_messages` below that offset have no index entry yet; if `waiting_is_exact` is false
    there may be more.
    """

    store: str
    log: LogInfo
    topics: list[TopicInfo] = field(default_factory=list)
    unread_topics: int = 0
    queue_bytes: int = 0
    ext_files: int = 0
    ext_bytes: int = 0
    queue_kinds: list[str] = field(default_factory=list)
    queue_folders: dict[str, str] = field(default_factory=dict)
    placement: list[str] = field(default_factory=list)
    index_files: list[IndexInfo] = field(default_factory=list)
    index_database: IndexDatabaseInfo | None = None
    checkpoint: dict[str, int] | None = None
    abort: bool = False
    broker_running: bool | None = False
    held_by: str = "nobody"
    held_by_pid: int = 0
    held_by_server: bool = False
    follower_pid: int = 0
    confirmed_offset: int | None = None
    waiting_messages: int = 0
    waiting_is_exact: bool = True
    own: OwnInfo = field(default_factory=OwnInfo)
    metadata: MetadataState = field(default_factory=MetadataState)
    unsupported: list[str] = field(default_factory=list)  # for one version
    out_of_date: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def behind(self) -> list[str]:  # old name, for one version
        """The old name of `out_of_date`."""
        return self.out_of_date

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
        """Return the values for JSON, with the sums."""
        value = asdict(self)
        value["behind"] = value["out_of_date"]  # old name, for one version
        value |= {name: getattr(self, name) for name in ("queues", "queue_entries", "queue_messages", "index_items")}
        for topic_value, topic in zip(value["topics"], self.topics, strict=True):
            topic_value |= {"entries": topic.entries, "messages": topic.messages}
            for queue_value, queue in zip(topic_value["queues"], topic.queues, strict=True):
                queue_value["messages"] = queue.messages
        return value
