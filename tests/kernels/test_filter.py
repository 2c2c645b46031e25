"""The kernels of SQL92 filters: both kinds fill the same arrays, for any texts and any bytes in place of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.java.java_numbers import double_order
from reput.formats.log.properties import decode_properties
from reput.formats.log.record import (
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    MAGIC_V1,
    SYS_FLAG_AT,
    encode_record,
)
from reput.kernels import FilterKernels, filter_kernels
from reput.kernels.layouts.filter import Code, FoundTexts, NumberTest, PropertyPlaces, Read, TextList, Texts
from support.records import BODY_AT_V4, LogBuilder, damages, logs, records
from support.twins import TWINS, as_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.formats.log.record import Record

NAMES = (b"a", b"ab", b"x", b"5", b"a" * 7, b"a" * 8, b"a" * 9)
PIECES = (
    b"a" * 7,
    b"a" * 8,
    b"\x01x\x02",
    b"a",
    b"ab",
    b"x",
    b"\x01",
    b"\x02",
    b"5",
    b"-",
    b".",
    b"e",
    b" ",
    "é".encode(),
    b"\xff",
    b"true",
    b"9" * 12,
)
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), min_size=1, max_size=10)
NO_SIZES = np.empty(0, dtype=np.int32)


def columns(texts: list[bytes]) -> Texts:
    """Texts end to end, with one that is not there before them."""
    sizes = [len(text) for text in texts]
    at = np.array([0, *np.cumsum([0, *sizes])[:-1]], dtype=np.int64)
    word = np.full(len(at), 9, dtype=np.uint64)
    return Texts(as_buffer(b"".join(texts) or b"\0"), at, np.array([-1, *sizes], dtype=np.int32), word)


def both(call: Callable[[FilterKernels], tuple[Any, ...]]) -> list[Any]:
    """Return what a call fills with the compiled kernels; the plain ones must fill the same."""
    plain, compiled = ([array.tolist() for array in call(filter_kernels(kind))] for kind in TWINS)
    assert compiled == plain
    return compiled


def values_of(kernels: FilterKernels, places: PropertyPlaces, names: list[bytes]) -> FoundTexts:
    """Return what a kernel finds under these names."""
    found = FoundTexts.empty(len(names), len(places.at))
    for array in found:
        array[:] = 7
    kernels.find_values(places, TextList.of(names), found)
    return found


@settings(deadline=None)
@given(TEXTS, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), st.integers(0, 99))
def test_find_values(texts: list[bytes], names: list[bytes], after: int) -> None:
    """Properties are found by name as the properties' own reader finds them, wherever the buffer ends."""
    column = columns(texts)
    buffer = as_buffer(column.data.tobytes() + b"x" * after)
    places = PropertyPlaces(buffer, column.at, column.size, False)
    value_at, value_size, _ = both(lambda kernels: values_of(kernels, places, names))
    for n, text in enumerate([b"", *texts]):
        found = decode_properties(text)
        for k, name in enumerate(names):
            begin, length = value_at[k][n], value_size[k][n]
            assert (found.get(name) is None) == (length < 0)
            assert length < 0 or buffer[begin : begin + length].tobytes() == found[name]


@settings(deadline=None)
@given(TEXTS, st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_texts(texts: list[bytes], wanted: list[bytes], first: bool, second: bool) -> None:
    """Texts are compared, searched and looked through for bytes that are not ASCII."""
    column = columns(texts)
    listed = TextList.of([*wanted, texts[0]])
    other = columns(texts[::-1])

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        found = [np.ones(len(column.at), dtype=np.bool_) for _ in range(3)]
        codes = np.full(len(column.at), 9, dtype=np.uint8)
        column.word[:] = 9
        kernels.first_bytes(column)
        kernels.is_one_of(column, listed, first, 2, codes)
        kernels.is_same(column, other, found[0])
        kernels.holds_text(column, as_buffer(wanted[0]), first, second and not first, found[1])
        kernels.has_wide(column, found[2])
        return column.word, codes, *found

    both(call)


NUMBERS = [b"-9223372036854775808", b"9223372036854775808", b"-2147483648", b"0.1", b"9007199254740993", b"12345678",
           b"01234567", b"123456789", b"1234567/", b"1234567:", b"+5", b"-0", b"-0.0", b"\x005"]  # fmt: skip
WHOLE = (-(1 << 63), -(1 << 31), -5, 0, 5, 1234567, 12345678, (1 << 63) - 1)


@settings(deadline=None)
@given(
    TEXTS,
    st.sampled_from([(-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)]),
    st.sampled_from(WHOLE),
    st.integers(0, 7),
)
def test_numbers(texts: list[bytes], bounds: tuple[int, int], key: int, holds: int) -> None:
    """Texts are read as numbers exactly, or left to slower code, or bad; compared they are as those numbers are."""
    texts = [*texts, *NUMBERS]
    column = columns(texts)
    count = len(column.at)
    double_key = double_order(float(key))

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        doubles = np.zeros(count, dtype=np.float64)
        codes = [np.full(count, 9, dtype=np.uint8) for _ in range(3)]
        column.word[:] = 9
        kernels.first_bytes(column)
        left = [
            kernels.compare_whole(column, NumberTest(key, holds, 2, *bounds), codes[0]),
            kernels.compare_double(column, NumberTest(double_key, holds, 2), codes[1]),
        ]
        kernels.read_double(column, doubles, codes[2])
        return *codes, doubles, np.array(left)

    whole, compared, status, doubles, left = both(call)
    assert [whole.count(Code.LEFT), compared.count(Code.LEFT)] == left
    assert whole[0] == compared[0] == Code.UNKNOWN
    for text, code in zip(texts, whole[1:], strict=True):
        if code in (Code.TRUE, Code.FALSE):
            assert code == holds >> (int(text) > key) - (int(text) < key) + 1 & 1
    for text, value, how in zip(texts, doubles[1:], status[1:], strict=True):
        assert how != Read.GOOD or value == float(text.strip(bytes(range(0x21))))


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=16, max_size=16), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))))
def test_codes_joined(table: list[int], pairs: list[tuple[int, int]]) -> None:
    """Two parts' codes are put together as the table says."""
    left, right = (np.array([pair[n] for pair in pairs], dtype=np.uint8) for n in (0, 1))

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        codes = np.full(len(pairs), 9, dtype=np.uint8)
        kernels.join_codes(np.array(table, dtype=np.uint8), left, right, codes)
        return (codes,)

    assert both(call) == [[table[4 * first + second] for first, second in pairs]]


