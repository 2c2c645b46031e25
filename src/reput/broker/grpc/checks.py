"""Checks of what a call names: topics, groups, and texts that become properties of a message.

Source: `GrpcValidator`, `Validators`, `SendMessageActivity`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.protocol.definition_pb2 import Code, Resource
from reput.broker.grpc.statuses import refuse_call
from reput.broker.state.configuration import is_system_topic
from reput.formats.topics.system_topics import SYSTEM_GROUP_PREFIX
from reput.formats.topics.topic_names import is_group_name, topic_fault

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    from reput.broker.services.broker import Broker

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_SECONDS: Final = 1 << 40
_LITE_TOPIC: Final = re.compile(r"[a-zA-Z0-9_-]+")
MAX_LITE_TOPIC: Final = 64
"""The most bytes of the name of a lite topic."""


def topic_of(resource: Resource) -> str:
    """Return the topic that a call names; refuse a name that no topic of a client has."""
    fault = topic_fault(resource.name)
    if fault is not None:
        refuse_call(Code.ILLEGAL_TOPIC, fault)
    if is_system_topic(resource.name):
        refuse_call(Code.ILLEGAL_TOPIC, "cannot access system topic")
    return resource.name


def group_of(resource: Resource) -> str:
    """Return the consumer group that a call names; refuse a name that no group of a client has."""
    if not is_group_name(resource.name):
        words = f"the specified group[{resource.name:.130}] is blank, too long or illegal"
        refuse_call(Code.ILLEGAL_CONSUMER_GROUP, words)
    if resource.name.startswith(SYSTEM_GROUP_PREFIX):
        refuse_call(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")
    return resource.name


def check_text(text: str, code: Code, what: str) -> str:
    """Return a text that becomes a property; refuse one with control characters, which end properties."""
    if _CONTROL.search(text):
        refuse_call(code, f"{what} cannot contain control character")
    return text


def check_word(text: str, code: Code, what: str) -> str:
    """Return a text that becomes a property; refuse one of white space alone, or with control characters."""
    if text and not text.strip():
        refuse_call(code, f"{what} cannot be the char sequence of whitespace")
    return check_text(text, code, what)


def check_lite_topic(name: str) -> str:
    """Return the name of a lite topic; refuse one that none may have."""
    if len(name.encode()) > MAX_LITE_TOPIC:
        refuse_call(Code.ILLEGAL_LITE_TOPIC, f"lite topic exceed the max size {MAX_LITE_TOPIC}")
    if not _LITE_TOPIC.fullmatch(name):
        words = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)"
        refuse_call(Code.ILLEGAL_LITE_TOPIC, words)
    return name


def check_lite_store(broker: Broker) -> None:
    """Refuse a call about lite topics if the store keeps no light queues: their messages would reach nobody."""
    if not broker.store.config.enable_lmq:
        words = "lite topics need enableLmq=true: reput serve --set enableLmq=true --set enableMultiDispatch=true"
        refuse_call(Code.UNSUPPORTED, words)


def milliseconds(time: Duration | Timestamp, code: Code) -> int:
    """Return a duration, or a time since 1970, in ms; refuse one that no calendar has."""
    if not -_MAX_SECONDS < time.seconds < _MAX_SECONDS:
        refuse_call(code, f"{time.seconds} s: no such time")
    return int(time.seconds) * 1000 + int(time.nanos) // 1_000_000
