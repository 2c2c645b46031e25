"""Write lines of records, byte by byte; the twin of `reput.kernels.reference.lines`.

The helpers write at the address `out` and return the address after the bytes written. `write_lines` has checked the
space before.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log.properties import NAME_VALUE_SEPARATOR
from reput.kernels.compiled.fields import _next_byte, _piece_end, _repeats
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at, copy_bytes, load_le64, store_8
from reput.kernels.layouts.fields import SIZE_BELOW, FieldRow
from reput.kernels.layouts.lines import MOST_PAIRS, PIECE_BYTES, LinePiece, Stopped

_TEXT, _TEXT_OF, _NUMBER, _MS = (
    int(LinePiece.TEXT),
    int(LinePiece.TEXT_OF),
    int(LinePiece.NUMBER),
    int(LinePiece.MILLISECONDS),
)
_LENGTH, _BYTES, _HEX, _HEX_NUMBER = (
    int(LinePiece.LENGTH),
    int(LinePiece.BYTES),
    int(LinePiece.HEX),
    int(LinePiece.HEX_NUMBER),
)
_PAIRS, _CELL, _KEYS_CELL, _STRING = (
    int(LinePiece.PAIRS),
    int(LinePiece.CELL),
    int(LinePiece.KEYS_CELL),
    int(LinePiece.STRING),
)
_WORDS, _MAP, _BODY = int(LinePiece.WORDS), int(LinePiece.MAP), int(LinePiece.BODY)
_BODY_CELL, _BODY_LINE = int(LinePiece.BODY_CELL), int(LinePiece.BODY_LINE)
_UNIQUE, _KEYS = int(FieldRow.UNIQUE_KEY_AT), int(FieldRow.KEYS_AT)
_DONE, _FULL, _LEFT = int(Stopped.DONE), int(Stopped.FULL), int(Stopped.LEFT)

_ASCII = np.uint64(0x8080808080808080)
_NO_BITS = np.uint64(0)
_QUOTE, _BACKSLASH, _NEWLINE, _TAB, _SPACE, _COMMA = 0x22, 0x5C, 0x0A, 0x09, 0x20, 0x2C
_N, _T, _ZERO, _MINUS = 0x6E, 0x74, 0x30, 0x2D

# Constants of the lines, one after the other; each has its place and its size.
_WORD_TEXTS = (
    b"null", b'"body": ', b', "body_encoding": "text", "body_length": ',
    b', "body_encoding": "base64", "body_length": ', b', "body_truncated": true', b', "body_truncated": false',
    b"text:", b"base64:", b"... (", b" bytes)",
)  # fmt: skip
_CONSTANTS = np.frombuffer(b"".join(_WORD_TEXTS), dtype=np.uint8).copy()
_CONSTANT_ENDS = tuple(sum(map(len, _WORD_TEXTS[: n + 1])) for n in range(len(_WORD_TEXTS)))
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8).copy()
_NULL, _BODY_IS, _IS_TEXT, _IS_BASE64, _IS_CUT, _IS_WHOLE, _TEXT_MARK, _BASE64_MARK, _CUT_AT, _CUT_END = range(10)


@kernel
def _is_utf8(at, end):
    """Return True if the bytes are UTF-8, as Python's decoder judges."""
    while at < end:
        if at + 8 <= end and load_le64(at) & _ASCII == _NO_BITS:
            at += 8
            continue
        first = byte_at(at)
        if first < 0x80:
            at += 1
            continue
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if first < 0xC2 or first > 0xF4 or at + more >= end:
            return False
        second = byte_at(at + 1)
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for n in range(2, more + 1):
            if byte_at(at + n) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@kernel
def _put_constant(out, number):
    begin = _CONSTANT_ENDS[number - 1] if number else 0
    end = _CONSTANT_ENDS[number]
    for n in range(begin, end):
        store_8(out, _CONSTANTS[n])
        out += 1
    return out


