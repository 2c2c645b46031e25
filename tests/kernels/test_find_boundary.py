"""find_boundary: the place of the first record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log.record import (
    CHECK_BODY,
    CHECK_NONE,
    CHECK_PROPERTY,
    MIN_RECORD_SIZE,
    Verdict,
    encode_record,
    examine,
)
from reput.kernels.reference import examine as reference
from support import golden
from support.records import LogBuilder, damages, logs
from support.twins import TWINS, Call, boundary

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.parametrize("twin", TWINS)


def small_log() -> LogBuilder:
    """Three records with garbage before the second."""
    log = LogBuilder(4096, start=8192)
    log.message("orders", body=b"one")
    log.garbage(b"\xda\xa3\x20\xa7 garbage \xda\xa3\x20")
    log.message("orders", body=b"two")
    log.message("orders", body=b"three")
    return log


def test_what_lies_behind_the_end_is_not_gone_over(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file is mostly zeros after its end: `info` of one message read a gigabyte of them."""
    asked: list[int] = []
    pattern = reference._MAGIC

    class Magic:
        """The pattern, noting how far it is to look."""

        def finditer(self, data: memoryview, begin: int, end: int) -> Iterator[re.Match[bytes]]:
            asked.append(end)
            return pattern.finditer(data, begin, end)

    monkeypatch.setattr(reference, "_MAGIC", Magic())
    log = small_log()
    last = log.placed[-1].offset - log.start
    data = bytes(log) + bytes(1 << 16)
    # The last record's magic lies just where the look may end, or one byte too far.
    for end, found in ((last + 1, last), (last, -1)):
        assert boundary(twin, data, Call(log.start, last - 3, end, crc_check=CHECK_BODY)) == found
    assert all(place <= last + 8 for place in asked)


def test_finds_the_next_record(twin: str) -> None:
    """From any place the next record is found, from after the last one none."""
    log = small_log()
    data = bytes(log)
    starts = [placed.offset - log.start for placed in log.placed]
    for begin in range(len(data) + 2):
        expected = next((start for start in starts if start >= begin), -1)
        assert boundary(twin, data, Call(base=log.start, begin=begin)) == expected


def test_looks_only_in_the_range(twin: str) -> None:
    """A record that starts at `end` is not found, one that starts before `end` and ends after it is."""
    log = small_log()
    data = bytes(log)
    second = log.placed[1].offset - log.start

    assert boundary(twin, data, Call(base=log.start, begin=1, end=second)) == -1
    assert boundary(twin, data, Call(base=log.start, begin=1, end=second + 1)) == second


def test_a_record_past_the_limit_is_none(twin: str) -> None:
    """A record that the file's end cuts short is no record."""
    log = LogBuilder(4096)
    size = log.message("orders").size
    data = bytes(log)

    assert boundary(twin, data, Call(limit=size)) == 0
    assert boundary(twin, data, Call(limit=size - 1)) == -1
    assert boundary(twin, data, Call(limit=MIN_RECORD_SIZE - 1)) == -1
    assert boundary(twin, b"", Call()) == -1


def test_a_record_of_another_place_is_none(twin: str) -> None:
    """A record is found only at the offset that it names: old bytes and bodies do not pass."""
    log = LogBuilder(4096)
    log.message("orders", body=encode_record(log.message("orders").record))
    data = bytes(log)

    assert boundary(twin, data, Call(begin=1)) == log.placed[1].offset
    assert boundary(twin, data, Call(begin=log.placed[1].offset + 1)) == -1
    assert boundary(twin, data, Call(base=1)) == -1


def test_an_imitation_in_a_body_is_found_from_inside(twin: str) -> None:
    """A body that holds a record of its very place looks like a boundary from inside; stitching must notice."""
    log = LogBuilder(4096)
    message, offset = log.imitation("orders", before=b"xyz")
    data = bytes(log)

    assert boundary(twin, data, Call()) == message.offset
    assert boundary(twin, data, Call(begin=1)) == offset


@pytest.mark.parametrize("zeros", [0, 1, 3, 7, 8, 9, 15, 16, 17, 100])
@pytest.mark.parametrize("begin", range(9))
def test_zeros_are_stepped_over_exactly(twin: str, zeros: int, begin: int) -> None:
    """A record is found after any number of zeros."""
    log = LogBuilder(4096)
    log.garbage(bytes(zeros))
    start = log.message("orders").offset

    assert boundary(twin, bytes(log), Call(begin=begin)) == (start if begin <= start else -1)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 11, 12, 13, 90, 91, 92, 500])
def test_nothing_but_zeros(twin: str, size: int) -> None:
    """Zeros hold no record."""
    assert boundary(twin, bytes(size), Call()) == -1
    assert boundary(twin, bytes(size), Call(end=size // 2)) == -1


@pytest.mark.parametrize("crc_check", [CHECK_NONE, CHECK_BODY, CHECK_PROPERTY])
def test_the_check_decides_what_is_a_record(twin: str, crc_check: int) -> None:
    """With a check a record with another body is no record."""
    log = LogBuilder(4096, append_crc=True)
    log.message("orders", body=b"one")
    data = bytearray(bytes(log))
    assert boundary(twin, bytes(data), Call(crc_check=crc_check)) == 0
    data[88] ^= 1

    assert boundary(twin, bytes(data), Call(crc_check=crc_check)) == (-1 if crc_check else 0)


@settings(max_examples=60, deadline=None)
@given(st.data(), logs(max_records=5))
def test_equals_examining_every_place(twin: str, data: st.DataObject, log: LogBuilder) -> None:
    """On damaged logs it finds what examining place after place finds, in any range and to any limit."""
    damaged = data.draw(damages(log))[:3000]
    begin = data.draw(st.integers(0, len(damaged)))
    end = data.draw(st.integers(begin, len(damaged)))
    limit = data.draw(st.sampled_from((len(damaged), end, data.draw(st.integers(0, len(damaged))))))
    crc_check = data.draw(st.sampled_from((CHECK_NONE, CHECK_BODY, CHECK_PROPERTY)))
    expected = next(
        (
            position
            for position in range(begin, end)
            if examine(damaged, position, limit, log.start + position, crc_check)[0] is Verdict.GOOD
        ),
        -1,
    )

    assert boundary(twin, damaged, Call(log.start, begin, end, limit, crc_check)) == expected


@pytest.mark.golden
@pytest.mark.parametrize("store", golden.STORES)
def test_golden_logs(twin: str, store: str) -> None:
    """In logs that RocketMQ wrote each record is found from the byte after the start of the one before."""
    for start, data in golden.log_files(golden.shared(store)):
        position = boundary(twin, data, Call(base=start))
        while position >= 0:
            _, size = examine(data, position, len(data), start + position)
            found = boundary(twin, data, Call(base=start, begin=position + 1))
            assert found in (position + size, -1)
            position = found
