"""The topics of a store, as its metadata has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reput.formats.config.data_version import NO_VERSION
from reput.formats.topics.lite_topics import expiration_of
from reput.formats.topics.system_topics import SELF_TEST_TOPIC, SYSTEM_PREFIX
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.tables import Table


@dataclass(frozen=True)
class Topics:
    """The topics by name with their configurations, and notes on what cannot be read. `place`: where they are kept.

    `damage`: what cannot be read, each text with which one of the notes begins. `is_whole`: every topic of the broker
    is here, so a topic that is not was deleted. `changed_ms`: when a topic was last made, changed or deleted, by the
    data version (ms, 0 if that is unknown).
    """

    place: Path
    topics: Mapping[str, Any]
    notes: list[str]
    is_whole: bool = True
    changed_ms: int = 0
    damage: tuple[str, ...] = ()

    @cached_property
    def names(self) -> frozenset[bytes]:
        """The names of the topics; empty if they are unknown."""
        return frozenset(name.encode("utf-8", "surrogatepass") for name in self.topics)

    @property
    def has_every_attribute(self) -> bool:
        """True if a broker wrote the topics. A topic that is missing then has no attributes, such as `queue.type`.

        A broker that keeps all topics has one of its own among them (`TopicConfigManager`). A broker that does not keep
        all (`TopicConfigManagerV2`) keeps those with attributes: only `updateTopicConfig` sets attributes, and that
        counts as a change.
        """
        return SELF_TEST_TOPIC in self.topics if self.is_whole else self.changed_ms > 0

    @property
    def lite(self) -> frozenset[bytes]:
        """The names of the topics of type LITE, which have lite topics."""
        return frozenset(self.lite_expirations)

    @cached_property
    def lite_expirations(self) -> dict[bytes, int]:
        """The time after which the lite topics of each topic of type LITE expire (minutes, -1 never)."""
        found = {}
        for name, values in self.topics.items():
            minutes = expiration_of(values.get("attributes")) if isinstance(values, dict) else None
            if minutes is not None:
                found[name.encode("utf-8", "surrogatepass")] = minutes
        return found

    @property
    def queue_counts(self) -> dict[bytes, int]:
        """The number of queues of each topic; 0 if its configuration does not say the number."""
        return {name.encode("utf-8", "surrogatepass"): _queue_count(values) for name, values in self.topics.items()}

    def was_deleted(self, topic: bytes) -> bool:
        """Return True if the broker's topics are known, and this one is not among them."""
        # A broker makes system topics at its start, and does not keep all of them (`TopicValidator`).
        is_known = self.is_whole and bool(self.topics) and not topic.startswith(SYSTEM_PREFIX.encode())
        return is_known and topic not in self.names


def _queue_count(values: Any) -> int:
    counts = [values.get(name) for name in ("readQueueNums", "writeQueueNums")] if isinstance(values, dict) else []
    return max((count for count in counts if isinstance(count, int)), default=0)


def topics_of(metadata: Metadata) -> Topics:
    """Return the topics of a store. They may be many: a caller asks once."""
    content = metadata.readable(Table.TOPICS)
    source = metadata.source(Table.TOPICS)
    changed_ms = (content.version or NO_VERSION).timestamp
    return Topics(
        metadata.place(Table.TOPICS),
        content.values,
        list(content.notes),
        source.has_every_topic,
        changed_ms,
        content.damage,
    )
