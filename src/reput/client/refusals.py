"""Errors of a client: each says what to do, and those of answers name the address, the topic and the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.errors import BrokerError, ClosedError
from reput.formats.log.property_names import DELAY
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.formats.wire.remoting import RemotingFrame

_REMEDIES: Final = (
    (ResponseCode.TOPIC_NOT_EXIST, "", "make the topic, or let the broker make it (autoCreateTopicEnable)"),
    (ResponseCode.NO_PERMISSION, "recall", "set recallMessageEnable=true in the broker"),
    (ResponseCode.NO_PERMISSION, "topic[", "use a topic that may be written and read, and is not the broker's own"),
    (ResponseCode.NO_PERMISSION, "group", "use a group that may consume (consumeEnable)"),
    (ResponseCode.NO_PERMISSION, "", "give access_key and secret_key of a user that may do this"),
    (ResponseCode.MESSAGE_ILLEGAL, "delay", "give a shorter delay: the broker's timerMaxDelaySec is the longest"),
    (ResponseCode.MESSAGE_ILLEGAL, f"property {DELAY}", "give a delay_level of 0 or more"),
    (ResponseCode.MESSAGE_ILLEGAL, "a batch has", "send them one by one"),
    (ResponseCode.MESSAGE_ILLEGAL, "", "see maxMessageSize of the broker"),
    (ResponseCode.SYSTEM_BUSY, "", "send less at a time, or later"),
    (ResponseCode.SERVICE_NOT_AVAILABLE, "", "see whether the broker's disk is full"),
    (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "", "correct the filter"),
    (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "", "make the group, or let the broker make it"),
    (ResponseCode.INVALID_PARAMETER, "", "see the names of topic and group, and the number of the queue"),
)
"""The remedies: the first one of a code whose word is in the remark of the broker, RocketMQ's or reput's."""
_WORDS_MAX = 500


def code_name(code: int) -> str:
    """Return the number of a response code with its name."""
    names = ResponseCode._value2member_map_
    return f"{code} {ResponseCode(code).name}" if code in names else str(code)


def closed(what: str = "client") -> ClosedError:
    """Return the error for a use of what is closed: the client, or its consumer."""
    return ClosedError(f"the {what} is closed: make another one")


def refusal(what: str, address: str, answer: RemotingFrame, topic: str = "") -> BrokerError:
    """Return the error for an answer that refuses a request; `what`: the request, in words."""
    remark = answer.remark or ""
    about = f" {topic}" if topic else ""
    text = f"{address}: {what}{about}: {code_name(answer.code)}: {remark[:_WORDS_MAX]}"
    remedy = next((helps for code, word, helps in _REMEDIES if code == answer.code and word in remark), None)
    if remedy is not None:
        text = f"{text.rstrip('.')}. Remedy: {remedy}"
    return BrokerError(text, address=address, topic=topic, code=answer.code, remark=remark)
