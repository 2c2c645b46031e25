"""Split the body of a client's batch into columns, in one pass.

The twin of `reput.kernels.reference.client_batch`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log import client_batch as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import (
    byte_at,
    copy_bytes,
    load_be16,
    load_be32,
    store_8,
    store_32,
    store_64,
    word,
)
from reput.kernels.layouts.client_batch import BEGINNING, BROKEN, SPLIT, UNUSUAL, UNUSUAL_BEGINNINGS, SplitAt

_HEAD_SIZE, _LENGTH_SIZE, _BEGINNING = fmt.HEAD_SIZE, fmt.LENGTH_SIZE, BEGINNING
_FLAG_AT, _BODY_LENGTH_AT = (fmt.HEAD.offsets[name] for name in ("flag", "body_length"))
assert BEGINNING == 4
_UNUSUAL = np.array([int.from_bytes(name, "big") for name in sorted(UNUSUAL_BEGINNINGS)], dtype=np.int64)


@kernel
def _separator_from(at, end):
    """Return the address of the first 0x01 or 0x02 from `at` on; `end` if there is none."""
    while at < end:
        byte = byte_at(at)
        if byte == NAME_VALUE_SEPARATOR or byte == PROPERTY_SEPARATOR:
            return at
        at += 1
    return end


@kernel
def _are_usual(begin, end):
    """Return True if all properties have a name and a value, and no name that needs a look."""
    at = begin
    while at < end:
        stop = _separator_from(at, end)
        if stop == at or stop == end or byte_at(stop) != NAME_VALUE_SEPARATOR:
            return False
        if stop - at >= _BEGINNING:
            beginning = load_be32(at)
            for n in range(len(_UNUSUAL)):
                if beginning == _UNUSUAL[n]:
                    return False
        value = stop + 1
        stop = _separator_from(value, end)
        if stop == value or (stop < end and byte_at(stop) == NAME_VALUE_SEPARATOR):
            return False
        at = stop + 1
    return True


@kernel
def split_batch(split):
    """Split the body of a client's batch into columns; see the twin."""
    at = word(split, SplitAt.data_at)
    end = at + word(split, SplitAt.size)
    body_offsets, bodies = word(split, SplitAt.body_offsets_at), word(split, SplitAt.bodies_at)
    text_offsets, texts = word(split, SplitAt.property_offsets_at), word(split, SplitAt.properties_at)
    flags = word(split, SplitAt.flags_at)
    rows, bodies_size, texts_size, is_usual = np.int64(0), np.int64(0), np.int64(0), True
    store_64(body_offsets, bodies_size)
    store_64(text_offsets, texts_size)
    while at < end:
        body = at + _HEAD_SIZE
        if body > end:
            return BROKEN
        body_size = load_be32(at + _BODY_LENGTH_AT)
        if body_size < 0 or body + body_size + _LENGTH_SIZE > end:
            return BROKEN
        text = body + body_size + _LENGTH_SIZE
        text_size = load_be16(text - _LENGTH_SIZE)
        if text_size < 0 or text + text_size > end:
            return BROKEN
        is_usual = is_usual and _are_usual(text, text + text_size)
        store_32(flags + 4 * rows, np.int32(load_be32(at + _FLAG_AT)))
        copy_bytes(bodies + bodies_size, body, body_size)
        copy_bytes(texts + texts_size, text, text_size)
        bodies_size += body_size
        texts_size += text_size
        if text_size > 0 and byte_at(text + text_size - 1) != PROPERTY_SEPARATOR:
            store_8(texts + texts_size, np.uint8(PROPERTY_SEPARATOR))
            texts_size += 1
        rows += 1
        store_64(body_offsets + 8 * rows, bodies_size)
        store_64(text_offsets + 8 * rows, texts_size)
        at = text + text_size
    store_64(split + 8 * SplitAt.rows, rows)
    if rows == 0:
        return BROKEN
    return SPLIT if is_usual else UNUSUAL
