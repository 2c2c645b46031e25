"""Consumer groups: their members, and what they subscribe to.

Members live in memory: clients register again by their next heartbeat.

Source: `ConsumerManager`, `ConsumerGroupInfo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from reput.broker.state.of_connections import MembersOfConnections
from reput.dispatch.sql.words import refuse_many_words
from reput.errors import ConfigError
from reput.formats.config.consumer_filter import SQL92, TAG
from reput.formats.topics.topic_names import LONGEST_NAME
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

if TYPE_CHECKING:
    from reput.broker.wire.channel import Channel
    from reput.formats.wire.subscription import Subscription

BROADCASTING = "BROADCASTING"
MAX_EXPRESSION: Final = 1 << 16
"""The longest filter, by tags or SQL92 (characters)."""
MAX_WORDS: Final = 1024
"""The most words and signs of a SQL92 filter: to parse it takes up to 10 ms, in which no client is served."""
MAX_STEPS: Final = 2048
"""The most steps of a pull with a SQL92 filter, those of the filter for each message (3 us each if they are many)."""
_MOST_KNOWN: Final = 64
"""The most SQL92 filters that stay parsed: each takes up to 100 KiB."""
MAX_CLIENT_ID: Final = 1024
"""The longest id of a client (characters)."""
MAX_SUBSCRIBED: Final = 1 << 26
"""The most characters of all subscriptions."""


class ClientInfo(NamedTuple):
    """A client of a group. `language` and `version` are those of its frames."""

    connection: Channel
    client_id: str
    language: int
    version: int


class ConsumerKind(NamedTuple):
    """The way in which the consumers of a group consume, by RocketMQ's names."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the kind that a heartbeat names; what it does not name is as with RocketMQ's push consumers."""
        named = {
            name: values[key]
            for name, key in (
                ("consume_type", "consumeType"),
                ("message_model", "messageModel"),
                ("consume_from_where", "consumeFromWhere"),
            )
            if isinstance(values.get(key), str) and len(values[key]) <= LONGEST_NAME
        }
        return cls(**named)


@dataclass(slots=True)
class ConsumerGroup:
    """A group of consumers that are online."""

    kind: ConsumerKind = field(default_factory=ConsumerKind)
    members: dict[str, ClientInfo] = field(default_factory=dict)
    """By client id."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By topic."""


class Consumers:
    """The groups that are online.

    Args:
        notify: is called with a group when its members are to hear that it has changed.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._notify = notify
        self._members = 0
        self._subscribed = 0
        self._of_connections = MembersOfConnections()

    def __len__(self) -> int:
        return self._members

    @property
    def subscribed(self) -> int:
        """The characters of all subscriptions."""
        return self._subscribed

    def find(self, group: str) -> ConsumerGroup | None:
        """Return a group; None if nobody of it is online."""
        return self._groups.get(group)

    def all(self) -> Mapping[str, ConsumerGroup]:
        """Return the groups that are online."""
        return self._groups

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic."""
        return [group for group, found in self._groups.items() if topic in found.subscriptions]

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return what a group wants of a topic; None if nobody of it is online, or it does not subscribe to it."""
        found = self._groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def reads(self, group: str, topic: str) -> bool:
        """Return False if a group is online, and subscribes to other topics only."""
        found = self._groups.get(group)
        return found is None or not found.subscriptions or topic in found.subscriptions

    def register(
        self,
        member: ClientInfo,
        group: str,
        kind: ConsumerKind,
        wanted: Iterable[Subscription],
        *,
        notifies: bool = True,
    ) -> None:
        """Take a member's heartbeat: it is a member, and `wanted` is the group's subscriptions.

        A subscription is replaced by a later version of itself; topics that are not wanted any more go. `notifies`: the
        group's members are to hear of a change.
        """
        found = self._groups.setdefault(group, ConsumerGroup())
        before_it = found.members.get(member.client_id)
        is_changed = before_it is None or before_it.connection is not member.connection
        if before_it is not None:
            self._of_connections.remove(before_it.connection, group, before_it.client_id)
        found.members[member.client_id] = member
        self._of_connections.add(member.connection, group, member.client_id)
        self._members += before_it is None
        found.kind = kind
        by_topic = {one.topic: one for one in wanted}
        for topic, one in by_topic.items():
            before = found.subscriptions.get(topic)
            if before is None or before.version < one.version:
                is_changed = is_changed or before is None or before.expression != one.expression
                found.subscriptions[topic] = one
                self._subscribed += one.size - (0 if before is None else before.size)
        for topic in found.subscriptions.keys() - by_topic.keys():
            self._subscribed -= found.subscriptions.pop(topic).size
            is_changed = True
        if is_changed and notifies:
            self._notify(group)

    def unregister(self, client_id: str, group: str, *, notifies: bool = True) -> None:
        """Remove a member of a group. `notifies`: the others are to hear of it."""
        found = self._groups.get(group)
        member = None if found is None else found.members.get(client_id)
        if member is not None:
            self._lost(member, group, notifies=notifies)

    def connection_lost(self, connection: Channel) -> None:
        """Remove all members that used a connection. As in RocketMQ the others hear of it in any case."""
        for group, client_id in self._of_connections.of(connection):
            self._lost(self._groups[group].members[client_id], group, notifies=True)

    def _lost(self, member: ClientInfo, group: str, *, notifies: bool) -> None:
        found = self._groups[group]
        self._of_connections.remove(member.connection, group, member.client_id)
        del found.members[member.client_id]
        self._members -= 1
        if not found.members:
            self._subscribed -= sum(one.size for one in found.subscriptions.values())
            del self._groups[group]
        elif notifies:
            self._notify(group)

    def to_notify(self, group: str) -> set[Channel]:
        """Return the connections that hear of changes of a group."""
        found = self._groups.get(group)
        if found is None or found.kind.message_model == BROADCASTING:
            return set()
        return {member.connection for member in found.members.values()}


def filter_of(subscription: Subscription) -> TagFilter | SqlFilter | None:
    """Return the filter of pulls under a subscription; None if it wants everything.

    Raises:
        ConfigError: the expression is not SQL92, or too long, or there is no such type of filters.
    """
    expression = subscription.expression
    if len(expression) > MAX_EXPRESSION:
        raise ConfigError(f"a filter of {len(expression)} characters: the most is {MAX_EXPRESSION}")
    if subscription.kind == SQL92:
        found = _sql_filter(expression)
        if isinstance(found, str):
            raise ConfigError(found)
        return found
    if subscription.kind != TAG:
        raise ConfigError(f"there are no filters of type {subscription.kind!r:.40}: give {TAG} or {SQL92}")
    return None if subscription.wants_all else TagFilter(expression)


def refuse_large_filter(subscription: Subscription) -> None:
    """Refuse a SQL92 filter with too many words.

    Raises:
        ConfigError: there are too many.
    """
    if subscription.kind == SQL92:
        refuse_many_words(subscription.expression, MAX_WORDS)


@lru_cache(_MOST_KNOWN)
def _sql_filter(expression: str) -> SqlFilter | str:
    """Return a filter, or what is wrong with it."""
    try:
        refuse_many_words(expression, MAX_WORDS)
        return SqlFilter(expression, most_steps=MAX_STEPS)
    except ConfigError as error:
        return str(error)
