"""The line kernel: what it writes of records, in both twins, and that it stays inside its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.kernels import line_kernels
from reput.kernels.layouts.fields import FieldRow
from reput.kernels.layouts.lines import MOST_PAIRS, ROWS, SHARED_PIECES, LinePiece, LineProgram, Stopped
from support.twins import as_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXTS = [b"", b"a text", "größer".encode()]
ROW = int(FieldRow.BODY_AT)
texts = st.text(st.sampled_from('ab"\\/\n\t\r\b\f\0\x1f \x7f\x80é订😀\u2028'), max_size=30).map(str.encode)
pairs = st.lists(st.sampled_from([b"a", b"b", b"a\x011", b"a\x012", b"b\x01\xff", b"\x01", b"", "ü\x01ö".encode()]))
stretches = st.one_of(texts, st.binary(max_size=30), pairs.map(b"\x02".join), st.lists(texts).map(b" ".join))
numbers = st.integers(-(1 << 63), (1 << 63) - 1)


def write(
    twin: str, program: list[tuple[int, int, int]], table: NDArray[np.int64], data: bytes, room: int = 1 << 16
) -> tuple[int, int, bytes]:
    """Write lines; returns the record and the reason where it stopped, and what was written."""
    ends = np.cumsum([0, *map(len, TEXTS)]).astype(np.int64)
    out = np.zeros(room, dtype=np.uint8)
    lines = LineProgram(np.array(program, dtype=np.int64).reshape(-1, 3), as_buffer(b"".join(TEXTS)), ends)
    n, used, why = line_kernels(twin).write_lines(as_buffer(data), table, 0, lines, out)
    return n, why, out[:used].tobytes()


def table_of(data: bytes, records: int = 1) -> NDArray[np.int64]:
    """Columns where every stretch is all of `data`."""
    table = np.zeros((ROWS, records), dtype=np.int64)
    table[[FieldRow.BODY_AT + 1, FieldRow.UNIQUE_KEY_AT + 1, FieldRow.KEYS_AT + 1]] = len(data)
    return table


@settings(max_examples=200, deadline=None)
@given(data=stretches, number=numbers, most=st.integers(-1, 12))
def test_twins_write_the_same(data: bytes, number: int, most: int) -> None:
    """For every piece, number and stretch both twins write the same, or both leave the record."""
    table = table_of(data)
    for piece in LinePiece:
        step = (int(piece), ROW, most if piece >= LinePiece.BODY else 1)
        if piece in SHARED_PIECES:
            table[ROW] = number
        expected = write("reference", [step], table, data)
        assert write("compiled", [step], table, data) == expected, piece
        table[ROW] = 0


@pytest.mark.parametrize("twin", ["reference", "compiled"])
def test_a_stretch_outside_the_buffer_is_left(twin: str) -> None:
    """A record with a stretch outside the buffer, or a number of no text, is left; lines before it stay."""
    program = [(LinePiece.BYTES, ROW, 0), (LinePiece.TEXT_OF, ROW + 3, 0)]
    for at, size, text in ((-1, 2, 0), (3, 2, 0), (1 << 62, 1 << 62, 0), (0, 5, 0), (0, 1, 3), (0, 1, -1)):
        table = table_of(b"abcd", 3)
        table[ROW + 3] = 1
        table[ROW, 1], table[ROW + 1, 1], table[ROW + 3, 1] = at, size, text
        assert write(twin, program, table, b"abcd") == (1, Stopped.LEFT, b"abcda text")


@pytest.mark.parametrize("twin", ["reference", "compiled"])
def test_missing_stretches(twin: str) -> None:
    """A stretch that is not there is null in JSON, a dash in a cell, and nothing elsewhere."""
    table = table_of(b"")
    table[[ROW + 1, FieldRow.UNIQUE_KEY_AT + 1, FieldRow.KEYS_AT + 1]] = -1
    pieces = (LinePiece.STRING, LinePiece.CELL, LinePiece.KEYS_CELL, LinePiece.WORDS, LinePiece.BYTES, LinePiece.LENGTH)
    assert write(twin, [(piece, ROW, 0) for piece in pieces], table, b"")[2] == b"null--[]0"


@pytest.mark.parametrize("twin", ["reference", "compiled"])
def test_full_output_stops_before_a_line(twin: str) -> None:
    """A line is not begun if its output may be too small for it."""
    table = table_of(b"abcd", 50)
    n, why, out = write(twin, [(LinePiece.BYTES, ROW, 0)], table, b"abcd", room=200)
    assert (why, out) == (Stopped.FULL, b"abcd" * n)
    assert 0 < n < 50


@pytest.mark.parametrize("twin", ["reference", "compiled"])
def test_many_properties_are_left(twin: str) -> None:
    """A record with more properties than it pays to compare is left to slower code."""
    data = b"".join(b"n%d\x01v\x02" % n for n in range(MOST_PAIRS + 1))
    for piece in (LinePiece.MAP, LinePiece.PAIRS):
        assert write(twin, [(piece, ROW, 0)], table_of(data), data) == (0, Stopped.LEFT, b"")
        fits = data[: data.rindex(b"n")]
        assert write(twin, [(piece, ROW, 0)], table_of(fits), fits)[:2] == (1, Stopped.DONE)
