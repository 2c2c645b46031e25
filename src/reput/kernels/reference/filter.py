"""The kernels of SQL92 filters in plain Python: the specification of `reput.kernels.compiled.filter`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.java.java_numbers import double_order
from reput.formats.log.properties import PROPERTY_END, decode_properties
from reput.formats.log.record import (
    BODY_LENGTH_SIZE,
    HEAD,
    MIN_RECORD_SIZE,
    PROPERTIES_LENGTH,
    TOPIC_LENGTH_V2,
    before_body,
    topic_length_of,
)
from reput.kernels.layouts.filter import Code, FoundTexts, NumberTest, PropertyPlaces, Read, TextList, Texts

Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint8]
Truths = NDArray[np.bool_]

_MOST_DIGITS = 18
_EXACT_MANTISSA = 1 << 53


def _properties_of(data: memoryview, position: int) -> tuple[int, int]:
    nowhere = 0, -1
    if position < 0 or position + MIN_RECORD_SIZE > len(data):
        return nowhere
    head = dict(zip(HEAD.offsets, HEAD.struct.unpack_from(data, position), strict=True))
    body = position + before_body(head["sys_flag"]).size
    if body > len(data):
        return nowhere
    length = int.from_bytes(data[body - BODY_LENGTH_SIZE : body], signed=True)
    topic = body + length
    if length < 0 or topic + TOPIC_LENGTH_V2.size > len(data):
        return nowhere
    topic_length = topic_length_of(head["magic"])
    (topic_size,) = topic_length.struct.unpack_from(data, topic)
    after = topic + topic_length.size + topic_size
    properties = after + PROPERTIES_LENGTH.size
    if topic_size < 0 or properties > len(data):
        return nowhere
    (length,) = PROPERTIES_LENGTH.struct.unpack_from(data, after)
    if length < 0 or properties + length > len(data):
        return nowhere
    return properties, length


def find_values(places: PropertyPlaces, names: TextList, found: FoundTexts) -> None:
    """Find properties by name, and write the value of each name in each message to `found`."""
    # The buffer may be a log file of 1 GiB, of which a few records are looked at.
    data, wanted = places.data.data, _split(names)
    found.at[:], found.size[:] = 0, -1
    for n, begin in enumerate(places.at.tolist()):
        piece, length = _properties_of(data, begin) if places.in_records else (begin, int(places.size[n]))
        for part in bytes(data[piece : piece + max(length, 0)]).split(PROPERTY_END):
            for name, value in decode_properties(part).items():
                for k in [k for k, each in enumerate(wanted) if each == name]:
                    found.at[k, n], found.size[k, n] = piece + len(name) + 1, len(value)
            piece += len(part) + 1
    for k in range(len(wanted)):
        first_bytes(found.of_name(k, places.data))


def first_bytes(texts: Texts) -> None:
    """Write the first eight bytes of each text to `word`, as a little-endian number with zeros after the text's end."""
    texts.word[:] = [_first_word(text) for text in texts_of(texts)]


def is_one_of(texts: Texts, wanted: TextList, negated: bool, missing: int, codes: Codes) -> None:
    """Write to `codes` whether each text is one of those that are wanted: a `Code` each, `missing` for no text.

    `negated`: TRUE and FALSE change places.
    """
    listed = set(_split(wanted))
    codes[:] = [missing if text is None else (text in listed) != negated for text in _checked_texts(texts)]


def is_same(first: Texts, second: Texts, found: Truths) -> None:
    """Write to `found` whether each text of the first column equals that of the second."""
    found[:] = [one == other for one, other in zip(texts_of(first), texts_of(second), strict=True)]


def holds_text(texts: Texts, wanted: Bytes, at_start: bool, at_end: bool, found: Truths) -> None:
    """Write to `found` whether each text holds `wanted`: anywhere, or only at its start or end."""
    text = wanted.tobytes()
    for n, value in enumerate(texts_of(texts)):
        if value is None:
            found[n] = False
        elif at_start or at_end:
            found[n] = value.startswith(text) if at_start else value.endswith(text)
        else:
            found[n] = text in value


