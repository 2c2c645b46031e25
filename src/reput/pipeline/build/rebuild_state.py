"""A rebuild under way: what was asked for, what it knows, and the report it fills."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.log.files import LogFiles
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job
from reput.pipeline.split.plan import MAX_SPLIT_MB, mib
from reput.store.disk.layout import StoreLayout
from reput.store.disk.report import RebuildReport
from reput.store.disk.settings import StoreSettings
from reput.store.owner.owner import Ownership

QUEUE, INDEX = "queue", "index"
LOG, QUEUES = "log", "queues"
"""What queues are built from: the records of the log, or the entries of another kind of queues."""
AUTO, ON, OFF = "auto", "on", "off"
DEFAULT_SPLIT_MB = 128
_NAMED = 5


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What a rebuild does; see `reput rebuild --help` for each.

    `kinds` of queues to build (none: those that the store has); `verify`: hold the staged queues against the log once
    more before they are swapped in. `source`: LOG, or QUEUES to build from the entries of another kind.
    """

    only: str | None = None
    topics: tuple[str, ...] = ()
    skip_topics: tuple[str, ...] = ()
    index_tags: str = AUTO
    salvage: bool = False
    empty_log: bool = False
    verify_crc: bool = True
    split_mb: float = DEFAULT_SPLIT_MB
    kinds: tuple[str, ...] = ()
    verify: bool = False
    source: str = LOG

    def __post_init__(self) -> None:
        if self.only not in (None, QUEUE, INDEX):
            raise ConfigError(f"only={self.only!r}: choose {QUEUE} or {INDEX}")
        if self.index_tags not in (AUTO, ON, OFF):
            raise ConfigError(f"index_tags={self.index_tags!r}: choose {AUTO}, {ON} or {OFF}")
        if self.source not in (LOG, QUEUES):
            raise ConfigError(f"source={self.source!r}: choose {LOG} or {QUEUES}")
        if self.source == QUEUES and self.salvage:
            raise ConfigError("--salvage goes around damage in the log, which is not read with --source queues")
        mib("split_mb", self.split_mb, MAX_SPLIT_MB)
        for topic in (*self.topics, *self.skip_topics):
            if not paths.is_topic_folder_name(topic.encode("utf-8", "surrogateescape")):
                raise ConfigError(f"topic {topic!r}: no name of a topic")
        if (self.topics or self.skip_topics) and self.only == INDEX:
            raise ConfigError("--topic and --skip-topic choose queues, and --only index builds none: give one of them")
        if self.topics and {*self.topics} <= {*self.skip_topics}:
            names = ", ".join(self.topics)
            raise ConfigError(f"{names}: in --topic and in --skip-topic, which leaves no queue to build")


class EndToKeep(NamedTuple):
    """A queue whose messages [begin, end) are lost: it goes on at `end` all the same."""

    key: QueueKey
    begin: int
    end: int


def _nothing() -> None:
    return None


@dataclass(slots=True)
class RebuildRun:
    """A rebuild under way: what it knows and what it has found.

    `keeps_known_good`: the log's end was damaged after it was durable, and nobody has given it up.
    """

    layout: StoreLayout
    log: LogFiles
    settings: StoreSettings
    options: RebuildOptions
    owned: Ownership
    engine: Engine
    job: Job
    listener: ProgressListener
    report: RebuildReport
    clock: dict[str, float] = field(default_factory=dict)
    keeps_known_good: bool = False
    start_index: Callable[[], None] = _nothing
    """Lets the IndexFiles be built beside what follows, once no more tasks are to be shut out before them."""

    def shut_out_late_tasks(self) -> None:
        """No attempt of a task so far may write any more, not even one that Spark has given up."""
        self.job = replace(self.job, epoch=self.owned.next_stage())

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:
        """Tell the listener of a stage, and the report how long it took; stop where another job took over."""
        self.owned.verify()
        self.listener.stage(name, total_bytes)
        begin = time.perf_counter()
        yield
        self.clock[name] = round(self.clock.get(name, 0) + time.perf_counter() - begin, 4)
