"""Lite topics of an open store: messages, age, expiry and lag of each, and those that would expire at a time.

A broker deletes a lite topic when its last message is older than the parent allows. It asks every two minutes, and
never deletes one whose last message is younger than minLiteTTl. A lite topic whose last message has left the log is
deleted, too, after some looks. A lag does not hold a deletion up.

Source: `AbstractLiteLifecycleManager.isLiteTopicExpired`, `cleanExpiredLiteTopic`, `LiteUtil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reput.errors import ConfigError
from reput.formats.stored_text import stored_bytes, stored_text
from reput.formats.topics.lite_topics import LITE_PREFIX, LiteTopic, decode_lite_topic
from reput.nearest import quoted, some
from reput.store.progress.progress import ConsumerProgress
from reput.store.read.topic_messages import refuse_unknown
from reput.store.read.view import StoreQueue, StoreView

DEFAULT_MIN_TTL_MS = 900_000
"""minLiteTTl of a broker.conf that does not say it."""
_MINUTE_MS = 60_000
_LITE_TEXT = LITE_PREFIX.decode()


class LiteLag(NamedTuple):
    """The progress of a consumer group in a lite topic: its committed offset, and the messages after it."""

    group: str
    offset: int
    lag: int


class LiteTopicState(NamedTuple):
    """A lite topic. Times are ms since 1970, None without a message in the log.

    `expires_timestamp`: the time from which a broker deletes it; None if it never does. `is_expired`: that time was
    reached at the time of the question, or its last message has left the log. `lags` has one row for each group that
    has committed an offset.
    """

    parent: str
    name: str
    queue: str
    min_offset: int
    max_offset: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    expiration_minutes: int | None
    expires_timestamp: int | None
    is_expired: bool
    lags: tuple[LiteLag, ...]

    @property
    def messages(self) -> int:
        """The number of messages that the log still has."""
        return self.max_offset - self.min_offset

    @property
    def lag(self) -> int | None:
        """The largest lag of a group; None if no group has committed an offset."""
        return max((one.lag for one in self.lags), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        values = self._asdict() | {"messages": self.messages, "lag": self.lag}
        return values | {"lags": [one._asdict() for one in self.lags]}


class LiteTopics:
    """The lite topics of an open store, as its queues name them.

    Args:
        progress: the committed offsets; None if they cannot be read.
        expirations: the parents of type LITE with the time after which their lite topics expire (minutes, -1 never).
        min_ttl_ms: the age below which a broker deletes no lite topic (minLiteTTl).
    """

    def __init__(
        self, view: StoreView, progress: ConsumerProgress | None, expirations: Mapping[bytes, int], min_ttl_ms: int
    ) -> None:
        self._view = view
        self._progress = progress
        self._expirations = expirations
        self._min_ttl_ms = min_ttl_ms

    def states(self, at_ms: int, parent: str | None = None) -> Iterator[LiteTopicState]:
        """Iterate over the lite topics, or those of a parent, by parent and name, as a broker sees them at a time.

        Raises:
            ConfigError: There is no such topic, or it has no lite topics; the text names similar ones.
        """
        found = {
            name: lite for name in self._view.topics() if (lite := decode_lite_topic(stored_bytes(name))) is not None
        }
        if parent is None:
            return self._states(found, at_ms)
        known = {stored_text(name) for name in (*self._expirations, *(lite.parent for lite in found.values()))}
        if parent not in known:
            refuse_unknown(self._view, parent)
            hint = f"These are: {some(sorted(known))}" if known else "No topic of this store is"
            raise ConfigError(f"{self._view.layout.root}: topic {quoted(parent)} is not of type LITE. {hint}")
        return self._states({name: lite for name, lite in found.items() if lite.parent == stored_bytes(parent)}, at_ms)

    def _states(self, found: Mapping[str, LiteTopic], at_ms: int) -> Iterator[LiteTopicState]:
        groups = self._groups()
        for name, lite in found.items():
            for queue in self._view.queues(name):
                yield self._state(queue, lite, at_ms, groups.get(name, ()))

    def _state(self, queue: StoreQueue, lite: LiteTopic, at_ms: int, groups: Sequence[str]) -> LiteTopicState:
        first, last = (self._stored_ms(queue, offset) for offset in (queue.min_offset, queue.max_offset - 1))
        minutes = self._expirations.get(lite.parent)
        expires_ms = None
        if minutes is not None and minutes > 0 and last is not None:
            expires_ms = last + max(minutes * _MINUTE_MS + 1, self._min_ttl_ms)
        return LiteTopicState(
            stored_text(lite.parent),
            stored_text(lite.name),
            queue.topic,
            queue.min_offset,
            queue.max_offset,
            first,
            last,
            minutes,
            expires_ms,
            last is None or (expires_ms is not None and expires_ms <= at_ms),
            tuple(self._lags(queue, groups)),
        )

    def _stored_ms(self, queue: StoreQueue, offset: int) -> int | None:
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        stored_ms = self._view.store_time(queue.topic, queue.queue_id, offset)
        return stored_ms if stored_ms > 0 else None

    def _groups(self) -> dict[str, list[str]]:
        """Return the groups with progress in each lite topic's queue, sorted."""
        found: dict[str, list[str]] = {}
        if self._progress is None:
            return found
        for group in self._progress.groups():
            for topic in filter(_is_lite, self._progress.topics_of(group)):
                found.setdefault(topic, []).append(group)
        return found

    def _lags(self, queue: StoreQueue, groups: Sequence[str]) -> Iterator[LiteLag]:
        for group in groups:
            assert self._progress is not None
            offset = self._progress.query(group, queue.topic, queue.queue_id)
            if offset >= 0:
                yield LiteLag(group, offset, max(0, queue.max_offset - offset))


def _is_lite(topic: str) -> bool:
    return topic.startswith(_LITE_TEXT)