def has_wide(texts: Texts, found: Truths) -> None:
    """Write to `found` whether each text has a byte that is not ASCII."""
    found[:] = [text is not None and not text.isascii() for text in texts_of(texts)]


def compare_whole(texts: Texts, test: NumberTest, codes: Codes) -> int:
    """Read texts as whole numbers as Java's Integer and Long do, test them, and write a `Code` each to `codes`.

    NO_ANSWER is for a text that is no number within the bounds, and LEFT for one that only slower code can read: Java
    knows the digits of many scripts, and numbers of more than 18 digits are rare. Returns the number of LEFT.
    """
    for n, text in enumerate(_checked_texts(texts)):
        value, outcome = _whole(text, test.low, test.high)
        codes[n] = test.missing if text is None else _code(_sign(value, test.key), outcome, test.holds)
    return int(np.count_nonzero(codes == Code.LEFT))


def _whole(text: bytes | None, low: int, high: int) -> tuple[int, Read]:
    digits = text[1:] if text and text[:1] in (b"+", b"-") else text
    if not digits:
        return 0, Read.BAD
    assert text is not None
    if not digits.isascii() or (digits.isdigit() and len(digits.lstrip(b"0")) > _MOST_DIGITS):
        return 0, Read.ASK
    good = digits.isdigit() and low <= int(text) <= high
    return (int(text), Read.GOOD) if good else (0, Read.BAD)


def _sign(value: int, key: int) -> int:
    return (value > key) - (value < key)


def _code(sign: int, outcome: Read, holds: int) -> Code:
    if outcome is not Read.GOOD:
        return Code.LEFT if outcome is Read.ASK else Code.NO_ANSWER
    return Code.TRUE if holds >> (sign + 1) & 1 else Code.FALSE


def join_codes(table: Codes, left: Codes, right: Codes, codes: Codes) -> None:
    """Put the codes of two parts together, as a table of 16 codes says: `table[left << 2 | right]`, to `codes`."""
    codes[:] = [table[first << 2 | second] for first, second in zip(left.tolist(), right.tolist(), strict=True)]


def read_double(texts: Texts, value: NDArray[np.float64], status: Codes) -> None:
    """Read texts as doubles, as Java's Double does; `status`: a `Read` each.

    Short decimal numbers are read here, exactly; a text that begins as no number does is BAD, and all others are left
    to the caller (ASK).
    """
    for n, text in enumerate(texts_of(texts)):
        value[n], status[n] = _double(text)


def _double(found: bytes | None) -> tuple[float, Read]:
    text = (found or b"").strip(bytes(range(0x21)))
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    if not digits or (digits[:1].isalpha() and digits[:1] not in (b"N", b"I")):
        return 0.0, Read.BAD
    number = digits.replace(b".", b"", 1)
    if number.isdigit() and len(number) <= _MOST_DIGITS and int(number) <= _EXACT_MANTISSA:
        return float(text), Read.GOOD
    return 0.0, Read.ASK


def compare_double(texts: Texts, test: NumberTest, codes: Codes) -> int:
    """Read texts as doubles, test them, and write a `Code` each to `codes`, as `compare_whole`."""
    for n, text in enumerate(texts_of(texts)):
        value, outcome = _double(text)
        codes[n] = test.missing if text is None else _code(_sign(double_order(value), test.key), outcome, test.holds)
    return int(np.count_nonzero(codes == Code.LEFT))


def _first_word(text: bytes | None) -> int:
    return int.from_bytes((text or b"")[:8], "little")


def _checked_texts(texts: Texts) -> list[bytes | None]:
    found = texts_of(texts)
    assert texts.word.tolist() == [_first_word(text) for text in found], "words of other texts"
    return found


def texts_of(texts: Texts) -> list[bytes | None]:
    """Return the texts themselves, None for no text."""
    data = texts.data.data
    places = zip(texts.at.tolist(), texts.size.tolist(), strict=True)
    return [bytes(data[begin : begin + length]) if length >= 0 else None for begin, length in places]


def _split(texts: TextList) -> list[bytes]:
    data, first, found = texts.data.tobytes(), 0, []
    for end in texts.ends.tolist():
        found.append(data[first:end])
        first = end
    return found