@kernel
def _put_number(out, value):
    if value < 0:
        store_8(out, _MINUS)
        out += 1
    left = np.uint64(-value) if value < 0 else np.uint64(value)
    ten, digits, high = np.uint64(10), 1, left
    while high >= ten:
        high //= ten
        digits += 1
    for n in range(digits - 1, -1, -1):
        store_8(out + n, _ZERO + np.int64(left % ten))
        left //= ten
    return out + digits


@kernel
def _put_milliseconds(out, value):
    if value < 0:
        return out
    if value > 999:
        return _put_number(out, value)
    store_8(out, _ZERO + value // 100)
    store_8(out + 1, _ZERO + value // 10 % 10)
    store_8(out + 2, _ZERO + value % 10)
    return out + 3


@kernel
def _put_digit(out, digit):
    """Write an upper-case hex digit."""
    store_8(out, _ZERO + digit if digit < 10 else 0x37 + digit)
    return out + 1


@kernel
def _put_hex(out, at, end):
    while at < end:
        byte = byte_at(at)
        out = _put_digit(_put_digit(out, byte >> 4), byte & 15)
        at += 1
    return out


@kernel
def _put_hex_number(out, value):
    for shift in range(60, -4, -4):
        out = _put_digit(out, value >> shift & 15)
    return out


@kernel
def _put_bytes(out, at, end):
    if end > at:
        copy_bytes(out, at, end - at)
        out += end - at
    return out


@kernel
def _put_cell(out, at, end, tabs):
    r"""Write text with newlines, and with `tabs` tabs, as `\n` and `\t`."""
    while at < end:
        byte = byte_at(at)
        if byte == _NEWLINE or (tabs and byte == _TAB):
            store_8(out, _BACKSLASH)
            store_8(out + 1, _N if byte == _NEWLINE else _T)
            out += 2
        else:
            store_8(out, byte)
            out += 1
        at += 1
    return out


@kernel
def _put_escape(out, byte):
    """Write a character that JSON must escape."""
    store_8(out, _BACKSLASH)
    short = 0
    if byte in (_QUOTE, _BACKSLASH):
        short = byte
    elif byte == _NEWLINE:
        short = _N
    elif byte == _TAB:
        short = _T
    elif byte == 0x0D:
        short = 0x72
    elif byte == 0x08:
        short = 0x62
    elif byte == 0x0C:
        short = 0x66
    if short:
        store_8(out + 1, short)
        return out + 2
    store_8(out + 1, 0x75)
    store_8(out + 2, _ZERO)
    store_8(out + 3, _ZERO)
    store_8(out + 4, _ZERO + (byte >> 4))
    digit = byte & 15
    store_8(out + 5, _ZERO + digit if digit < 10 else 0x57 + digit)
    return out + 6


@kernel
def _put_string(out, at, end):
    """Write text as a JSON string."""
    store_8(out, _QUOTE)
    out += 1
    while at < end:
        byte = byte_at(at)
        if byte < _SPACE or byte in (_QUOTE, _BACKSLASH):
            out = _put_escape(out, byte)
        else:
            store_8(out, byte)
            out += 1
        at += 1
    store_8(out, _QUOTE)
    return out + 1


@kernel
def _put_base64(out, at, end):
    while at < end:
        left = end - at
        word = byte_at(at) << 16
        if left > 1:
            word |= byte_at(at + 1) << 8
        if left > 2:
            word |= byte_at(at + 2)
        store_8(out, _BASE64[word >> 18])
        store_8(out + 1, _BASE64[word >> 12 & 63])
        store_8(out + 2, _BASE64[word >> 6 & 63] if left > 1 else np.uint8(0x3D))
        store_8(out + 3, _BASE64[word & 63] if left > 2 else np.uint8(0x3D))
        out += 4
        at += 3
    return out


@kernel
def _put_words(out, at, end):
    """Write the words between spaces as a JSON array of strings; return 0 if they are not UTF-8."""
    if not _is_utf8(at, end):
        return 0
    store_8(out, 0x5B)
    out += 1
    is_first = True
    while at < end:
        stop = _next_byte(at, end, _SPACE)
        if stop > at:
            if not is_first:
                store_8(out, _COMMA)
                store_8(out + 1, _SPACE)
                out += 2
            out = _put_string(out, at, stop)
            is_first = False
        at = stop + 1
    store_8(out, 0x5D)
    return out + 1


@kernel
def _last_value(piece, name_size, value, stop, end):
    """Return begin and end of the value that counts for a property's name: that of the last property of the name."""
    at = stop + 1
    while at < end:
        next_stop = _piece_end(at, end)
        if _repeats(piece, name_size, at, next_stop):
            value, stop = at + name_size + 1, next_stop
        at = next_stop + 1
    return value, stop


@kernel
def _put_pair(out, piece, name_end, value, value_end, as_json):
    if as_json:
        out = _put_string(out, piece, name_end)
        store_8(out, 0x3A)
        store_8(out + 1, _SPACE)
        return _put_string(out + 2, value, value_end)
    out = _put_bytes(out, piece, name_end)
    store_8(out, 0x3D)
    return _put_bytes(out + 1, value, value_end)


@kernel
def _put_properties(out, begin, end, as_json):
    """Write the properties, each name once, at its first place; return 0 if slower code must write them."""
    if as_json and not _is_utf8(begin, end):
        return 0
    if as_json:
        store_8(out, 0x7B)
        out += 1
    piece, found, is_first = begin, 0, True
    while piece < end:
        stop = _piece_end(piece, end)
        name_end = _next_byte(piece, stop, NAME_VALUE_SEPARATOR)
        name_size = name_end - piece
        if name_size > 0 and name_end + 1 < stop:
            found += 1
            if found > MOST_PAIRS:
                return 0
            if not _repeats(piece, name_size, begin, piece):
                if not is_first:
                    store_8(out, _COMMA)
                    out += 1
                    if as_json:
                        store_8(out, _SPACE)
                        out += 1
                value, value_end = _last_value(piece, name_size, name_end + 1, stop, end)
                out = _put_pair(out, piece, name_end, value, value_end, as_json)
                is_first = False
        piece = stop + 1
    if as_json:
        store_8(out, 0x7D)
        out += 1
    return out


@kernel
def _put_body(out, at, end, piece, most):
    """Write the body as text or base64, in one of three forms."""
    is_text = _is_utf8(at, end)
    kept = end if most < 0 or end - at <= most else at + most
    if is_text and kept < end:
        # The cut is not inside a character.
        while kept > at and byte_at(kept) & 0xC0 == 0x80:
            kept -= 1
    is_cut = most >= 0 and end - at > most
    if piece == _BODY:
        out = _put_constant(out, _BODY_IS)
        if is_text:
            out = _put_constant(_put_string(out, at, kept), _IS_TEXT)
        else:
            store_8(out, _QUOTE)
            out = _put_base64(out + 1, at, kept)
            store_8(out, _QUOTE)
            out = _put_constant(out + 1, _IS_BASE64)
        out = _put_number(out, end - at)
        return _put_constant(out, _IS_CUT if is_cut else _IS_WHOLE)
    if not is_text:
        out = _put_base64(_put_constant(out, _BASE64_MARK), at, kept)
    elif piece == _BODY_LINE:
        return _put_cell(out, at, kept, False)
    else:
        out = _put_cell(_put_constant(out, _TEXT_MARK), at, kept, True)
    if is_cut and piece == _BODY_CELL:
        out = _put_constant(_put_number(_put_constant(out, _CUT_AT), end - at), _CUT_END)
    return out


@kernel
def _put_keys(out, data, columns, n):
    """Write the cell of the unique key and the keys; return 0 if they are not UTF-8."""
    is_first = True
    for row in (_UNIQUE, _KEYS):
        if columns[row + SIZE_BELOW, n] >= 0:
            at = data + columns[row, n]
            end = at + columns[row + SIZE_BELOW, n]
            if not _is_utf8(at, end):
                return 0
            if not is_first:
                store_8(out, _SPACE)
                out += 1
            out = _put_cell(out, at, end, True)
            is_first = False
    if is_first:
        store_8(out, _MINUS)
        out += 1
    return out


@kernel
def _put_stretch(out, piece, at, size, most):
    """Write a piece made of a stretch at an address; return 0 if slower code must write the record."""
    end = at + size if size > 0 else at
    if piece in (_CELL, _STRING):
        if size < 0:
            if piece == _STRING:
                return _put_constant(out, _NULL)
            store_8(out, _MINUS)
            return out + 1
        if not _is_utf8(at, end):
            return 0
        return _put_string(out, at, end) if piece == _STRING else _put_cell(out, at, end, True)
    if piece == _LENGTH:
        return _put_number(out, end - at)
    if piece == _BYTES:
        return _put_bytes(out, at, end)
    if piece == _HEX:
        return _put_hex(out, at, end)
    if piece == _WORDS:
        return _put_words(out, at, end)
    if piece in (_PAIRS, _MAP):
        return _put_properties(out, at, end, piece == _MAP)
    return _put_body(out, at, end, piece, most)


@kernel
def _most_of_stretch(columns, row, n, size):
    """Return eight times the bytes of a stretch; -1 if it does not lie in the buffer."""
    length = columns[row + SIZE_BELOW, n]
    if length <= 0:
        return 0
    at = columns[row, n]
    return 8 * length if at >= 0 and length <= size and at <= size - length else -1


@kernel
def _most_bytes(buffer, columns, n, program, text_at):
    """Return the most bytes that the line of a record may take; -1 if the record is left to slower code."""
    most = PIECE_BYTES * len(program)
    for step in range(len(program)):
        piece, row = program[step, 0], program[step, 1]
        if piece in (_TEXT, _TEXT_OF):
            number = program[step, 2] if piece == _TEXT else columns[row, n]
            if number < 0 or number >= len(text_at) - 1:
                return -1
            most += text_at[number + 1] - text_at[number]
        elif piece == _KEYS_CELL:
            unique, keys = (
                _most_of_stretch(columns, _UNIQUE, n, len(buffer)),
                _most_of_stretch(columns, _KEYS, n, len(buffer)),
            )
            if unique < 0 or keys < 0:
                return -1
            most += unique + keys
        elif piece != _NUMBER and piece != _MS and piece != _HEX_NUMBER:
            stretch = _most_of_stretch(columns, row, n, len(buffer))
            if stretch < 0:
                return -1
            most += stretch
    return most


@kernel
def write_lines(buffer, columns, begin, lines, out):
    """Write the lines of records; see the reference."""
    program, texts, text_at = lines
    data, text, start = address_of(buffer), address_of(texts), address_of(out)
    limit = start + len(out)
    done = start
    for n in range(begin, columns.shape[1]):
        most = _most_bytes(buffer, columns, n, program, text_at)
        if most < 0:
            return n, done - start, _LEFT
        if done + most > limit:
            return n, done - start, _FULL
        put = done
        for step in range(len(program)):
            piece, row = program[step, 0], program[step, 1]
            if piece in (_TEXT, _TEXT_OF):
                number = program[step, 2] if piece == _TEXT else columns[row, n]
                put = _put_bytes(put, text + text_at[number], text + text_at[number + 1])
            elif piece == _NUMBER:
                put = _put_number(put, columns[row, n])
            elif piece == _MS:
                put = _put_milliseconds(put, columns[row, n])
            elif piece == _HEX_NUMBER:
                put = _put_hex_number(put, columns[row, n])
            elif piece == _KEYS_CELL:
                put = _put_keys(put, data, columns, n)
            else:
                size = columns[row + SIZE_BELOW, n]
                put = _put_stretch(put, piece, data + columns[row, n], size, program[step, 2])
            if put == 0:
                return n, done - start, _LEFT
        done = put
    return columns.shape[1], done - start, _DONE
