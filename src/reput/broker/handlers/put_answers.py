"""The codes of answers to those whose message was put to the store, and refusals in RocketMQ's words.

Source: `SendMessageProcessor.handlePutMessageResult`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.broker.wire.answers import Answer, unavailable
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.wire.codes import ResponseCode
from reput.log.encode.message import PutStatus

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker

CODES: Final = {
    PutStatus.PUT_OK: (ResponseCode.SUCCESS, None),
    PutStatus.FLUSH_DISK_TIMEOUT: (ResponseCode.FLUSH_DISK_TIMEOUT, None),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (
        ResponseCode.MESSAGE_ILLEGAL,
        f"the message is illegal, its properties are longer than {MAX_PROPERTIES_SIZE} bytes",
    ),
    PutStatus.SERVICE_NOT_AVAILABLE: (ResponseCode.SERVICE_NOT_AVAILABLE, unavailable("the store takes no messages")),
    PutStatus.DISK_FULL: (ResponseCode.SERVICE_NOT_AVAILABLE, unavailable("the broker's disk is full")),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
}
"""The code of each status, and the words of a refusal."""


def refusal(broker: Broker, status: PutStatus, reason: str) -> Answer:
    """Return the answer to the sender of a message that the store has refused."""
    broker.statistics.refused_sends += 1
    if status is PutStatus.DISK_FULL:
        broker.full_disk.refused(reason)
    code, words = CODES[status]
    return Answer(code, f"{words}: {reason}" if reason else words)
