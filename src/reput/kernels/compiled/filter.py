"""Texts inside a buffer, many at once: message properties found by name, compared, searched and read as numbers."""

from __future__ import annotations

import numpy as np

from reput.formats import record as fmt
from reput.kernels.columns import Read
from reput.kernels.compiled.decode import next_separator
from reput.kernels.compiled.jit import kernel
from reput.kernels.compiled.memory import address_of, byte_at, load_be16, load_be32, load_le64

_SYS_FLAG_AT, _MAGIC_AT, _HEAD_SIZE = fmt.SYS_FLAG_AT, fmt.MAGIC_AT, fmt.HEAD_SIZE
_V4, _V6 = fmt.HOST_V4_SIZE, fmt.HOST_V6_SIZE
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_MAGIC_V2 = fmt.MAGIC_V2
_MIN_RECORD = fmt.MIN_RECORD_SIZE
# Behind the store host: reconsumeTimes and preparedTransactionOffset, then the body's length.
_TIME_SIZE, _TRIES_AND_PREPARED = 8, 12
_GOOD, _BAD, _ASK = int(Read.GOOD), int(Read.BAD), int(Read.ASK)
_EXACT_POWERS = np.array([10.0**n for n in range(23)])
_EXACT_MANTISSA = 1 << 53
_MOST_DIGITS = 18


@kernel
def locate_properties(buffer, record_at, at, size):
    """Where the properties of records stand: their begin to `at`, their length to `size`, -1 where it cannot be.

    `record_at` (int64): where the records begin in `buffer`.
    """
    start = address_of(buffer)
    end = len(buffer)
    for n in range(len(record_at)):
        at[n], size[n] = 0, -1
        position = record_at[n]
        if position < 0 or position + _MIN_RECORD > end:
            continue
        flags = load_be32(start + position + _SYS_FLAG_AT)
        hosts = (_V6 if flags & _BORN_V6 else _V4) + (_V6 if flags & _STORE_V6 else _V4)
        body = position + _HEAD_SIZE + hosts + _TIME_SIZE + _TRIES_AND_PREPARED
        if body + 4 > end:
            continue
        length = load_be32(start + body)
        topic = body + 4 + length
        if length < 0 or topic + 2 > end:
            continue
        if load_be32(start + position + _MAGIC_AT) == _MAGIC_V2:
            after = topic + 2 + load_be16(start + topic)
            if after < topic + 2:
                continue
        else:
            name = byte_at(start + topic)
            if name > 0x7F:
                continue
            after = topic + 1 + name
        if after + 2 > end:
            continue
        length = load_be16(start + after)
        if length < 0 or after + 2 + length > end:
            continue
        at[n], size[n] = after + 2, length


@kernel
def _is_name(piece, names, begin, end):
    for n in range(end - begin):
        if byte_at(piece + n) != names[begin + n]:
            return False
    return byte_at(piece + end - begin) == 0x01


@kernel
def find_values(buffer, at, size, names, name_ends, value_at, value_size):
    """Find properties by name: of message n the value of name k goes to `value_at[k, n]` and `value_size[k, n]`.

    `at`, `size`: where each message's properties stand in `buffer` (size -1: none). `names` (uint8) holds the names
    end to end, `name_ends` (int32) where each ends. A size of -1 says that a message has no such property.
    """
    start = address_of(buffer)
    limit = start + len(buffer)
    count = len(name_ends)
    # The first eight bytes of each name and its 0x01, as one word: most pieces are told apart by it.
    words, masks = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    first = 0
    for k in range(count):
        for n in range(min(name_ends[k] - first + 1, 8)):
            byte = names[first + n] if first + n < name_ends[k] else np.uint8(0x01)
            words[k] |= np.uint64(byte) << np.uint64(8 * n)
            masks[k] |= np.uint64(0xFF) << np.uint64(8 * n)
        first = name_ends[k]
    for n in range(len(at)):
        for k in range(count):
            value_at[k, n], value_size[k, n] = 0, -1
        piece = start + at[n]
        end = piece + max(size[n], 0)
        while piece < end:
            stop = next_separator(piece, end, limit)
            word = load_le64(piece) if piece + 8 <= limit else np.uint64(0)
            is_near_end = piece + 8 > limit
            first = 0
            for k in range(count):
                last = name_ends[k]
                if not is_near_end and (word ^ words[k]) & masks[k] != 0:
                    first = last
                    continue
                # A name, 0x01 and at least one byte.
                if stop - piece > last - first + 1 and _is_name(piece, names, first, last):
                    value_at[k, n] = piece + last - first + 1 - start
                    value_size[k, n] = stop - piece - (last - first) - 1
                    break
                first = last
            piece = stop + 1


@kernel
def _same(address, text, first, size):
    n = 0
    while n < size:
        if byte_at(address + n) != text[first + n]:
            return False
        n += 1
    return True


