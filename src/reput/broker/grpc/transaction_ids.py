"""The id of a transaction: the place of its half message, so that its end needs nothing that the broker remembers.

It has two parts with a dash between: the offset message id of the half message, and its queue offset. RocketMQ's proxy
has the message's own id there, and remembers the place; to clients it is a text without a meaning.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.java.java_numbers import parse_whole
from reput.formats.log.record import decode_message_id


class HalfPlace(NamedTuple):
    """The place of a half message: its offset in the log, and in the queue of half messages."""

    physical_offset: int
    queue_offset: int


def encode_transaction_id(half_id: str, queue_offset: int) -> str:
    """Return the id of a transaction, from the offset message id of its half message and its queue offset."""
    return f"{half_id}-{queue_offset}"


def decode_transaction_id(text: str) -> HalfPlace | None:
    """Return the place of the half message; None if the text is no such id."""
    half_id, dash, offset = text.rpartition("-")
    found, queue_offset = decode_message_id(half_id), parse_whole(offset, 64)
    if not dash or found is None or queue_offset is None or queue_offset < 0 or found[1] < 0:
        return None
    return HalfPlace(found[1], queue_offset)
