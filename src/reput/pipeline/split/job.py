"""The job that every task knows, and the result that a task returns to the driver: small values only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from reput.errors import StaleEpochError
from reput.files import fs, locks
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.index.index_kinds import DEFAULT_INDEXES
from reput.formats.log.record import Verdict
from reput.formats.own import files as own
from reput.formats.queue.batch_consume_queue import DEFAULT_FILE_SIZE as DEFAULT_BATCH_FILE_SIZE
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.queue_kinds import DEFAULT_KINDS, DEFAULT_KINDS_BUILT, MESSAGE_KINDS, PLACED_KIND
from reput.formats.queue.queue_types import UNKNOWN_TYPES, QueueTypes
from reput.log.read.decode import DecodeSettings
from reput.log.read.scan import Gap
from reput.pipeline.split.ext_job import ExtJob
from reput.queue.kinds import AnyKind
from reput.queue.placement import EVERYWHERE, QueuePlacement
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings

V = TypeVar("V")


@dataclass(frozen=True)
class Job:
    """A job on a store: its folders, sizes and topics, the same for all its tasks.

    A rebuild builds in `staging`. A job that follows the log writes in place, below `live`. A check writes only parts.
    """

    reput_folder: str
    """The store's folder of reput, with the fence and the watermarks."""
    staging: str
    """The folder for new indexes and for parts between stages."""
    epoch: int
    """The number that the store must have while a task writes."""
    decode: DecodeSettings
    """The settings for decoding the log."""
    queue_file_size: int
    """Size of a queue file (bytes)."""
    index_slots: int
    """Slots of an IndexFile."""
    index_items: int
    """Items of an IndexFile."""
    owner: fs.Owner
    """The owner and the modes of new files."""
    build_queues: bool = True
    """False: the job is about the index alone."""
    indexes: tuple[str, ...] = DEFAULT_INDEXES
    """The kinds of index to build."""
    emptied_indexes: tuple[str, ...] = ()
    """The kinds of index to make anew without a message."""
    topics: frozenset[bytes] | None = None
    """The topics whose queues are built; None: all."""
    skip_topics: frozenset[bytes] = field(default_factory=frozenset)
    """The topics whose queues are left alone."""
    sync_in_tasks: bool = False
    """True if the driver's sync does not reach the machines of tasks: each task then syncs what it writes."""
    fenced: bool = True
    """False for a check, which writes outside the store: its tasks need no fence."""
    live: str | None = None
    """The store's folder for a job that writes in place."""
    places_at_once: bool = True
    """True if decode tasks write entries to their places; else they leave them until the splits are proved."""
    kinds: tuple[str, ...] = DEFAULT_KINDS_BUILT
    """The kinds of queues to build."""
    frontier: int = 0
    """The log offset below which entries are complete: a job in place never overwrites those of records below it."""
    begun: int = 0
    """The epoch at the job's beginning: values that a worker keeps between tasks are good while it is the same."""
    batch_queue_file_size: int = DEFAULT_BATCH_FILE_SIZE
    """Size of a file of a queue of batches (bytes)."""
    types: QueueTypes = UNKNOWN_TYPES
    """The topics whose queues are queues of batches."""
    ext: ExtJob | None = None
    """The facts about ConsumeQueueExt; None without it."""
    checked: str = ""
    """The store that a check looks at."""
    judged_to: int | None = None
    """The log offset below which a check judges indexes to which a process appends; None: all of them."""
    deleted: dict[QueueKey, int] = field(default_factory=dict, hash=False)
    """Queues that get no entry for a record below this log offset."""
    database_part: str = paths.CONSUME_QUEUE
    """The name of the database's folder in the store."""
    placement: QueuePlacement = EVERYWHERE
    """The kinds of the job that hold each queue."""

    @classmethod
    def of_store(
        cls,
        layout: StoreLayout,
        settings: StoreSettings,
        kinds: Iterable[AnyKind],
        staging: Path,
        epoch: int,
        *,
        tag_items: bool = True,
    ) -> Job:
        """Return a job with a store's sizes, types, decoding and kinds; callers set the rest with `replace`."""
        names = [kind.name for kind in kinds] or DEFAULT_KINDS_BUILT
        chosen = [name for name in names if name in MESSAGE_KINDS] or DEFAULT_KINDS
        return cls(
            reput_folder=str(layout.reput),
            staging=str(staging),
            epoch=epoch,
            decode=settings.decoding(tag_items),
            queue_file_size=settings.queue_file_size,
            batch_queue_file_size=settings.batch_queue_file_size,
            types=settings.types,
            index_slots=settings.index_slots,
            index_items=settings.index_items,
            owner=fs.owner_of(layout.root),
            kinds=(*chosen, *(name for name in names if name not in chosen)),
            placement=settings.placement.of_kinds(chosen),
            database_part=layout.queue_database.name,
        )

    @property
    def of_all_topics(self) -> bool:
        """True if the queues of every topic are built."""
        return self.topics is None and not self.skip_topics

    def wants(self, topic: bytes) -> bool:
        """Return True if the queues of this topic are built."""
        return topic not in self.skip_topics and (self.topics is None or topic in self.topics)

    def wants_entries_of(self, topic: bytes) -> bool:
        """Return True if queues of this topic are built, with an entry for each message."""
        return self.wants(topic) and topic not in self.types.batch

    def wanted_of(self, queues: Mapping[QueueKey, V]) -> dict[QueueKey, V]:
        """Return those of these queues that are built."""
        return {key: value for key, value in queues.items() if self.wants(key.topic)}

    def holds(self, kind: str, key: QueueKey) -> bool:
        """Return True if a kind of the job holds this queue."""
        return self.placement.holds(kind, key.topic)

    def places(self, key: QueueKey) -> bool:
        """Return True if entries of a queue have places in files."""
        return self.placement.holds(PLACED_KIND, key.topic)

    @cached_property
    def parts_folder(self) -> str:
        """The folder in which tasks leave parts for a later stage; it is removed before the swap."""
        return f"{self.staging}/parts"

    @cached_property
    def queue_folder(self) -> str:
        """The consumequeue folder that is written."""
        return f"{self.live or self.staging}/{paths.CONSUME_QUEUE}"

    @cached_property
    def database_folder(self) -> str:
        """The folder of the database that is written."""
        return f"{self.live or self.staging}/{self.database_part}"

    @cached_property
    def ext_folder(self) -> str:
        """The consumequeue_ext folder that is written."""
        return f"{self.live or self.staging}/consumequeue_ext"

    @cached_property
    def batch_queue_folder(self) -> str:
        """The batchconsumequeue folder that is written."""
        return f"{self.live or self.staging}/batchconsumequeue"

    @cached_property
    def index_folder(self) -> str:
        """The index folder that is written."""
        return f"{self.live or self.staging}/index"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the fence while a task writes, and verify that the job still owns the store.

        Raises:
            StaleEpochError: another job has taken the store over.
        """
        if not self.fenced:
            # A check writes only into a folder of its own, outside the store.
            yield
            return
        folder = Path(self.reput_folder)
        with locks.task_fence(folder / own.FENCE_NAME):
            watermarks = Watermarks(folder / own.WATERMARKS_NAME)
            try:
                if watermarks["epoch"] != self.epoch:
                    raise StaleEpochError(f"{folder}: epoch {watermarks['epoch']} has replaced {self.epoch}")
            finally:
                watermarks.close()
            yield


class SplitOddities(NamedTuple):
    """Odd records of a split, for the report: counts, and the log offset of the first of each kind (-1: none)."""

    prepared: int
    rolled_back: int
    without_entry: int
    first_without_entry: int
    time_regressions: int
    first_time_regression: int


class SplitResult(NamedTuple):
    """The result of a decode task; offsets are log offsets, times ms (-1: no record)."""

    number: int
    begin: int
    first_record: int
    chain_end: int
    gaps: tuple[Gap, ...]
    open_verdict: Verdict | None
    records: int
    items: int
    queue_entries: int
    records_after_last_item: int
    last_record: int
    last_record_size: int
    first_store_timestamp: int
    last_store_timestamp: int
    max_store_timestamp: int
    oddities: SplitOddities
    skipped: frozenset[bytes] = frozenset()
    """Topics of the split that the job was asked to skip."""
    batches: int = 0
    """The number of the split's entries for queues of batches; a second stage writes them."""
    inferred: frozenset[bytes] = frozenset()
    """Topics of the split whose records alone show that they have queues of batches."""
