"""Attributes of topics and of groups: texts by name that a client adds, changes and removes one by one.

    +message.type=LITE          adds an attribute, or changes it
    -message.type               removes one that is there

Source: `AttributeUtil`, `TopicAttributes`, `SubscriptionGroupAttributes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from reput.broker.wire.refusals import refuse
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX
from reput.formats.topics import lite_groups
from reput.formats.topics.lite_topics import EXPIRATION, MESSAGE_TYPE
from reput.formats.wire.codes import ResponseCode

MESSAGE_TYPES: Final = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED"})
"""The types of messages that a topic may have."""
Rule = tuple[str, Callable[[str], bool]]
"""The values of an attribute, in words, and the test of one."""


def _one_of(*values: str) -> Rule:
    return "one of " + ", ".join(sorted(values)), values.__contains__


def _number(least: int) -> Rule:
    def is_one(text: str) -> bool:
        value = parse_whole(text, 64)
        return value is not None and least <= value <= INT64_MAX

    return f"a whole number from {least} on", is_one


_FLAG: Final = _one_of("true", "false")
OF_TOPICS: Final[Mapping[str, Rule]] = {MESSAGE_TYPE: _one_of(*MESSAGE_TYPES), EXPIRATION: _number(-1)}
"""The attributes of a topic."""
OF_GROUPS: Final[Mapping[str, Rule]] = {
    lite_groups.BIND_TOPIC: ("a text", bool),
    lite_groups.MODEL: _one_of(lite_groups.SHARED, lite_groups.EXCLUSIVE),
    lite_groups.RESETS_WHEN_TAKEN_OVER: _FLAG,
    lite_groups.RESETS_WHEN_LEFT: _FLAG,
    lite_groups.QUOTA: _number(-1),
    lite_groups.WILDCARD: ("a text", bool),
    "lite.sub.client.max.event.cnt": _number(10),
    "priority.factor": _number(0),
}
"""The attributes of a group. The last two do nothing here."""


def changed_attributes(before: Any, changes: Mapping[str, Any], known: Mapping[str, Rule]) -> dict[str, str]:
    """Return attributes after changes: `+NAME` with its value, or `-NAME`.

    Raises:
        RefusedError: There is no such change.
    """
    attributes = dict(before) if isinstance(before, Mapping) else {}
    for change, value in changes.items():
        sign, name = change[:1], change[1:]
        if sign == "+" and name in known and isinstance(value, str) and known[name][1](value):
            attributes[name] = value
        elif sign == "-" and name in known and name in attributes:
            del attributes[name]
        else:
            words = "; ".join(f"+{one}= with {rule[0]}" for one, rule in sorted(known.items()))
            refuse(
                ResponseCode.SYSTEM_ERROR,
                f"attribute {change!r:.80}={value!r:.80}: reput serve takes {words}; and -NAME for one that is there",
            )
    return attributes
