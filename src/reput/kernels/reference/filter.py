"""The kernels of SQL92 filters in plain Python: the specification of `reput.kernels.compiled.filter`."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import INT64_MAX
from reput.formats.properties import decode_properties
from reput.formats.record import HEAD, HOST_V4_SIZE, HOST_V6_SIZE, MAGIC_V2, MIN_RECORD_SIZE, host_sizes
from reput.kernels.layouts.columns import Code, Read

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Sizes = NDArray[np.int32]
Words = NDArray[np.uint64]
Codes = NDArray[np.uint8]
Truths = NDArray[np.bool_]

_TRIES_AND_PREPARED = 12
_MOST_DIGITS = 18
_EXACT_MANTISSA = 1 << 53
assert (HOST_V4_SIZE, HOST_V6_SIZE) == (8, 20)


def _properties_of(data: bytes, position: int) -> tuple[int, int]:
    nowhere = 0, -1
    if position < 0 or position + MIN_RECORD_SIZE > len(data):
        return nowhere
    head = dict(zip(HEAD.offsets, HEAD.struct.unpack_from(data, position), strict=True))
    body = position + HEAD.size + sum(host_sizes(head["sys_flag"])) + 8 + _TRIES_AND_PREPARED
    if body + 4 > len(data):
        return nowhere
    length = int.from_bytes(data[body : body + 4], signed=True)
    topic = body + 4 + length
    if length < 0 or topic + 2 > len(data):
        return nowhere
    wide = 2 if head["magic"] == MAGIC_V2 else 1
    topic_size = int.from_bytes(data[topic : topic + wide], signed=True)
    after = topic + wide + topic_size
    if topic_size < 0 or after + 2 > len(data):
        return nowhere
    length = int.from_bytes(data[after : after + 2], signed=True)
    if length < 0 or after + 2 + length > len(data):
        return nowhere
    return after + 2, length


def find_values(
    buffer: Bytes,
    at: Places,
    size: Sizes,
    in_records: bool,
    names: Bytes,
    name_ends: Sizes,
    value_at: Places,
    value_size: Sizes,
    value_word: Words,
) -> None:
    """Find properties by name: write the value of name k in message n to place `[k, n]` of the last three arrays.

    `at`, `size`: the place of each message's properties in `buffer` (size -1: none). With `in_records` `at` is the
    place of its record, `size` is not read, and a bad record has no properties. `names` holds the names end to end,
    `name_ends` the end of each. A `value_size` of -1 means that there is no such property. `value_word` is as
    `first_bytes` fills it.
    """
    data, wanted = buffer.tobytes(), _split(names, name_ends)
    value_at[:], value_size[:] = 0, -1
    for n, begin in enumerate(at.tolist()):
        piece, length = _properties_of(data, begin) if in_records else (begin, int(size[n]))
        for part in data[piece : piece + max(length, 0)].split(b"\x02"):
            for name, value in decode_properties(part).items():
                for k in [k for k, each in enumerate(wanted) if each == name]:
                    value_at[k, n], value_size[k, n] = piece + len(name) + 1, len(value)
            piece += len(part) + 1
    for k in range(len(wanted)):
        first_bytes(buffer, value_at[k], value_size[k], value_word[k])


def first_bytes(buffer: Bytes, at: Places, size: Sizes, word: Words) -> None:
    """Write the first eight bytes of each text to `word`, as a little-endian number with zeros after the text's end."""
    word[:] = [int.from_bytes((text or b"")[:8], "little") for text in texts_of(buffer, at, size)]


def is_one_of(
    buffer: Bytes, at: Places, size: Sizes, word: Words, texts: Bytes, ends: Sizes, negated: bool, missing: int,
    codes: Codes,
) -> None:  # fmt: skip
    """Write to `codes` whether each text is one of `texts` (end to end; `ends`): a `Code` each, `missing` for no text.

    `negated`: TRUE and FALSE change places. `word`: as `first_bytes` fills it.
    """
    wanted = set(_split(texts, ends))
    codes[:] = [
        missing if text is None else (text in wanted) != negated for text in _checked_texts(buffer, at, size, word)
    ]


