"""The subscription of a consumer group to a topic, as heartbeats and answers have it in JSON.

Source: `SubscriptionData`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reput.formats.config.consumer_filter import TAG
from reput.formats.config.tag_expression import ALL_TAGS, tags_of
from reput.formats.java.hashing import java_string_hash
from reput.formats.layout import INT64_MAX


class Subscription(NamedTuple):
    """The messages that a group wants of a topic.

    `kind`: the type of the filter, as the client names it. `version`: the client's clock when it changed (ms).
    """

    topic: str
    expression: str
    kind: str
    version: int

    @property
    def size(self) -> int:
        """Its characters."""
        return len(self.topic) + len(self.expression) + len(self.kind)

    @property
    def wants_all(self) -> bool:
        """True for a filter by tags that all messages pass."""
        return self.kind == TAG and self.expression.strip() in {"", ALL_TAGS}

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that it names; empty for all messages, and for a filter by SQL92."""
        return tags_of(self.expression) if self.kind == TAG else ()

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that RocketMQ writes for a subscription."""
        tags = self.tags
        return {
            "classFilterMode": False,
            "codeSet": [java_string_hash(tag) for tag in tags],
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(tags),
            "topic": self.topic,
        }


def filter_type(named: Any) -> str:
    """Return the type of the filter that a client names: by tags, if it names none (`ExpressionType.isTagType`)."""
    return named if isinstance(named, str) and named else TAG


def subscription_of(values: Any) -> Subscription | None:
    """Return the subscription that a client's JSON describes; None if it has no topic."""
    if not isinstance(values, dict) or not isinstance(values.get("topic"), str):
        return None
    expression, version = values.get("subString"), values.get("subVersion")
    return Subscription(
        values["topic"],
        expression if isinstance(expression, str) else ALL_TAGS,
        filter_type(values.get("expressionType")),
        version if type(version) is int and abs(version) <= INT64_MAX else 0,
    )