@settings(deadline=None)
@given(records())
def test_properties_of_a_record(record: Record) -> None:
    """The properties of any record are found in place."""
    data = encode_record(record)
    expected = decode_properties(record.properties)
    names = [*expected, b"none"]
    places = PropertyPlaces(as_buffer(data), np.zeros(1, dtype=np.int64), NO_SIZES, True)
    at, size, _ = both(lambda kernels: values_of(kernels, places, names))
    found = [data[begin : begin + length] for (begin,), (length,) in zip(at, size, strict=True) if length >= 0]
    assert found == [*expected.values()]


def test_a_record_whose_hosts_reach_past_the_end_has_no_properties() -> None:
    """A shortest record whose flags promise two hosts of IPv6 ends before its body: nothing is read after it."""
    log = LogBuilder(4096)
    log.message("t", body=b"", properties=b"", magic=MAGIC_V1)
    data = bytearray(bytes(log))
    data[SYS_FLAG_AT + 3] |= FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6
    places = PropertyPlaces(as_buffer(bytes(data)), np.zeros(1, dtype=np.int64), NO_SIZES, True)
    _, size, _ = both(lambda kernels: values_of(kernels, places, [b"KEYS"]))
    assert size == [[-1]]


def test_properties_that_reach_past_the_end_are_not_read() -> None:
    """A record whose properties are longer than the bytes that are there has none, and so has one cut before them."""
    log = LogBuilder(4096)
    log.message("t", body=b"", properties=b"KEYS\x01ab\x02")
    for end in (len(bytes(log)) - 1, len(bytes(log)) - 10):
        places = PropertyPlaces(as_buffer(bytes(log)[:end]), np.zeros(1, dtype=np.int64), NO_SIZES, True)
        _, size, _ = both(lambda kernels, places=places: values_of(kernels, places, [b"KEYS"]))
        assert size == [[-1]]


def test_a_topic_length_of_v1_is_a_signed_byte() -> None:
    """A topic length above 127 in a v1 record is no length, as in Java: such a record has no properties."""
    log = LogBuilder(4096)
    log.message("orders", body=b"", more={"pad": "x" * 300})
    data = bytearray(bytes(log))
    data[BODY_AT_V4] = 0xB7
    after = BODY_AT_V4 + 1 + 0xB7
    data[after : after + 9] = b"\0\x07KEYS\x01ab"
    places = PropertyPlaces(as_buffer(bytes(data)), np.zeros(1, dtype=np.int64), NO_SIZES, True)
    _, size, _ = both(lambda kernels: values_of(kernels, places, [b"KEYS"]))
    assert size == [[-1]]


@settings(deadline=None, max_examples=50)
@given(st.data(), logs(min_records=1))
def test_properties_of_a_damaged_log(data: st.DataObject, log: LogBuilder) -> None:
    """In place of records there may be anything: both kinds say the same, and stay within the buffer."""
    damaged = data.draw(damages(log))
    found = [placed.offset - log.start for placed in log.placed]
    at = np.array([*found, -1, 1 << 40, len(damaged), len(damaged) - 50], dtype=np.int64)
    places = PropertyPlaces(as_buffer(damaged), at, NO_SIZES, True)
    names = [b"KEYS", b"TAGS", b"UNIQ_KEY", b"a"]
    at, size, _ = both(lambda kernels: values_of(kernels, places, names))
    begin, after = np.array(at), np.array(at) + np.maximum(size, 0)
    assert begin.min() >= 0
    assert after.max() <= len(damaged)