def is_same(
    first_buffer: Bytes, first_at: Places, first_size: Sizes,
    second_buffer: Bytes, second_at: Places, second_size: Sizes, found: Truths,
) -> None:  # fmt: skip
    """Write to `found` whether each text of the first column equals that of the second."""
    pairs = zip(
        texts_of(first_buffer, first_at, first_size), texts_of(second_buffer, second_at, second_size), strict=True
    )
    found[:] = [first == second for first, second in pairs]


def holds_text(
    buffer: Bytes, at: Places, size: Sizes, text: Bytes, at_start: bool, at_end: bool, found: Truths
) -> None:
    """Write to `found` whether each text holds `text`: anywhere, or only at its start or end."""
    wanted = text.tobytes()
    for n, value in enumerate(texts_of(buffer, at, size)):
        if value is None:
            found[n] = False
        elif at_start or at_end:
            found[n] = value.startswith(wanted) if at_start else value.endswith(wanted)
        else:
            found[n] = wanted in value


def has_wide(buffer: Bytes, at: Places, size: Sizes, found: Truths) -> None:
    """Write to `found` whether each text has a byte that is not ASCII."""
    found[:] = [text is not None and not text.isascii() for text in texts_of(buffer, at, size)]


def compare_whole(
    buffer: Bytes, at: Places, size: Sizes, word: Words, low: int, high: int, key: int, holds: int, missing: int,
    codes: Codes,
) -> int:  # fmt: skip
    """Compare texts, read as whole numbers in [low, high] as Java's Integer and Long do, with `key`; write to `codes`.

    A `Code` each: TRUE if the order is one of `holds` (bits: 1 less, 2 equal, 4 greater), `missing` for no text,
    NO_ANSWER for a text that is no such number, and LEFT if only slower code can read it: Java knows the digits of many
    scripts, and numbers of more than 18 digits are rare. Returns the number of LEFT. `word`: as `first_bytes` fills it.
    """
    for n, text in enumerate(_checked_texts(buffer, at, size, word)):
        value, outcome = _whole(text, low, high)
        codes[n] = missing if text is None else _code(_sign(value, key), outcome, holds)
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


def read_double(buffer: Bytes, at: Places, size: Sizes, value: NDArray[np.float64], status: Codes) -> None:
    """Read texts as doubles, as Java's Double does; `status`: a `Read` each.

    Short decimal numbers are read here, exactly; a text that begins as no number does is BAD, and all others are left
    to the caller (ASK).
    """
    for n, text in enumerate(texts_of(buffer, at, size)):
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


def compare_double(buffer: Bytes, at: Places, size: Sizes, key: int, holds: int, missing: int, codes: Codes) -> int:
    """Compare texts, read as doubles, with the double of which `key` is `sortable`, to `codes`, as `compare_whole`."""
    for n, text in enumerate(texts_of(buffer, at, size)):
        value, outcome = _double(text)
        codes[n] = missing if text is None else _code(_sign(sortable(value), key), outcome, holds)
    return int(np.count_nonzero(codes == Code.LEFT))


def sortable(value: float) -> int:
    """Return a whole number whose order is that of doubles, -0.0 below 0.0; not for NaN."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ INT64_MAX


def _checked_texts(buffer: Bytes, at: Places, size: Sizes, word: Words) -> list[bytes | None]:
    texts = texts_of(buffer, at, size)
    assert word.tolist() == [int.from_bytes((text or b"")[:8], "little") for text in texts], "words of other texts"
    return texts


def texts_of(buffer: Bytes, at: Places, size: Sizes) -> list[bytes | None]:
    """Return the texts themselves, None for no text."""
    data = buffer.tobytes()
    places = zip(at.tolist(), size.tolist(), strict=True)
    return [data[begin : begin + length] if length >= 0 else None for begin, length in places]


def _split(texts: Bytes, ends: Sizes) -> list[bytes]:
    data, first, found = texts.tobytes(), 0, []
    for end in ends.tolist():
        found.append(data[first:end])
        first = end
    return found
