"""Java's `String.hashCode` over strings that are stored as UTF-8, and the two hashes made from it.

A record stores topics, tags and keys as UTF-8. The peer decodes them into a Java string (UTF-16 units, with U+FFFD in
place of malformed bytes) and hashes the units. Java and Python replace malformed bytes differently (an encoded
surrogate is one replacement in Java and three in Python), so the decoding is spelled out here.

Texts that the peer writes again (keys in RocksDB) are made by the same decoding.

Source: `java.lang.String.hashCode`, the JDK 17 UTF-8 decoder, `MessageExtBrokerInner.tagsString2tagsCode`,
`IndexFile.indexKeyHashMethod`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLACEMENT = 0xFFFD


def utf16_units(data: bytes) -> Iterator[int]:
    """Yield the UTF-16 units that Java's decoder makes of `data`, malformed input included."""
    position, end = 0, len(data)
    while position < end:
        first = data[position]
        if first < 0x80:
            yield first
            position += 1
            continue
        code_point, length = _decode_sequence(data, position, end)
        position += length
        if code_point >= 0x10000:
            yield 0xD800 + ((code_point - 0x10000) >> 10)
            yield 0xDC00 + ((code_point - 0x10000) & 0x3FF)
        else:
            yield code_point


def _continues(data: bytes, position: int, end: int) -> bool:
    return position < end and data[position] & 0xC0 == 0x80


def _decode_sequence(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return code point and length of the sequence at `position`; REPLACEMENT and what it replaces if malformed."""
    first = data[position]
    if 0xC2 <= first <= 0xDF:
        if _continues(data, position + 1, end):
            return (first & 0x1F) << 6 | data[position + 1] & 0x3F, 2
        return REPLACEMENT, 1
    if 0xE0 <= first <= 0xEF:
        return _decode_three(data, position, end)
    if 0xF0 <= first <= 0xF4:
        return _decode_four(data, position, end)
    return REPLACEMENT, 1


def _decode_three(data: bytes, position: int, end: int) -> tuple[int, int]:
    first = data[position]
    if not _continues(data, position + 1, end) or (first == 0xE0 and data[position + 1] < 0xA0):
        return REPLACEMENT, 1
    if not _continues(data, position + 2, end):
        return REPLACEMENT, 2
    code_point = (first & 0x0F) << 12 | (data[position + 1] & 0x3F) << 6 | data[position + 2] & 0x3F
    # Java replaces a whole encoded surrogate once; Python's decoder would replace each of its three bytes.
    return (REPLACEMENT if 0xD800 <= code_point <= 0xDFFF else code_point), 3


def _decode_four(data: bytes, position: int, end: int) -> tuple[int, int]:
    first = data[position]
    if not _continues(data, position + 1, end):
        return REPLACEMENT, 1
    second = data[position + 1]
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return REPLACEMENT, 1
    if not _continues(data, position + 2, end):
        return REPLACEMENT, 2
    if not _continues(data, position + 3, end):
        return REPLACEMENT, 3
    tail = (second & 0x3F) << 12 | (data[position + 2] & 0x3F) << 6 | data[position + 3] & 0x3F
    return (first & 0x07) << 18 | tail, 4


def java_string(data: bytes) -> str:
    """Return UTF-8 as Java decodes it."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return b"".join(unit.to_bytes(2, "little") for unit in utf16_units(data)).decode("utf-16-le")


def java_text(data: bytes) -> bytes:
    """Return the UTF-8 bytes that Java writes for a string that it has read from `data`."""
    return data if data.isascii() else java_string(data).encode("utf-8")


def to_int32(value: int) -> int:
    """Wrap `value` to a signed 32-bit integer, as Java's int arithmetic does."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def java_string_hash_utf8(data: bytes) -> int:
    """Return Java's `String.hashCode` of the string stored in `data`."""
    value = 0
    for unit in data if data.isascii() else utf16_units(data):
        value = value * 31 + unit & 0xFFFFFFFF
    return to_int32(value)


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`, over its UTF-16 units."""
    return java_string_hash_utf8(text.encode("utf-8", "surrogatepass"))


def index_key_hash(key: bytes) -> int:
    """Return the hash of `topic + "#" + key` in an IndexFile: the absolute value, and 0 for Integer.MIN_VALUE."""
    value = java_string_hash_utf8(key)
    return 0 if value == -0x80000000 else abs(value)
