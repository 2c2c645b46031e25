"""The line kernel in plain Python: the specification of `reput.kernels.compiled.lines`."""

from __future__ import annotations

import base64
from json.encoder import encode_basestring

import numpy as np
from numpy.typing import NDArray

from reput.formats.log import properties
from reput.kernels.layouts.fields import SIZE_BELOW, FieldRow
from reput.kernels.layouts.lines import MOST_PAIRS, PIECE_BYTES, SHARED_PIECES, LinePiece, LineProgram, Stopped

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]


class _LeftError(Exception):
    """The record is left to slower code."""


def write_lines(buffer: Bytes, columns: Int64s, begin: int, lines: LineProgram, out: Bytes) -> tuple[int, int, int]:
    """Write the lines of the records from column `begin` on into `out`.

    Returns the record at which it stopped, the bytes written, and why (`Stopped`). A record is left to slower code if a
    stretch does not lie in the buffer or is not UTF-8 although it must be, if a text's number is out of range, or if
    there are more than MOST_PAIRS properties to write.
    """
    program, texts, text_at = lines
    used, steps = 0, program.tolist()
    for n in range(begin, columns.shape[1]):
        row = columns[:, n].tolist()
        try:
            if used + sum(_most_bytes(buffer, row, step, text_at) for step in steps) > len(out):
                return n, used, Stopped.FULL
            line = b"".join(_piece(buffer, row, step, texts, text_at) for step in steps)
        except (_LeftError, UnicodeDecodeError):
            return n, used, Stopped.LEFT
        out[used : used + len(line)] = np.frombuffer(line, dtype=np.uint8)
        used += len(line)
    return columns.shape[1], used, Stopped.DONE


def _most_bytes(buffer: Bytes, row: list[int], step: list[int], text_at: Int64s) -> int:
    """Return the most bytes that a piece of a line may take."""
    piece, first, second = step
    if piece in (LinePiece.TEXT, LinePiece.TEXT_OF):
        number = second if piece == LinePiece.TEXT else row[first]
        if not 0 <= number < len(text_at) - 1:
            raise _LeftError
        return PIECE_BYTES + int(text_at[number + 1] - text_at[number])
    if piece in SHARED_PIECES:
        return PIECE_BYTES
    places = (FieldRow.UNIQUE_KEY_AT, FieldRow.KEYS_AT) if piece == LinePiece.KEYS_CELL else (first,)
    for place in places:
        if row[place + SIZE_BELOW] > 0 and not 0 <= row[place] <= len(buffer) - row[place + SIZE_BELOW]:
            raise _LeftError
    return PIECE_BYTES + 8 * sum(max(0, row[place + SIZE_BELOW]) for place in places)


def _piece(buffer: Bytes, row: list[int], step: list[int], texts: Bytes, text_at: Int64s) -> bytes:
    piece, first, second = step
    if piece in (LinePiece.TEXT, LinePiece.TEXT_OF):
        number = second if piece == LinePiece.TEXT else row[first]
        return texts[text_at[number] : text_at[number + 1]].tobytes()
    if piece == LinePiece.NUMBER:
        return b"%d" % row[first]
    if piece == LinePiece.MILLISECONDS:
        return b"%03d" % row[first] if row[first] >= 0 else b""
    if piece == LinePiece.HEX_NUMBER:
        return b"%016X" % (row[first] & (1 << 64) - 1)
    if piece == LinePiece.KEYS_CELL:
        found = [_stretch(buffer, row, place) for place in (FieldRow.UNIQUE_KEY_AT, FieldRow.KEYS_AT)]
        return _cell(b" ".join(part for part in found if part is not None) or b"-")
    data = _stretch(buffer, row, first)
    return _of_stretch(piece, data, second)


def _stretch(buffer: Bytes, row: list[int], place: int) -> bytes | None:
    at, size = row[place], row[place + SIZE_BELOW]
    return buffer[at : at + size].tobytes() if size > 0 else b"" if size == 0 else None


def _of_stretch(piece: int, data: bytes | None, second: int) -> bytes:
    if piece == LinePiece.CELL:
        return b"-" if data is None else _cell(data)
    if piece == LinePiece.STRING:
        return b"null" if data is None else _string(data)
    data = data or b""
    if piece == LinePiece.LENGTH:
        return b"%d" % len(data)
    if piece == LinePiece.BYTES:
        return data
    if piece == LinePiece.HEX:
        return data.hex().upper().encode()
    if piece == LinePiece.WORDS:
        data.decode()
        return b"[" + b", ".join(_string(word) for word in data.split(b" ") if word) + b"]"
    if piece in (LinePiece.PAIRS, LinePiece.MAP):
        return _properties(piece, data)
    return _body(piece, data, second)


def _properties(piece: int, data: bytes) -> bytes:
    pieces = [part.partition(properties.NAME_END) for part in data.split(properties.PROPERTY_END)]
    if sum(1 for name, _, value in pieces if name and value) > MOST_PAIRS:
        raise _LeftError
    named = properties.decode_properties(data)
    if piece == LinePiece.PAIRS:
        return b",".join(name + b"=" + value for name, value in named.items())
    data.decode()
    return b"{" + b", ".join(_string(name) + b": " + _string(value) for name, value in named.items()) + b"}"


def _body(piece: int, data: bytes, most: int) -> bytes:
    kept = data if most < 0 else data[:most]
    try:
        data.decode()
        kind, shown = b"text", kept.decode("utf-8", "ignore").encode()
    except UnicodeDecodeError:
        kind, shown = b"base64", base64.b64encode(kept)
    if piece == LinePiece.BODY_LINE:
        return shown.replace(b"\n", b"\\n") if kind == b"text" else kind + b":" + shown
    is_cut = len(kept) < len(data)
    if piece == LinePiece.BODY_CELL:
        return kind + b":" + _cell(shown) + (b"... (%d bytes)" % len(data) if is_cut else b"")
    return b'"body": %b, "body_encoding": "%b", "body_length": %d, "body_truncated": %b' % (
        _string(shown), kind, len(data), b"true" if is_cut else b"false",
    )  # fmt: skip


def _cell(data: bytes) -> bytes:
    data.decode()
    return data.replace(b"\n", b"\\n").replace(b"\t", b"\\t")


def _string(data: bytes) -> bytes:
    return encode_basestring(data.decode()).encode()
