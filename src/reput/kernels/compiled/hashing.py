"""Java's `String.hashCode` over UTF-8 bytes; the twin of `reput.formats.hashing.java_string_hash_utf8`."""

from __future__ import annotations

import numpy as np
from numba import njit

from reput.kernels.compiled.memory import load_le64

_REPLACEMENT = np.uint32(0xFFFD)
_HIGH_BITS = np.uint64(0x8080808080808080)
_P = [np.uint32(pow(31, n, 1 << 32)) for n in range(9)]
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = _P[1], _P[2], _P[3], _P[4], _P[5], _P[6], _P[7], _P[8]


@njit(cache=True, nogil=True, inline="always")
def _unit(word, shift):
    return np.uint32(word >> np.uint64(shift) & np.uint64(0xFF))


@njit(cache=True, nogil=True)
def java_hash(buffer, begin, end, seed):
    """Hash of the string stored in `buffer[begin:end]`; `seed` (int32) is the hash of what stands before."""
    value = np.uint32(seed)
    position = begin
    # Eight ASCII bytes a step: their powers of 31 do not wait for one another.
    while position + 8 <= end:
        word = load_le64(buffer, position)
        if word & _HIGH_BITS:
            return _java_hash_units(buffer, position, end, value)
        value = np.uint32(
            value * _P8
            + (_unit(word, 0) * _P7 + _unit(word, 8) * _P6)
            + (_unit(word, 16) * _P5 + _unit(word, 24) * _P4)
            + (_unit(word, 32) * _P3 + _unit(word, 40) * _P2)
            + (_unit(word, 48) * _P1 + _unit(word, 56))
        )
        position += 8
    while position < end:
        unit = buffer[position]
        if unit >= 0x80:
            return _java_hash_units(buffer, position, end, value)
        value = np.uint32(value * _P1 + np.uint32(unit))
        position += 1
    return np.int32(value)


@njit(cache=True, nogil=True)
def _continues(buffer, position, end):
    return position < end and buffer[position] & 0xC0 == 0x80


@njit(cache=True, nogil=True)
def _java_hash_units(buffer, begin, end, value):
    position = begin
    while position < end:
        first = buffer[position]
        if first < 0x80:
            value = np.uint32(value * _P1 + np.uint32(first))
            position += 1
            continue
        code_point, length = decode_sequence(buffer, position, end)
        position += length
        if code_point >= 0x10000:
            value = np.uint32(value * _P1 + np.uint32(0xD800 + ((code_point - 0x10000) >> 10)))
            value = np.uint32(value * _P1 + np.uint32(0xDC00 + ((code_point - 0x10000) & 0x3FF)))
        else:
            value = np.uint32(value * _P1 + np.uint32(code_point))
    return np.int32(value)


@njit(cache=True, nogil=True)
def decode_sequence(buffer, position, end):
    """Code point and length of the sequence at `position`; U+FFFD and what it replaces where malformed."""
    first = np.int64(buffer[position])
    if first < 0xC2 or first > 0xF4 or not _continues(buffer, position + 1, end):
        return np.int64(0xFFFD), 1
    second = np.int64(buffer[position + 1]) & 0x3F
    if first <= 0xDF:
        return (first & 0x1F) << 6 | second, 2
    if first <= 0xEF:
        if first == 0xE0 and second < 0x20:
            return np.int64(0xFFFD), 1
        if not _continues(buffer, position + 2, end):
            return np.int64(0xFFFD), 2
        code_point = (first & 0x0F) << 12 | second << 6 | np.int64(buffer[position + 2]) & 0x3F
        return (np.int64(0xFFFD) if 0xD800 <= code_point <= 0xDFFF else code_point), 3
    if (first == 0xF0 and second < 0x10) or (first == 0xF4 and second > 0x0F):
        return np.int64(0xFFFD), 1
    if not _continues(buffer, position + 2, end):
        return np.int64(0xFFFD), 2
    if not _continues(buffer, position + 3, end):
        return np.int64(0xFFFD), 3
    tail = second << 12 | (np.int64(buffer[position + 2]) & 0x3F) << 6 | np.int64(buffer[position + 3]) & 0x3F
    return (first & 0x07) << 18 | tail, 4


@njit(cache=True, nogil=True)
def is_utf8(buffer, begin, end):
    """Whether `buffer[begin:end]` is well-formed UTF-8."""
    position = begin
    while position < end:
        if buffer[position] < 0x80:
            position += 1
            continue
        code_point, length = decode_sequence(buffer, position, end)
        if code_point == 0xFFFD and not (
            length == 3
            and buffer[position] == 0xEF
            and buffer[position + 1] == 0xBF
            and buffer[position + 2] == 0xBD
        ):
            return False
        position += length
    return True
