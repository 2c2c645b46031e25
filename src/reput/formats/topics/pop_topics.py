"""Names of the retry topics of pop consumers: a group has one for each topic.

The first form is %RETRY%group_topic, the second %RETRY%group+topic (enableRetryTopicV2).

Source: `KeyBuilder`, `ExtraInfoUtil`.
"""

from __future__ import annotations

from enum import StrEnum

from reput.formats.topics.system_topics import RETRY_PREFIX

_SECOND = "+"


class TopicKind(StrEnum):
    """The kind of topic that a message came from, as handles and answers write it."""

    NORMAL = "0"
    RETRY = "1"
    RETRY_V2 = "2"


def retry_topic(topic: str, group: str, kind: TopicKind = TopicKind.RETRY) -> str:
    """Return the retry topic of a group and a topic; the topic itself for `NORMAL`."""
    if kind is TopicKind.NORMAL:
        return topic
    return f"{RETRY_PREFIX}{group}{_SECOND if kind is TopicKind.RETRY_V2 else '_'}{topic}"


def retry_topics(topic: str, group: str) -> tuple[str, str]:
    """Return the names that a group's retry topic for a topic may have."""
    return retry_topic(topic, group), retry_topic(topic, group, TopicKind.RETRY_V2)


def kind_of_topic(topic: str) -> TopicKind:
    """Return the kind of a topic by its name (`ExtraInfoUtil.getRetry`)."""
    if not topic.startswith(RETRY_PREFIX):
        return TopicKind.NORMAL
    return TopicKind.RETRY_V2 if _SECOND in topic else TopicKind.RETRY


def normal_topic(topic: str, group: str) -> str:
    """Return the topic for which a group's retry topic is; any other topic itself (`KeyBuilder.parseNormalTopic`)."""
    for kind in (TopicKind.RETRY_V2, TopicKind.RETRY):
        prefix = retry_topic("", group, kind)
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic
