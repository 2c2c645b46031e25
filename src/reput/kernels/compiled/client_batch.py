"""Split the body of a client's batch into columns, in one pass, and spell the ids of its messages.

The twin of `reput.kernels.reference.client_batch`, which is the specification. Both keep the GIL: to give it up and to
get it back takes longer than most batches do, and much longer while another thread waits for it.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log import client_batch as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.tools.jit import BYTES, INT, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    byte_at,
    copy_bytes,
    load_be16,
    load_be32,
    ones_64,
    separators_64,
    set_word,
    store_8,
    store_32,
    store_64,
    trailing_zeros,
    word,
)
from reput.kernels.layouts.client_batch import BEGINNING, BROKEN, UNUSUAL, UNUSUAL_BEGINNINGS, ColumnsAt

_HEAD_SIZE, _LENGTH_SIZE, _BEGINNING = fmt.HEAD_SIZE, fmt.LENGTH_SIZE, BEGINNING
_FLAG_AT, _BODY_LENGTH_AT = (fmt.HEAD.offsets[name] for name in ("flag", "body_length"))
assert BEGINNING == 4
_UNUSUAL = np.array([int.from_bytes(name, "big") for name in sorted(UNUSUAL_BEGINNINGS)], dtype=np.int64)
_COMMA, _ZERO, _LETTERS = 0x2C, 0x30, 0x41 - 10
"""The characters `,` and `0`, and what makes a letter of a digit above 9."""


@kernel
def _separator_from(at, end, limit):
    """Return the address of the first 0x01 or 0x02 from `at` on; `end` if there is none. Memory ends at `limit`."""
    while at < end:
        if at + 64 <= limit:
            found = ones_64(at) | separators_64(at)
            if found != 0:
                return min(at + trailing_zeros(found), end)
            at += 64
        else:
            byte = byte_at(at)
            if byte == NAME_VALUE_SEPARATOR or byte == PROPERTY_SEPARATOR:
                return at
            at += 1
    return end


@kernel
def _are_usual(begin, end, limit):
    """Return True if all properties have a name and a value, and no name that needs a look."""
    at = begin
    while at < end:
        stop = _separator_from(at, end, limit)
        if stop == at or stop == end or byte_at(stop) != NAME_VALUE_SEPARATOR:
            return False
        if stop - at >= _BEGINNING:
            beginning = load_be32(at)
            for n in range(len(_UNUSUAL)):
                if beginning == _UNUSUAL[n]:
                    return False
        value = stop + 1
        stop = _separator_from(value, end, limit)
        if stop == value or (stop < end and byte_at(stop) == NAME_VALUE_SEPARATOR):
            return False
        at = stop + 1
    return True


@kernel
def split_columns(columns, at, end, topic, topic_size, queue_id, born):
    """Split the body between two addresses; see `split_batch`."""
    body_offsets, bodies = word(columns, ColumnsAt.body_offsets_at), word(columns, ColumnsAt.bodies_at)
    text_offsets, texts = word(columns, ColumnsAt.property_offsets_at), word(columns, ColumnsAt.properties_at)
    topic_offsets, topics = word(columns, ColumnsAt.topic_offsets_at), word(columns, ColumnsAt.topics_at)
    queue_ids, borns = word(columns, ColumnsAt.queue_ids_at), word(columns, ColumnsAt.born_at)
    flags, limit = word(columns, ColumnsAt.flags_at), end
    rows, bodies_size, texts_size, is_usual = np.int64(0), np.int64(0), np.int64(0), True
    store_64(body_offsets, bodies_size)
    store_64(text_offsets, texts_size)
    store_64(topic_offsets, np.int64(0))
    while at < end:
        body = at + _HEAD_SIZE
        if body > end:
            return np.int64(BROKEN)
        body_size = load_be32(at + _BODY_LENGTH_AT)
        if body_size < 0 or body + body_size + _LENGTH_SIZE > end:
            return np.int64(BROKEN)
        text = body + body_size + _LENGTH_SIZE
        text_size = load_be16(text - _LENGTH_SIZE)
        if text_size < 0 or text + text_size > end:
            return np.int64(BROKEN)
        is_usual = is_usual and _are_usual(text, text + text_size, limit)
        store_32(flags + 4 * rows, np.int32(load_be32(at + _FLAG_AT)))
        set_word(queue_ids, rows, np.int64(queue_id))
        set_word(borns, rows, np.int64(born))
        copy_bytes(bodies + bodies_size, body, body_size)
        copy_bytes(texts + texts_size, text, text_size)
        copy_bytes(topics + rows * topic_size, topic, topic_size)
        bodies_size += body_size
        texts_size += text_size
        if text_size > 0 and byte_at(text + text_size - 1) != PROPERTY_SEPARATOR:
            store_8(texts + texts_size, np.uint8(PROPERTY_SEPARATOR))
            texts_size += 1
        rows += 1
        set_word(body_offsets, rows, bodies_size)
        set_word(text_offsets, rows, texts_size)
        set_word(topic_offsets, rows, rows * topic_size)
        at = text + text_size
    if rows == 0:
        return np.int64(BROKEN)
    return rows if is_usual else np.int64(UNUSUAL)


@entry_kernel(INT, BYTES, BYTES, INT, INT)
def split_batch(columns, body, topic, queue_id, born):
    """Split the body of a client's batch into columns; see the twin."""
    at = address_of(body)
    return split_columns(columns, at, at + len(body), address_of(topic), np.int64(len(topic)), queue_id, born)


@kernel
def _store_hex(at, byte):
    """Write a byte as two digits; return the address after them."""
    for shift in (4, 0):
        digit = byte >> shift & 15
        store_8(at, np.uint8(digit + (_ZERO if digit < 10 else _LETTERS)))
        at += 1
    return at


@entry_kernel(BYTES, INT, INT, INT)
def join_ids(host, offsets, rows, out):
    """Write message ids with commas between; see the twin."""
    at = out
    for n in range(rows):
        if n > 0:
            store_8(at, np.uint8(_COMMA))
            at += 1
        for k in range(len(host)):
            at = _store_hex(at, np.int64(host[k]))
        offset = word(offsets, n)
        for k in range(8):
            at = _store_hex(at, offset >> (56 - 8 * k) & 0xFF)
    return at - out