@kernel
def is_one_of(buffer, at, size, texts, ends, found):
    """Whether each text is one of `texts` (uint8, end to end; `ends` int32), to `found` (bool)."""
    start = address_of(buffer)
    for n in range(len(at)):
        found[n] = False
        first = 0
        for k in range(len(ends)):
            if size[n] == ends[k] - first and _same(start + at[n], texts, first, size[n]):
                found[n] = True
                break
            first = ends[k]


@kernel
def is_same(first_buffer, first_at, first_size, second_buffer, second_at, second_size, found):
    """Whether each text of the first column is that of the second, to `found` (bool)."""
    first, second = address_of(first_buffer), address_of(second_buffer)
    for n in range(len(first_at)):
        same = first_size[n] == second_size[n]
        k = 0
        while same and k < first_size[n]:
            same = byte_at(first + first_at[n] + k) == byte_at(second + second_at[n] + k)
            k += 1
        found[n] = same


@kernel
def holds_text(buffer, at, size, text, at_start, at_end, found):
    """Whether each text holds `text` (uint8), to `found` (bool): at its start or end alone where that is asked for."""
    start = address_of(buffer)
    length = len(text)
    for n in range(len(at)):
        last = size[n] - length
        first = last if at_end else 0
        if at_start:
            last = min(last, 0)
        hit = False
        k = first
        while k <= last and k >= 0 and not hit:
            hit = byte_at(start + at[n] + k) == text[0] and _same(start + at[n] + k, text, 0, length)
            k += 1
        found[n] = hit and size[n] >= length


@kernel
def has_wide(buffer, at, size, found):
    """Whether each text has a byte that is not ASCII, to `found` (bool)."""
    start = address_of(buffer)
    for n in range(len(at)):
        hit = False
        for k in range(max(size[n], 0)):
            hit |= byte_at(start + at[n] + k) > 0x7F
        found[n] = hit


@kernel
def read_whole(buffer, at, size, low, high, value, status):
    """Read texts as whole numbers in [low, high], as Java does: `value` int64, `status` uint8 a `Read`.

    A text with a byte that is not ASCII is left to the caller, since Java knows the digits of many scripts, and so is
    one of more than 18 digits.
    """
    start = address_of(buffer)
    for n in range(len(at)):
        value[n], status[n] = 0, _BAD
        here, end = start + at[n], start + at[n] + size[n]
        if size[n] <= 0:
            continue
        negative = byte_at(here) == 0x2D
        if negative or byte_at(here) == 0x2B:
            here += 1
        if here == end:
            continue
        total, digits, outcome = np.int64(0), 0, _GOOD
        while here < end:
            byte = byte_at(here)
            if byte > 0x7F:
                outcome = _ASK
                break
            digit = byte - 0x30
            if digit < 0 or digit > 9:
                outcome = _BAD
            elif digits < _MOST_DIGITS:
                total = total * 10 + digit
            digits += 1 if digits > 0 or digit != 0 else 0
            here += 1
        if outcome == _GOOD and digits > _MOST_DIGITS:
            outcome = _ASK
        if outcome == _GOOD:
            total = -total if negative else total
            if low <= total <= high:
                value[n] = total
            else:
                outcome = _BAD
        status[n] = outcome


@kernel
def read_double(buffer, at, size, value, status):
    """Read texts as doubles, as Java's Double does: `value` float64, `status` uint8 a `Read`.

    Short decimal numbers are read here, exactly; a text that begins as no number does is bad, and all others are left
    to the caller.
    """
    start = address_of(buffer)
    for n in range(len(at)):
        value[n], status[n] = 0.0, _BAD
        here, end = start + at[n], start + at[n] + size[n]
        while here < end and byte_at(here) <= 0x20:
            here += 1
        while here < end and byte_at(end - 1) <= 0x20:
            end -= 1
        if here >= end:
            continue
        negative = byte_at(here) == 0x2D
        if negative or byte_at(here) == 0x2B:
            here += 1
        if here == end:
            continue
        byte = byte_at(here)
        if (0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A) and byte != 0x4E and byte != 0x49:
            # A letter that begins neither NaN nor Infinity.
            continue
        status[n] = _ASK
        mantissa, digits, scale, seen_point, odd = 0, 0, 0, False, False
        while here < end and not odd:
            byte = byte_at(here)
            if 0x30 <= byte <= 0x39 and digits < 18:
                mantissa = mantissa * 10 + (byte - 0x30)
                digits += 1
                scale += 1 if seen_point else 0
            elif byte == 0x2E and not seen_point:
                seen_point = True
            else:
                odd = True
            here += 1
        if not odd and digits > 0 and mantissa <= _EXACT_MANTISSA:
            result = np.float64(mantissa) / _EXACT_POWERS[scale]
            value[n] = -result if negative else result
            status[n] = _GOOD
