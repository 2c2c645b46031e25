"""The names that brokers and clients of RocketMQ let a topic or a group have. A store holds other names, too.

Source: `TopicValidator.validateTopic`, `TopicValidator.validateGroup`, `TopicValidator.isTopicOrGroupIllegal`.

| part | rule |
|---|---|
| characters | letters and digits of ASCII, `%`, `|`, `_` and `-` |
| length of a topic | 1 to 127; of one that belongs to a group (`%RETRY%`, `%DLQ%`) 1 to 255 |
| length of a group | 1 to 120 |
"""

from __future__ import annotations

import re
from typing import Final

from reput.formats.topics.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX

_MAX_TOPIC, _MAX_GROUP = 127, 120
LONGEST_NAME: Final = 255
"""The most characters of a name of any kind: that of a topic that belongs to a group."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def is_group_name(name: str) -> bool:
    """Return True if brokers let a group have this name."""
    return _NAME.fullmatch(name) is not None and len(name) <= _MAX_GROUP


def topic_fault(topic: str) -> str | None:
    """Return why brokers and clients refuse a topic's name, in RocketMQ's words; None if they take it."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.fullmatch(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only ^{_NAME.pattern}$"
    if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        what, most = "topic is DLQ or Retry topic: {}, and it's", LONGEST_NAME
    else:
        what, most = "topic: {}, is", _MAX_TOPIC
    return f"The specified {what.format(topic)} longer than topic max length: {most}" if len(topic) > most else None
