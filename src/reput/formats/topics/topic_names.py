"""The names that brokers and clients of RocketMQ let a topic or a group have. A store holds other names, too.

Source: `TopicValidator.validateTopic`, `TopicValidator.isTopicOrGroupIllegal`.

| part | rule |
|---|---|
| characters | letters and digits of ASCII, `%`, `|`, `_` and `-` |
| length | 1 to 127 |
"""

from __future__ import annotations

import re
from typing import Final

MAX_NAME_LENGTH: Final = 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def is_client_name(name: str) -> bool:
    """Return True if a topic or a group may have this name."""
    return _NAME.fullmatch(name) is not None and len(name) <= MAX_NAME_LENGTH


def topic_fault(topic: str) -> str | None:
    """Return why brokers and clients refuse a topic's name, in RocketMQ's words; None if they take it."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.fullmatch(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only ^{_NAME.pattern}$"
    if len(topic) > MAX_NAME_LENGTH:
        return f"The specified topic: {topic}, is longer than topic max length: {MAX_NAME_LENGTH}"
    return None
