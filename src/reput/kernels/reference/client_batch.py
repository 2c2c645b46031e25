"""The kernel of clients' batches in plain Python: the specification of `reput.kernels.compiled.client_batch`."""

from __future__ import annotations

import ctypes
from itertools import accumulate

from reput.formats.layout import WORD_SIZE
from reput.formats.log import properties as props
from reput.formats.log.client_batch import decode_messages
from reput.kernels.layouts.client_batch import (
    BEGINNING,
    BROKEN,
    SPLIT,
    SPLIT_LAYOUT,
    UNUSUAL,
    UNUSUAL_BEGINNINGS,
    SplitAt,
)


def split_batch(split: int) -> int:
    """Split the body of a client's batch into columns; see `SPLIT_LAYOUT`.

    Properties get a separator after the last one. UNUSUAL: a property has no name or no value, or a name that may
    change how the message is stored; then the columns are of no use.
    """
    fields = type(SplitAt)(*(_int64s(split, number)[0] for number in range(SPLIT_LAYOUT.word_count)))
    messages = decode_messages(ctypes.string_at(fields.data_at, fields.size))
    if messages is None:
        return BROKEN
    if not all(map(_are_usual, (message.properties for message in messages))):
        return UNUSUAL
    texts = [_ended(message.properties) for message in messages]
    columns = (
        (fields.body_offsets_at, fields.bodies_at, [message.body for message in messages]),
        (fields.property_offsets_at, fields.properties_at, texts),
    )
    for offsets_at, data_at, pieces in columns:
        for row, offset in enumerate(accumulate(map(len, pieces), initial=0)):
            _int64s(offsets_at, row)[0] = offset
        ctypes.memmove(data_at, b"".join(pieces), sum(map(len, pieces)))
    for row, message in enumerate(messages):
        ctypes.c_int32.from_address(fields.flags_at + 4 * row).value = message.flag
    _int64s(split, SplitAt.rows)[0] = len(messages)
    return SPLIT


def _int64s(address: int, place: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * 1).from_address(address + WORD_SIZE * place)


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(props.PROPERTY_END) else text + props.PROPERTY_END


def _are_usual(text: bytes) -> bool:
    """Return True if all properties have a name and a value, and no name that needs a look."""
    for piece in text.removesuffix(props.PROPERTY_END).split(props.PROPERTY_END) if text else ():
        name, _, value = piece.partition(props.NAME_END)
        if not name or not value or props.NAME_END in value or name[:BEGINNING] in UNUSUAL_BEGINNINGS:
            return False
    return True
