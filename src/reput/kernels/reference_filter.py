"""The kernels of SQL92 filters in plain Python: the specification of `reput.kernels.compiled.filter`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.properties import decode_properties
from reput.formats.record import HEAD, HOST_V4_SIZE, HOST_V6_SIZE, MAGIC_V2, MIN_RECORD_SIZE, host_sizes
from reput.kernels.columns import Read

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Sizes = NDArray[np.int32]
Truths = NDArray[np.bool_]

_TRIES_AND_PREPARED = 12
_MOST_DIGITS = 18
_EXACT_MANTISSA = 1 << 53
assert (HOST_V4_SIZE, HOST_V6_SIZE) == (8, 20)


def locate_properties(buffer: Bytes, record_at: Places, at: Places, size: Sizes) -> None:
    """Where the properties of records stand: their begin to `at`, their length to `size`, -1 where it cannot be."""
    data = buffer.tobytes()
    for n, position in enumerate(record_at.tolist()):
        at[n], size[n] = _properties_of(data, position)


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
    topic_size = int.from_bytes(data[topic : topic + wide], signed=wide == 2)
    after = topic + wide + topic_size
    if topic_size < 0 or after + 2 > len(data):
        return nowhere
    length = int.from_bytes(data[after : after + 2], signed=True)
    if length < 0 or after + 2 + length > len(data):
        return nowhere
    return after + 2, length


def find_values(
    buffer: Bytes, at: Places, size: Sizes, names: Bytes, name_ends: Sizes, value_at: Places, value_size: Sizes
) -> None:
    """Find properties by name: of message n the value of name k goes to `value_at[k, n]` and `value_size[k, n]`."""
    data, wanted = buffer.tobytes(), _split(names, name_ends)
    for n, (begin, length) in enumerate(zip(at.tolist(), size.tolist(), strict=True)):
        piece = begin
        value_at[:, n], value_size[:, n] = 0, -1
        for part in data[begin : begin + max(length, 0)].split(b"\x02"):
            for name, value in decode_properties(part).items():
                for k in [k for k, each in enumerate(wanted) if each == name]:
                    value_at[k, n], value_size[k, n] = piece + len(name) + 1, len(value)
            piece += len(part) + 1


def is_one_of(buffer: Bytes, at: Places, size: Sizes, texts: Bytes, ends: Sizes, found: Truths) -> None:
    """Whether each text is one of `texts` (end to end; `ends`), to `found`."""
    wanted = set(_split(texts, ends))
    found[:] = [text in wanted for text in texts_of(buffer, at, size)]


def is_same(
    first_buffer: Bytes, first_at: Places, first_size: Sizes,
    second_buffer: Bytes, second_at: Places, second_size: Sizes, found: Truths,
) -> None:  # fmt: skip
    """Whether each text of the first column is that of the second, to `found`."""
    pairs = zip(
        texts_of(first_buffer, first_at, first_size), texts_of(second_buffer, second_at, second_size), strict=True
    )
    found[:] = [first == second for first, second in pairs]


def holds_text(
    buffer: Bytes, at: Places, size: Sizes, text: Bytes, at_start: bool, at_end: bool, found: Truths
) -> None:
    """Whether each text holds `text`, to `found`: at its start or end alone where that is asked for."""
    wanted = text.tobytes()
    for n, value in enumerate(texts_of(buffer, at, size)):
        if value is None:
            found[n] = False
        elif at_start or at_end:
            found[n] = value.startswith(wanted) if at_start else value.endswith(wanted)
        else:
            found[n] = wanted in value


def has_wide(buffer: Bytes, at: Places, size: Sizes, found: Truths) -> None:
    """Whether each text has a byte that is not ASCII, to `found`."""
    found[:] = [text is not None and not text.isascii() for text in texts_of(buffer, at, size)]


def read_whole(
    buffer: Bytes, at: Places, size: Sizes, low: int, high: int, value: NDArray[np.int64], status: Bytes
) -> None:
    """Read texts as whole numbers in [low, high], as Java's Integer and Long do; `status`: a `Read` each."""
    for n, text in enumerate(texts_of(buffer, at, size)):
        value[n], status[n] = 0, Read.BAD
        digits = text[1:] if text and text[:1] in (b"+", b"-") else text
        if not digits:
            continue
        assert text is not None
        if not digits.isascii() or (digits.isdigit() and len(digits.lstrip(b"0")) > _MOST_DIGITS):
            status[n] = Read.ASK
        elif digits.isdigit() and low <= int(text) <= high:
            value[n], status[n] = int(text), Read.GOOD


def read_double(buffer: Bytes, at: Places, size: Sizes, value: NDArray[np.float64], status: Bytes) -> None:
    """Read texts as doubles, as Java's Double does; `status`: a `Read` each, ASK for all but short decimal numbers."""
    blanks = bytes(range(0x21))
    for n, found in enumerate(texts_of(buffer, at, size)):
        value[n], status[n] = 0.0, Read.BAD
        text = (found or b"").strip(blanks)
        digits = text[1:] if text[:1] in (b"+", b"-") else text
        if not digits or (digits[:1].isalpha() and digits[:1] not in (b"N", b"I")):
            continue
        status[n] = Read.ASK
        number = digits.replace(b".", b"", 1)
        if number.isdigit() and len(number) <= _MOST_DIGITS and int(number) <= _EXACT_MANTISSA:
            value[n], status[n] = float(text), Read.GOOD


def texts_of(buffer: Bytes, at: Places, size: Sizes) -> list[bytes | None]:
    """The texts themselves, None where there is none."""
    data = buffer.tobytes()
    places = zip(at.tolist(), size.tolist(), strict=True)
    return [data[begin : begin + length] if length >= 0 else None for begin, length in places]


def _split(texts: Bytes, ends: Sizes) -> list[bytes]:
    data, first, found = texts.tobytes(), 0, []
    for end in ends.tolist():
        found.append(data[first:end])
        first = end
    return found
