"""Groups of lite consumers: a group reads the lite topics of one parent, as the attributes of its configuration say.

    lite.bind.topic                     the parent; a group without it has no lite consumers
    lite.sub.model                      Shared: the clients of a lite topic share it; Exclusive: the last one takes over
    lite.sub.reset.offset.exclusive     true: a client that takes over begins with the first message
    lite.sub.reset.offset.unsubscribe   true: a client that comes after one that has left begins with the first message
    lite.sub.client.quota               the most lite topics of a client
    lite.sub.wildcard                   whatever its value: each client reads all lite topics

Source: `SubscriptionGroupAttributes`, `SubscriptionGroupConfig`, `LiteMetadataUtil`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reput.formats.java.java_numbers import parse_whole

BIND_TOPIC: Final = "lite.bind.topic"
MODEL, SHARED, EXCLUSIVE = "lite.sub.model", "Shared", "Exclusive"
RESETS_WHEN_TAKEN_OVER: Final = "lite.sub.reset.offset.exclusive"
RESETS_WHEN_LEFT: Final = "lite.sub.reset.offset.unsubscribe"
QUOTA: Final = "lite.sub.client.quota"
DEFAULT_QUOTA: Final = 2000
WILDCARD: Final = "lite.sub.wildcard"


class LiteGroup(NamedTuple):
    """A group of lite consumers: its parent topic, and its rules. `quota`: see `lite.sub.client.quota`."""

    topic: str
    is_exclusive: bool
    resets_when_taken_over: bool
    resets_when_left: bool
    quota: int
    is_wildcard: bool


def quota_of(config: Mapping[str, Any]) -> int:
    """Return the most lite topics of a client of a group, whether the group has lite consumers or not."""
    quota = parse_whole(_attributes(config).get(QUOTA, ""), 32)
    return DEFAULT_QUOTA if quota is None else quota


def lite_group_of(config: Mapping[str, Any]) -> LiteGroup | None:
    """Return what the configuration of a group says of its lite consumers; None if it has none."""
    attributes = _attributes(config)
    topic = attributes.get(BIND_TOPIC)
    if not topic:
        return None
    return LiteGroup(
        topic,
        attributes.get(MODEL) == EXCLUSIVE,
        attributes.get(RESETS_WHEN_TAKEN_OVER) == "true",
        attributes.get(RESETS_WHEN_LEFT) == "true",
        quota_of(config),
        WILDCARD in attributes,
    )


def _attributes(config: Mapping[str, Any]) -> Mapping[str, str]:
    found = config.get("attributes")
    return found if isinstance(found, Mapping) else {}
