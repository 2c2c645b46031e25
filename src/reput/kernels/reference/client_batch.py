"""The kernels of clients' batches in plain Python: the specification of `reput.kernels.compiled.client_batch`."""

from __future__ import annotations

import ctypes
from itertools import accumulate

from reput.formats.log import properties as props
from reput.formats.log.client_batch import decode_messages
from reput.formats.log.record import encode_message_id
from reput.kernels.layouts.client_batch import (
    BEGINNING,
    BROKEN,
    COLUMNS_LAYOUT,
    UNUSUAL,
    UNUSUAL_BEGINNINGS,
    ColumnsAt,
)
from reput.kernels.reference.memory import set_int32, set_word, word


def split_batch(columns: int, body: bytes, topic: bytes, queue_id: int, born: int) -> int:
    """Split the body of a client's batch into columns (`COLUMNS_LAYOUT`), with one topic, queue and time for all.

    Returns the number of messages, BROKEN or UNUSUAL. Properties get a separator after the last one. UNUSUAL: a
    property has no name or no value, or a name that may change how the message is stored; then the columns are of no
    use.
    """
    at = type(ColumnsAt)(*(word(columns, number) for number in range(COLUMNS_LAYOUT.word_count)))
    messages = decode_messages(body)
    if messages is None:
        return BROKEN
    if not all(map(_are_usual, (message.properties for message in messages))):
        return UNUSUAL
    texts = (
        (at.body_offsets_at, at.bodies_at, [message.body for message in messages]),
        (at.property_offsets_at, at.properties_at, [_ended(message.properties) for message in messages]),
        (at.topic_offsets_at, at.topics_at, [topic] * len(messages)),
    )
    for offsets_at, data_at, pieces in texts:
        for row, offset in enumerate(accumulate(map(len, pieces), initial=0)):
            set_word(offsets_at, row, offset)
        ctypes.memmove(data_at, b"".join(pieces), sum(map(len, pieces)))
    for row, message in enumerate(messages):
        set_int32(at.flags_at, row, message.flag)
        set_word(at.queue_ids_at, row, queue_id)
        set_word(at.born_at, row, born)
    return len(messages)


def join_ids(host: bytes, offsets: int, rows: int, out: int) -> int:
    """Write the ids of messages that have one store host to the address `out`, with commas between.

    `offsets` is the address of their log offsets, int64. Returns the bytes written.
    """
    text = ",".join(encode_message_id(host, word(offsets, row)) for row in range(rows)).encode()
    ctypes.memmove(out, text, len(text))
    return len(text)


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(props.PROPERTY_END) else text + props.PROPERTY_END


def _are_usual(text: bytes) -> bool:
    """Return True if all properties have a name and a value, and no name that needs a look."""
    for piece in text.removesuffix(props.PROPERTY_END).split(props.PROPERTY_END) if text else ():
        name, _, value = piece.partition(props.NAME_END)
        if not name or not value or props.NAME_END in value or name[:BEGINNING] in UNUSUAL_BEGINNINGS:
            return False
    return True
