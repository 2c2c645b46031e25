"""Options of a rebuild."""

from __future__ import annotations

from dataclasses import dataclass

from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.stored_text import stored_bytes
from reput.pipeline.split.plan import MAX_SPLIT_MB, mib

QUEUE, INDEX = "queue", "index"
LOG, QUEUES = "log", "queues"
"""The sources of queues: the records of the log, or the entries of another kind of queues."""
AUTO, ON, OFF = "auto", "on", "off"
DEFAULT_SPLIT_MB = 128


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """Options of a rebuild; `reput rebuild --help` describes each.

    `kinds` of queues to build (none: those that the store has). `index_kinds`: the kinds of index to build, while
    others are removed (none: those that the store has, and nothing is removed). `verify`: compare the staged queues
    with the log once more before the swap. `source`: LOG, or QUEUES to build from the entries of another kind.
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
    index_kinds: tuple[str, ...] = ()

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
            if not paths.is_topic_folder_name(stored_bytes(topic)):
                raise ConfigError(f"topic {topic!r}: not a valid name of a topic")
        if (self.topics or self.skip_topics) and self.only == INDEX:
            raise ConfigError("--topic and --skip-topic choose queues, and --only index builds none: give one of them")
        if self.index_tags != AUTO and self.only == QUEUE:
            raise ConfigError("--index-tags is about the IndexFiles, and --only queue builds none: give one of them")
        if self.topics and {*self.topics} <= {*self.skip_topics}:
            names = ", ".join(self.topics)
            raise ConfigError(f"{names}: in --topic and in --skip-topic, which leaves no queue to build")
