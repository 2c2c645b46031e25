"""The kernels of SQL92 filters: both kinds fill the same arrays, for any texts and any bytes in place of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.record import encode_record
from reput.kernels import FilterKernels, filter_kernels
from reput.kernels.columns import Read
from support.records import damages, logs, records
from support.twins import TWINS, as_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.formats.record import Record
    from support.records import LogBuilder

PIECES = (b"a", b"ab", b"x", b"\x01", b"\x02", b"5", b"-", b".", b"e", b" ", "é".encode(), b"\xff", b"true", b"9" * 12)
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join), min_size=1, max_size=10)


def columns(texts: list[bytes]) -> tuple[Any, Any, Any]:
    """Texts end to end, with one that is not there in front."""
    sizes = [len(text) for text in texts]
    at = np.array([0, *np.cumsum([0, *sizes])[:-1]], dtype=np.int64)
    return as_buffer(b"".join(texts) or b"\0"), at, np.array([-1, *sizes], dtype=np.int32)


def both(call: Callable[[FilterKernels], tuple[Any, ...]]) -> list[Any]:
    """What a call fills with the compiled kernels; the plain ones must fill the same."""
    plain, compiled = ([array.tolist() for array in call(filter_kernels(kind))] for kind in TWINS)
    assert compiled == plain
    return compiled


@settings(deadline=None)
@given(TEXTS, st.lists(st.sampled_from([b"a", b"ab", b"x", b"5"]), min_size=1, max_size=3, unique=True))
def test_find_values(texts: list[bytes], names: list[bytes]) -> None:
    """Properties are found by name as the properties' own reader finds them."""
    buffer, at, size = columns(texts)
    ends = np.cumsum([len(name) for name in names], dtype=np.int32)

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        value_at = np.full((len(names), len(at)), 7, dtype=np.int64)
        value_size = np.full((len(names), len(at)), 7, dtype=np.int32)
        kernels.find_values(buffer, at, size, as_buffer(b"".join(names)), ends, value_at, value_size)
        return value_at, value_size

    both(call)


@settings(deadline=None)
@given(TEXTS, st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_texts(texts: list[bytes], wanted: list[bytes], at_start: bool, at_end: bool) -> None:
    """Texts are compared, searched and looked through for bytes that are not ASCII."""
    column = columns(texts)
    ends = np.cumsum([len(text) for text in wanted], dtype=np.int32)
    other = columns(texts[::-1])

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        found = [np.ones(len(column[1]), dtype=np.bool_) for _ in range(4)]
        kernels.is_one_of(*column, as_buffer(b"".join(wanted)), ends, found[0])
        kernels.is_same(*column, *other, found[1])
        kernels.holds_text(*column, as_buffer(wanted[0]), at_start, at_end and not at_start, found[2])
        kernels.has_wide(*column, found[3])
        return tuple(found)

    both(call)


@settings(deadline=None)
@given(TEXTS, st.sampled_from([(-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)]))
def test_numbers(texts: list[bytes], bounds: tuple[int, int]) -> None:
    """Numbers are read exactly, or left to slower code, or bad."""
    column = columns(
        [*texts, b"-9223372036854775808", b"9223372036854775808", b"-2147483648", b"0.1", b"9007199254740993"]
    )

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        count = len(column[1])
        whole, doubles = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.float64)
        status = [np.full(count, 9, dtype=np.uint8) for _ in range(2)]
        kernels.read_whole(*column, *bounds, whole, status[0])
        kernels.read_double(*column, doubles, status[1])
        return whole, status[0], doubles, status[1]

    whole, status, doubles, double_status = both(call)
    for text, value, how in zip([b"", *texts], whole, status, strict=False):
        assert how != Read.GOOD or value == int(text)
    for text, value, how in zip([b"", *texts], doubles, double_status, strict=False):
        assert how != Read.GOOD or value == float(text.strip(bytes(range(0x21))))


@settings(deadline=None)
@given(records())
def test_properties_of_a_record(record: Record) -> None:
    """The properties of any record are found where they stand."""
    data = encode_record(record)

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        at, size = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
        kernels.locate_properties(as_buffer(data), np.zeros(1, dtype=np.int64), at, size)
        return at, size

    (at,), (size,) = both(call)
    assert data[at : at + size] == record.properties


@settings(deadline=None, max_examples=50)
@given(st.data(), logs(min_records=1))
def test_properties_of_a_damaged_log(data: st.DataObject, log: LogBuilder) -> None:
    """In place of records there may be anything: both kinds say the same, and stay within the buffer."""
    damaged = data.draw(damages(log))
    places = np.array([placed.offset for placed in log.placed] + [-1, len(damaged), len(damaged) - 50], dtype=np.int64)

    def call(kernels: FilterKernels) -> tuple[Any, ...]:
        at, size = np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int32)
        kernels.locate_properties(as_buffer(damaged), places, at, size)
        return at, size

    at, size = both(call)
    assert all(begin >= 0 and begin + max(length, 0) <= len(damaged) for begin, length in zip(at, size, strict=True))
