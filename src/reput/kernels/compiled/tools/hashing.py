"""Java's `String.hashCode` over UTF-8 bytes; the twin of `reput.formats.java.hashing.java_string_hash_utf8`."""

from __future__ import annotations

import numpy as np

from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import byte_at, copy_bytes, load_le32, load_le64, store_8

_HIGH_BITS = np.uint64(0x8080808080808080)
_BYTE = np.uint64(0xFF)
_P = [np.uint64(pow(31, n, 1 << 32)) for n in range(9)]
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = _P[1], _P[2], _P[3], _P[4], _P[5], _P[6], _P[7], _P[8]
_LOW_32 = np.uint64(0xFFFFFFFF)
_REPLACEMENT = 0xFFFD


@kernel
def java_hash_at(begin, end, seed):
    """Return the hash of the string in [begin, end); `seed` is the hash of the text before it (int32, as int64)."""
    value = np.uint64(seed) & _LOW_32
    at = begin
    # Eight ASCII bytes a step: their powers of 31 do not wait for one another.
    while at + 8 <= end:
        word = load_le64(at)
        if word & _HIGH_BITS:
            return _java_hash_units(at, end, value)
        value = (
            value * _P8
            + ((word & _BYTE) * _P7 + (word >> np.uint64(8) & _BYTE) * _P6)
            + ((word >> np.uint64(16) & _BYTE) * _P5 + (word >> np.uint64(24) & _BYTE) * _P4)
            + ((word >> np.uint64(32) & _BYTE) * _P3 + (word >> np.uint64(40) & _BYTE) * _P2)
            + ((word >> np.uint64(48) & _BYTE) * _P1 + (word >> np.uint64(56)))
        )
        at += 8
    if at + 4 <= end:
        word = load_le32(at)
        if word & _HIGH_BITS:
            return _java_hash_units(at, end, value)
        value = (
            value * _P4
            + ((word & _BYTE) * _P3 + (word >> np.uint64(8) & _BYTE) * _P2)
            + ((word >> np.uint64(16) & _BYTE) * _P1 + (word >> np.uint64(24)))
        )
        at += 4
    while at < end:
        unit = byte_at(at)
        if unit >= 0x80:
            return _java_hash_units(at, end, value)
        value = value * _P1 + np.uint64(unit)
        at += 1
    return np.int64(np.int32(value & _LOW_32))


@kernel
def _continues(at, end):
    return at < end and byte_at(at) & 0xC0 == 0x80


@kernel
def _java_hash_units(begin, end, value):
    at = begin
    while at < end:
        code_point, length = decode_sequence(at, end)
        at += length
        if code_point >= 0x10000:
            value = value * _P1 + np.uint64(0xD800 + ((code_point - 0x10000) >> 10))
            value = value * _P1 + np.uint64(0xDC00 + ((code_point - 0x10000) & 0x3FF))
        else:
            value = value * _P1 + np.uint64(code_point)
    return np.int64(np.int32(value & _LOW_32))


@kernel
def decode_sequence(at, end):
    """Return code point and length of the character at `at`; U+FFFD and the bytes that it replaces if malformed."""
    first = byte_at(at)
    if first < 0x80:
        return first, 1
    if first < 0xC2 or first > 0xF4 or not _continues(at + 1, end):
        return _REPLACEMENT, 1
    second = byte_at(at + 1) & 0x3F
    if first <= 0xDF:
        return (first & 0x1F) << 6 | second, 2
    if first <= 0xEF:
        if first == 0xE0 and second < 0x20:
            return _REPLACEMENT, 1
        if not _continues(at + 2, end):
            return _REPLACEMENT, 2
        code_point = (first & 0x0F) << 12 | second << 6 | byte_at(at + 2) & 0x3F
        return (_REPLACEMENT if 0xD800 <= code_point <= 0xDFFF else code_point), 3
    if (first == 0xF0 and second < 0x10) or (first == 0xF4 and second > 0x0F):
        return _REPLACEMENT, 1
    if not _continues(at + 2, end):
        return _REPLACEMENT, 2
    if not _continues(at + 3, end):
        return _REPLACEMENT, 3
    tail = second << 12 | (byte_at(at + 2) & 0x3F) << 6 | byte_at(at + 3) & 0x3F
    return (first & 0x07) << 18 | tail, 4


@kernel
def is_utf8(begin, end):
    """Return True if the bytes in [begin, end) are well-formed UTF-8."""
    at = begin
    while at < end:
        code_point, length = decode_sequence(at, end)
        # U+FFFD itself, EF BF BD, is well-formed.
        if code_point == _REPLACEMENT and not (
            length == 3 and byte_at(at) == 0xEF and byte_at(at + 1) == 0xBF and byte_at(at + 2) == 0xBD
        ):
            return False
        at += length
    return True


@kernel
def put_java_text(at, begin, end):
    """Write the string in [begin, end) to an address as Java writes it as UTF-8; return the address after it.

    It takes three bytes for each malformed one.
    """
    if is_utf8(begin, end):
        copy_bytes(at, begin, end - begin)
        return at + end - begin
    place = begin
    while place < end:
        code_point, length = decode_sequence(place, end)
        if code_point == _REPLACEMENT:
            store_8(at, 0xEF)
            store_8(at + 1, 0xBF)
            store_8(at + 2, 0xBD)
            at += 3
        else:
            copy_bytes(at, place, length)
            at += length
        place += length
    return at
