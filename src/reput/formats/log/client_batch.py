"""The messages in the body of a batch that a client made (sysFlag 0x40 and 0x80), one after the other.

Each is a head, the body, the length of the properties (2 bytes), and the properties as in a record.

Source: `MessageDecoder.decodeMessages`, `encodeMessage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reput.formats.layout import Field, Layout

HEAD = Layout(
    "Message of a client's batch, head",
    "MessageDecoder.encodeMessage",
    [
        Field("total_size", "i", "length of the whole message, this field included"),
        Field("magic", "i", "0; not read"),
        Field("body_crc", "i", "0; not read"),
        Field("flag", "i", "the application's own flag"),
        Field("body_length", "i", "bytes of the body, which follows"),
    ],
)
HEAD_SIZE = HEAD.size
assert HEAD_SIZE == 20
LENGTH_SIZE = 2


class InnerMessage(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def decode_messages(data: bytes) -> list[InnerMessage] | None:
    """Return the messages of a batch's body; None if it does not hold whole messages, or none.

    As in RocketMQ the lengths of body and properties lead from one to the next. The total is not read.
    """
    found, at = [], 0
    while at < len(data):
        if at + HEAD_SIZE > len(data):
            return None
        _, _, _, flag, size = HEAD.struct.unpack_from(data, at)
        body_at = at + HEAD_SIZE
        length_at = body_at + size
        if size < 0 or length_at + LENGTH_SIZE > len(data):
            return None
        properties_at = length_at + LENGTH_SIZE
        at = properties_at + int.from_bytes(data[length_at:properties_at], signed=True)
        if not properties_at <= at <= len(data):
            return None
        found.append(InnerMessage(flag, data[body_at:length_at], data[properties_at:at]))
    return found or None


def encode_messages(messages: Iterable[InnerMessage]) -> bytes:
    """Return the body of a batch that has these messages.

    Raises:
        OverflowError: the properties of a message are longer than 32,767 bytes.
    """
    pieces: list[bytes] = []
    for flag, body, properties in messages:
        size = HEAD_SIZE + len(body) + LENGTH_SIZE + len(properties)
        length = len(properties).to_bytes(LENGTH_SIZE, signed=True)
        pieces += (HEAD.struct.pack(size, 0, 0, flag, len(body)), body, length, properties)
    return b"".join(pieces)
