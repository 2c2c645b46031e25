"""Texts inside a buffer, many at once: message properties found by name, compared, searched and read as numbers.

The twin of `reput.kernels.reference.filter`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.layout import INT64_MAX
from reput.formats.log import record as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    bits_of,
    byte_at,
    equal_64,
    load_be16,
    load_be32,
    load_le64,
    prefetch,
    separators_64,
    trailing_zeros,
)
from reput.kernels.layouts.filter import Code, Read

_SYS_FLAG_AT, _MAGIC_AT = fmt.SYS_FLAG_AT, fmt.MAGIC_AT
_BODY_AT, _BODY_LENGTH_SIZE, _V6_MORE = fmt.BODY_AT_V4, fmt.BODY_LENGTH_SIZE, fmt.V6_MORE
_TOPIC_LENGTH_V1, _TOPIC_LENGTH_V2 = fmt.TOPIC_LENGTH_V1.size, fmt.TOPIC_LENGTH_V2.size
_PROPERTIES_LENGTH = fmt.PROPERTIES_LENGTH.size
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_MAGIC_V2 = fmt.MAGIC_V2
_MIN_RECORD = fmt.MIN_RECORD_SIZE
_GOOD, _BAD, _ASK = int(Read.GOOD), int(Read.BAD), int(Read.ASK)
_FALSE, _TRUE, _NO_ANSWER, _LEFT = int(Code.FALSE), int(Code.TRUE), int(Code.NO_ANSWER), int(Code.LEFT)
_ONE = np.uint64(1)
_EIGHT_ZEROS, _SIXES, _THREES = (np.uint64(digit * 0x0101010101010101) for digit in (0x30, 0x06, 0x33))
_HIGH_HALVES, _LOW_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0F0F0F0F0F0F0F0F)
_EXACT_POWERS = np.array([10.0**n for n in range(23)])
_EXACT_MANTISSA = 1 << 53
_MOST_DIGITS = 18
_BODY_SIZE_AT = fmt.BEFORE_BODY_V4.offsets["body_length"]
_AHEAD = 12


@kernel
def _properties_of(start, position, end):
    """Return address and size of the properties of the record at a place of a buffer; size -1 if it is no record."""
    if position < 0 or position + _MIN_RECORD > end:
        return start, np.int64(-1)
    flags = load_be32(start + position + _SYS_FLAG_AT)
    more = (_V6_MORE if flags & _BORN_V6 else 0) + (_V6_MORE if flags & _STORE_V6 else 0)
    body = position + _BODY_AT + more
    if body > end:
        return start, np.int64(-1)
    length = load_be32(start + body - _BODY_LENGTH_SIZE)
    topic = body + length
    if length < 0 or topic + _TOPIC_LENGTH_V2 > end:
        return start, np.int64(-1)
    if load_be32(start + position + _MAGIC_AT) == _MAGIC_V2:
        name, after = load_be16(start + topic), topic + _TOPIC_LENGTH_V2
    else:
        name, after = np.int64(np.int8(byte_at(start + topic))), topic + _TOPIC_LENGTH_V1
    properties = after + name + _PROPERTIES_LENGTH
    if name < 0 or properties > end:
        return start, np.int64(-1)
    length = load_be16(start + after + name)
    if length < 0 or properties + length > end:
        return start, np.int64(-1)
    return start + properties, length


@kernel
def _first_bytes(at, size, limit):
    """Return the first eight bytes of a text as a little-endian number, with zeros after its end."""
    if at + 8 <= limit:
        word = load_le64(at)
        return word if size >= 8 else word & ((_ONE << np.uint64(8 * size)) - _ONE)
    word = np.uint64(0)
    for n in range(min(size, 8)):
        word |= np.uint64(byte_at(at + n)) << np.uint64(8 * n)
    return word


@kernel
def _is_name_at(at, names, begin, end):
    """Return True if a name, or the rest of one, is at an address, with 0x01 after it."""
    for n in range(end - begin):
        if byte_at(at + n) != names[begin + n]:
            return False
    return byte_at(at + end - begin) == NAME_VALUE_SEPARATOR


@kernel
def _piece_end(at, end):
    """Return the address of the next 0x02, or `end`; up to 64 bytes after `end` are read."""
    while at < end:
        stops = separators_64(at)
        if stops != 0:
            return min(at + trailing_zeros(stops), end)
        at += 64
    return end


@kernel
def _find_bytewise(n, start, piece, end, listed, found):
    """Find the values of one message, as `find_values` does, without a read after `end`."""
    names, name_ends = listed
    while piece < end:
        stop = piece
        while stop < end and byte_at(stop) != PROPERTY_SEPARATOR:
            stop += 1
        first = 0
        for k in range(len(name_ends)):
            last = name_ends[k]
            value = piece + last - first + 1
            if stop > value and _is_name_at(piece, names, first, last):
                found.at[k, n], found.size[k, n] = value - start, stop - value
                found.word[k, n] = _first_bytes(value, stop - value, end)
                break
            first = last
        piece = stop + 1


@kernel
def find_values(places, listed, found):
    """Find properties by name, and write the value of each name in each message to `found`; see the twin."""
    (buffer, at, size, in_records), (names, name_ends) = places, listed
    value_at, value_size, value_word = found
    start = address_of(buffer)
    limit = start + len(buffer)
    count = len(name_ends)
    # The first eight bytes of each name and its 0x01, as one word: it distinguishes most pieces.
    words, masks = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    first = 0
    for k in range(count):
        for n in range(min(name_ends[k] - first + 1, 8)):
            byte = names[first + n] if first + n < name_ends[k] else np.uint8(NAME_VALUE_SEPARATOR)
            words[k] |= np.uint64(byte) << np.uint64(8 * n)
            masks[k] |= np.uint64(0xFF) << np.uint64(8 * n)
        first = name_ends[k]
    value_at[:], value_size[:], value_word[:] = 0, -1, 0
    distance = np.int64(0)
    for n in range(len(at)):
        if in_records:
            # Records are read from memory: ask early for those to come, as if they were laid out as this one is.
            if n + _AHEAD < len(at):
                to_come = start + at[n + _AHEAD]
                prefetch(to_come + _SYS_FLAG_AT)
                prefetch(to_come + _BODY_SIZE_AT)
                prefetch(to_come + distance)
                prefetch(to_come + distance + 64)
            piece, length = _properties_of(start, at[n], len(buffer))
            distance = piece - start - at[n]
        else:
            piece, length = start + at[n], np.int64(size[n])
        end = piece + length
        if end + 64 > limit:
            _find_bytewise(n, start, piece, end, listed, found)
            continue
        block, carried = piece, _ONE
        while block < end:
            # A bit for each of 64 bytes: the ends of pieces, and the beginnings of the pieces after them.
            stops = separators_64(block)
            if end - block < 64:
                stops &= (_ONE << np.uint64(end - block)) - _ONE
            begins = stops << _ONE | carried
            carried = stops >> np.uint64(63)
            first = np.int64(0)
            for k in range(count):
                last = np.int64(name_ends[k])
                hits = begins & equal_64(block, words[k])
                while hits != 0:
                    bit = trailing_zeros(hits)
                    hits &= hits - _ONE
                    piece = block + bit
                    if (load_le64(piece) ^ words[k]) & masks[k] != 0:
                        continue
                    following = stops >> np.uint64(bit)
                    stop = piece + trailing_zeros(following) if following != 0 else _piece_end(block + 64, end)
                    value = piece + last - first + 1
                    # A name, 0x01 and at least one byte.
                    if stop > value and (last - first < 8 or _is_name_at(piece + 8, names, first + 8, last)):
                        value_at[k, n], value_size[k, n] = value - start, stop - value
                        word = load_le64(value)
                        if stop - value < 8:
                            word &= (_ONE << np.uint64(8 * (stop - value))) - _ONE
                        value_word[k, n] = word
                first = last
            block += 64


@kernel
def first_bytes(texts):
    """Write the first eight bytes of each text to `word`; see the twin."""
    buffer, at, size, word = texts
    start = address_of(buffer)
    for n in range(len(at)):
        word[n] = _first_bytes(start + at[n], max(np.int64(size[n]), 0), start + len(buffer))


@kernel
def _same(address, text, first, size):
    n = 0
    while n < size:
        if byte_at(address + n) != text[first + n]:
            return False
        n += 1
    return True


@kernel
def is_one_of(texts, wanted, negated, missing, codes):
    """Write to `codes` whether each text is one of those that are wanted, or with `negated` none; see the twin."""
    (buffer, at, size, word), (listed, ends) = texts, wanted
    start = address_of(buffer)
    hit, other = np.uint8(_FALSE if negated else _TRUE), np.uint8(_TRUE if negated else _FALSE)
    count = len(ends)
    words, first = np.zeros(count, dtype=np.uint64), 0
    for k in range(count):
        for n in range(min(ends[k] - first, 8)):
            words[k] |= np.uint64(listed[first + n]) << np.uint64(8 * n)
        first = ends[k]
    for n in range(len(at)):
        length = size[n]
        code = other if length >= 0 else np.uint8(missing)
        first = 0
        for k in range(count):
            if (
                length == ends[k] - first
                and word[n] == words[k]
                and (length <= 8 or _same(start + at[n] + 8, listed, first + 8, length - 8))
            ):
                code = hit
                break
            first = ends[k]
        codes[n] = code


@kernel
def is_same(one, other, found):
    """Write to `found` (bool) whether each text of the first column equals that of the second."""
    (first_buffer, first_at, first_size, _), (second_buffer, second_at, second_size, _) = one, other
    first, second = address_of(first_buffer), address_of(second_buffer)
    for n in range(len(first_at)):
        same = first_size[n] == second_size[n]
        k = 0
        while same and k < first_size[n]:
            same = byte_at(first + first_at[n] + k) == byte_at(second + second_at[n] + k)
            k += 1
        found[n] = same


@kernel
def holds_text(texts, wanted, at_start, at_end, found):
    """Write to `found` (bool) whether each text holds `wanted` (uint8): anywhere, or only at its start or end."""
    buffer, at, size, _ = texts
    start = address_of(buffer)
    length = len(wanted)
    for n in range(len(at)):
        last = size[n] - length
        first = last if at_end else 0
        if at_start:
            last = min(last, 0)
        hit = False
        k = first
        while k <= last and k >= 0 and not hit:
            hit = byte_at(start + at[n] + k) == wanted[0] and _same(start + at[n] + k, wanted, 0, length)
            k += 1
        found[n] = hit and size[n] >= length


@kernel
def has_wide(texts, found):
    """Write to `found` (bool) whether each text has a byte that is not ASCII."""
    buffer, at, size, _ = texts
    start = address_of(buffer)
    for n in range(len(at)):
        hit = False
        for k in range(max(size[n], 0)):
            hit |= byte_at(start + at[n] + k) > 0x7F
        found[n] = hit


@kernel
def _read_whole(here, end, low, high):
    """Read the text [here, end) as a whole number; return it and a `Read`."""
    negative = here < end and byte_at(here) == 0x2D
    if negative or (here < end and byte_at(here) == 0x2B):
        here += 1
    total, digits, outcome = np.int64(0), 0, _GOOD if here < end else _BAD
    while here < end:
        byte = byte_at(here)
        if byte > 0x7F:
            return np.int64(0), _ASK
        digit = byte - 0x30
        if digit < 0 or digit > 9:
            outcome = _BAD
        elif digits < _MOST_DIGITS:
            total = total * 10 + digit
        digits += 1 if digits > 0 or digit != 0 else 0
        here += 1
    if outcome == _GOOD and digits > _MOST_DIGITS:
        return np.int64(0), _ASK
    total = -total if negative else total
    return total, outcome if low <= total <= high else _BAD


@kernel
def _read_digits(word, size):
    """Read a text of one to eight digits as a number; return -1 if they are not all digits."""
    # As eight digits, with zeros in front; then pairs, fours and all eight are put together in one go each.
    shift = np.uint64(64 - 8 * size)
    digits = word << shift | _EIGHT_ZEROS & ((_ONE << shift) - _ONE)
    if digits & _HIGH_HALVES | ((digits + _SIXES) & _HIGH_HALVES) >> np.uint64(4) != _THREES:
        return np.int64(-1)
    digits = (digits & _LOW_HALVES) * np.uint64(10 * 2**8 + 1) >> np.uint64(8)
    digits = (digits & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1) >> np.uint64(16)
    digits = (digits & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 * 2**32 + 1) >> np.uint64(32)
    return np.int64(digits)


@kernel
def compare_whole(texts, test, codes):
    """Read texts as whole numbers, test them, and write a `Code` each to `codes`; see the twin."""
    (buffer, at, size, word), (key, holds, missing, low, high) = texts, test
    start = address_of(buffer)
    asked = 0
    for n in range(len(at)):
        length = np.int64(size[n])
        total, outcome = np.int64(-1), _GOOD
        if 0 < length <= 8:
            total = _read_digits(word[n], length)
        if total < 0 or total < low or total > high:
            total, outcome = _read_whole(start + at[n], start + at[n] + length, low, high)
        code = holds >> np.int64((total > key) - (total < key) + 1) & 1
        if outcome != _GOOD:
            code = _NO_ANSWER if outcome == _BAD else _LEFT
        code = code if length >= 0 else missing
        codes[n] = code
        asked += code == _LEFT
    return asked


@kernel
def join_codes(table, left, right, codes):
    """Put the codes of two parts together, as a table of 16 codes says: `table[left << 2 | right]`, to `codes`."""
    packed = np.uint32(0)
    for n in range(16):
        packed |= np.uint32(table[n]) << np.uint32(2 * n)
    for n in range(len(left)):
        codes[n] = packed >> (np.uint32(left[n]) << np.uint32(3) | np.uint32(right[n]) << np.uint32(1)) & np.uint32(3)


@kernel
def _read_double(here, end):
    """Read the text [here, end) as a double; return it and a `Read`."""
    while here < end and byte_at(here) <= 0x20:
        here += 1
    while here < end and byte_at(end - 1) <= 0x20:
        end -= 1
    negative = here < end and byte_at(here) == 0x2D
    if negative or (here < end and byte_at(here) == 0x2B):
        here += 1
    if here >= end:
        return 0.0, _BAD
    byte = byte_at(here)
    if (0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A) and byte != 0x4E and byte != 0x49:
        # A letter that begins neither NaN nor Infinity.
        return 0.0, _BAD
    mantissa, digits, scale, seen_point = 0, 0, 0, False
    while here < end:
        byte = byte_at(here)
        if 0x30 <= byte <= 0x39 and digits < _MOST_DIGITS:
            mantissa = mantissa * 10 + (byte - 0x30)
            digits += 1
            scale += 1 if seen_point else 0
        elif byte == 0x2E and not seen_point:
            seen_point = True
        else:
            return 0.0, _ASK
        here += 1
    if digits == 0 or mantissa > _EXACT_MANTISSA:
        return 0.0, _ASK
    result = np.float64(mantissa) / _EXACT_POWERS[scale]
    return -result if negative else result, _GOOD


@kernel
def read_double(texts, value, status):
    """Read texts as doubles, as Java's Double does: `value` float64, `status` uint8 a `Read`; see the twin."""
    buffer, at, size, _ = texts
    start = address_of(buffer)
    for n in range(len(at)):
        value[n], status[n] = _read_double(start + at[n], start + at[n] + size[n])


@kernel
def compare_double(texts, test, codes):
    """Read texts as doubles, test them, and write a `Code` each to `codes`; see the twin."""
    (buffer, at, size, _), (key, holds, missing, _, _) = texts, test
    start = address_of(buffer)
    asked = 0
    for n in range(len(at)):
        value, outcome = _read_double(start + at[n], start + at[n] + size[n])
        bits = bits_of(value)
        found = bits if bits >= 0 else bits ^ INT64_MAX
        code = holds >> np.int64((found > key) - (found < key) + 1) & 1
        if outcome != _GOOD:
            code = _NO_ANSWER if outcome == _BAD else _LEFT
        code = code if size[n] >= 0 else missing
        codes[n] = code
        asked += code == _LEFT
    return asked
