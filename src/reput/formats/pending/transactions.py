"""The messages about half messages of transactions: which of them have ended, and which are copies of earlier ones.

A message of RMQ_SYS_TRANS_OP_HALF_TOPIC ends half messages: its tag is `d`, and its body is queue offsets in the half
topic as text, each followed by a comma. Older versions write one offset without a comma.

A broker puts a half message to the half topic again when it passes it. The copy has the number of its checks
(TRANSACTION_CHECK_TIMES), or the queue offset at which the message was first (TRAN_PREPARED_QUEUE_OFFSET). An end that
names that first queue offset ends the copy, too.

Source: `TransactionalMessageUtil`, `TransactionalMessageServiceImpl.fillOpRemoveMap`, `checkPrepareQueueOffset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX
from reput.formats.log.properties import CHECK_TIMES, PREPARED_QUEUE_OFFSET

REMOVE_TAG = "d"
_SEPARATOR = b","


def ended_offsets(body: bytes) -> list[int]:
    """Return the queue offsets in a body; what is no number is left out, as the broker does."""
    return [
        offset
        for piece in body.split(_SEPARATOR)
        if piece.isdigit() and len(piece) < 20 and (offset := int(piece)) <= INT64_MAX
    ]


def ends_of(tags: str | None, body: bytes) -> list[int]:
    """Return the queue offsets of the half messages that a message of the op topic ends."""
    return ended_offsets(body) if tags == REMOVE_TAG else []


def first_offset(value: str | bytes | None) -> int | None:
    """Return the queue offset at which a half message was first; None if it does not name one.

    Args:
        value: The property TRAN_PREPARED_QUEUE_OFFSET, None if the message has none.
    """
    return parse_whole(value, 64)


def is_copy(properties: Mapping[bytes, bytes]) -> bool:
    """Return True for a half message that a broker has put to the half topic again."""
    return CHECK_TIMES in properties or PREPARED_QUEUE_OFFSET in properties


def encode_ended_offsets(offsets: Iterable[int]) -> bytes:
    """Return the body for some queue offsets."""
    return b"".join(b"%d," % offset for offset in offsets)
