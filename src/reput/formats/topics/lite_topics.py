"""LiteTopics: light queues that belong to a parent topic of type LITE, each with a name and a time to live.

    %LMQ%$PARENT$NAME        the light queue of the lite topic NAME of PARENT; it has queue 0 alone

Neither name is empty or has a `$`. A light queue of another name is no lite topic. The parent's attributes are in the
broker's configuration of topics; its messages are in the parent's queues as well, and name the lite topic.

Source: `LiteUtil`, `TopicConfig.getLiteTopicExpiration`, `TopicAttributes`, `MessageConst.PROPERTY_LITE_TOPIC`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.formats.java.java_numbers import parse_whole
from reput.formats.topics.system_topics import LMQ_PREFIX

SEPARATOR = b"$"
LITE_PREFIX = LMQ_PREFIX + SEPARATOR
LITE_TOPIC = b"__LITE_TOPIC"
"""The property of a message that names its lite topic."""
MESSAGE_TYPE, LITE = "message.type", "LITE"
"""The attribute of a topic with the type of its messages, and the type of a parent of lite topics."""
EXPIRATION = "lite.topic.expiration"
"""The attribute with the time after the last message of a lite topic at which it expires (minutes)."""
NEVER = -1
"""The expiration of lite topics that do not expire, and of a parent without the attribute."""

_LIGHT_TEXT = LMQ_PREFIX.decode()


class LiteTopic(NamedTuple):
    """A lite topic: the parent's name and its own."""

    parent: bytes
    name: bytes


def is_light(topic: bytes | str) -> bool:
    """Return True for the name of a light queue.

    Source: `MixAll.isLmq`.
    """
    return topic.startswith(_LIGHT_TEXT) if isinstance(topic, str) else topic.startswith(LMQ_PREFIX)


def light_queue_of(parent: bytes, name: bytes) -> bytes:
    """Return the name of the light queue of a lite topic."""
    return LITE_PREFIX + parent + SEPARATOR + name


def decode_lite_topic(topic: bytes) -> LiteTopic | None:
    """Return parent and name of the lite topic of a light queue; None for the name of any other queue."""
    if not topic.startswith(LITE_PREFIX):
        return None
    parent, separator, name = topic[len(LITE_PREFIX) :].partition(SEPARATOR)
    if not parent or not separator or not name or SEPARATOR in name:
        return None
    return LiteTopic(parent, name)


def expiration_of(attributes: Any) -> int | None:
    """Return the expiration (minutes, -1 never) of a topic's lite topics; None if the topic is not of type LITE.

    A value that is no number of 32 bits counts as never, as in RocketMQ.
    """
    if not isinstance(attributes, Mapping) or attributes.get(MESSAGE_TYPE) != LITE:
        return None
    minutes = parse_whole(str(attributes.get(EXPIRATION, NEVER)), 32)
    return NEVER if minutes is None else minutes
