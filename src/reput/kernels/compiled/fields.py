"""Find the fields of records, and gather bytes into Arrow's buffers; the twin of `reput.kernels.reference.fields`."""

from __future__ import annotations

import numpy as np

from reput.formats.log import record as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.decode import find_properties
from reput.kernels.compiled.examine import GOOD, PROPERTIES_LENGTH_SIZE, examine_parts
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    byte_at,
    copy_bytes,
    load_be32,
    load_be64,
    separators_32,
    store_8,
    trailing_zeros,
)
from reput.kernels.layouts.fields import COUNT_PAIRS, FIND_PROPERTIES, SIZE_BELOW, FieldRow

_BODY_CRC_AT, _QUEUE_ID_AT = fmt.HEAD.offsets["body_crc"], fmt.HEAD.offsets["queue_id"]
_FLAG_AT, _QUEUE_OFFSET_AT = fmt.HEAD.offsets["flag"], fmt.HEAD.offsets["queue_offset"]
_BORN_AT = fmt.HEAD.offsets["born_timestamp"]
_BORN_HOST_AT, _STORED_AT, _STORE_HOST_AT, _TRIES_AT, _PREPARED_AT, _BODY_LENGTH_AT = (
    fmt.BEFORE_BODY_V4.offsets[name]
    for name in (
        "born_host",
        "store_timestamp",
        "store_host",
        "reconsume_times",
        "prepared_transaction_offset",
        "body_length",
    )
)
_PLACE_SIZE = fmt.HEAD.sizes["physical_offset"]
_V4, _V6_MORE = fmt.HOST_V4_SIZE, fmt.V6_MORE
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6

_QUEUE_ID, _FLAG, _QUEUE_OFFSET = int(FieldRow.QUEUE_ID), int(FieldRow.FLAG), int(FieldRow.QUEUE_OFFSET)
_SYS_FLAG, _BORN, _STORED = int(FieldRow.SYS_FLAG), int(FieldRow.BORN_TIMESTAMP), int(FieldRow.STORE_TIMESTAMP)
_BODY_CRC, _TRIES, _PREPARED = int(FieldRow.BODY_CRC), int(FieldRow.RECONSUME_TIMES), int(FieldRow.PREPARED_OFFSET)
_BODY_F, _TOPIC_F, _PROPERTIES_F = int(FieldRow.BODY_AT), int(FieldRow.TOPIC_AT), int(FieldRow.PROPERTIES_AT)
_BORN_HOST_F, _STORE_HOST_F = int(FieldRow.BORN_HOST_AT), int(FieldRow.STORE_HOST_AT)
_KEYS_F, _TAGS_F, _UNIQUE_F = int(FieldRow.KEYS_AT), int(FieldRow.TAGS_AT), int(FieldRow.UNIQUE_KEY_AT)
_PAIRS, _NAMES, _VALUES = int(FieldRow.PAIRS), int(FieldRow.NAMES_SIZE), int(FieldRow.VALUES_SIZE)


@kernel
def _next_byte(at, end, wanted):
    """Return the address of the next byte with this value, or `end`."""
    while at < end and byte_at(at) != wanted:
        at += 1
    return at


@kernel
def _piece_end(at, end):
    """Return the address of the next 0x02, or `end`; nothing after `end` is read."""
    while at + 32 <= end:
        found = separators_32(at)
        if found:
            return at + trailing_zeros(found)
        at += 32
    return _next_byte(at, end, PROPERTY_SEPARATOR)


@kernel
def _put(table, row, n, data, begin, end):
    """Enter a stretch of bytes: its place in the buffer and its size, -1 for none."""
    table[row, n] = begin - data if end > begin else 0
    table[row + SIZE_BELOW, n] = end - begin if end > begin else -1


@kernel
def _count_pairs(table, n, begin, end):
    pairs, names, values = 0, 0, 0
    piece = begin
    while piece < end:
        stop = _piece_end(piece, end)
        name_end = _next_byte(piece, stop, NAME_VALUE_SEPARATOR)
        if name_end > piece and name_end + 1 < stop:
            pairs += 1
            names += name_end - piece
            values += stop - name_end - 1
        piece = stop + 1
    table[_PAIRS, n], table[_NAMES, n], table[_VALUES, n] = pairs, names, values


@kernel
def read_fields(log, places, crc_check, wants, table):
    """Enter the fields of the records at some places; see the reference."""
    buffer, base, limit = log
    position, size = places
    data = address_of(buffer)
    last = data + limit
    for n in range(len(position)):
        at = position[n] - base
        if at < 0 or at >= limit:
            return n
        record = data + at
        verdict, length, body, topic, topic_end, sys_flag = examine_parts(record, last, position[n], crc_check)
        if verdict != GOOD or length != size[n]:
            return n
        properties = topic_end + PROPERTIES_LENGTH_SIZE
        # An IPv6 host moves what comes after it.
        born_more = _V6_MORE if sys_flag & _BORN_V6 else 0
        store_more = _V6_MORE if sys_flag & _STORE_V6 else 0
        after_born = record + born_more
        after_store = after_born + store_more
        table[_QUEUE_ID, n] = load_be32(record + _QUEUE_ID_AT)
        table[_FLAG, n] = load_be32(record + _FLAG_AT)
        table[_QUEUE_OFFSET, n] = load_be64(record + _QUEUE_OFFSET_AT)
        table[_SYS_FLAG, n] = sys_flag
        table[_BORN, n] = load_be64(record + _BORN_AT)
        table[_STORED, n] = load_be64(after_born + _STORED_AT)
        table[_BODY_CRC, n] = load_be32(record + _BODY_CRC_AT)
        table[_TRIES, n] = load_be32(after_store + _TRIES_AT)
        table[_PREPARED, n] = load_be64(after_store + _PREPARED_AT)
        table[_BODY_F, n] = body - data
        table[_BODY_F + SIZE_BELOW, n] = load_be32(after_store + _BODY_LENGTH_AT)
        table[_TOPIC_F, n] = topic - data
        table[_TOPIC_F + SIZE_BELOW, n] = topic_end - topic
        table[_PROPERTIES_F, n] = properties - data
        table[_PROPERTIES_F + SIZE_BELOW, n] = record + length - properties
        table[_BORN_HOST_F, n] = record + _BORN_HOST_AT - data
        table[_BORN_HOST_F + SIZE_BELOW, n] = _V4 + born_more
        table[_STORE_HOST_F, n] = after_born + _STORE_HOST_AT - data
        table[_STORE_HOST_F + SIZE_BELOW, n] = _V4 + store_more
        if wants & FIND_PROPERTIES:
            unique, unique_end, keys, keys_end, tags, tags_end, _, _, _ = find_properties(
                properties, record + length, last
            )
            _put(table, _KEYS_F, n, data, keys, keys_end)
            _put(table, _TAGS_F, n, data, tags, tags_end)
            _put(table, _UNIQUE_F, n, data, unique, unique_end)
        if wants & COUNT_PAIRS:
            _count_pairs(table, n, properties, record + length)
    return len(position)


@kernel
def gather_bytes(stretches, gathered):
    """Copy stretches, one after the other; see the reference."""
    buffer, at, size = stretches
    out, offsets = gathered
    source, target = address_of(buffer), address_of(out)
    written = 0
    offsets[0] = 0
    for n in range(len(at)):
        if size[n] > 0:
            if at[n] < 0 or at[n] + size[n] > len(buffer) or written + size[n] > len(out):
                return -1
            copy_bytes(target + written, source + at[n], size[n])
            written += size[n]
        offsets[n + 1] = written
    return written


@kernel
def _repeats(name, name_size, piece, end):
    """Return True if a later property has this name, and a value."""
    while piece < end:
        stop = _piece_end(piece, end)
        if stop > piece + name_size + 1 and byte_at(piece + name_size) == NAME_VALUE_SEPARATOR:
            n = 0
            while n < name_size and byte_at(name + n) == byte_at(piece + n):
                n += 1
            if n == name_size:
                return True
        piece = stop + 1
    return False


@kernel
def gather_pairs(stretches, gathered):
    """Copy the properties of records into Arrow's map buffers; see the reference."""
    buffer, at, size = stretches
    pair_offsets, name_offsets, value_offsets = gathered.offsets, gathered.names.offsets, gathered.values.offsets
    names, values = gathered.names.data, gathered.values.data
    data, name_out, value_out = address_of(buffer), address_of(names), address_of(values)
    pairs, names_used, values_used = 0, 0, 0
    pair_offsets[0] = 0
    name_offsets[0] = 0
    value_offsets[0] = 0
    for n in range(len(at)):
        if at[n] < 0 or size[n] < 0 or at[n] + size[n] > len(buffer):
            return -1
        piece, end = data + at[n], data + at[n] + size[n]
        while piece < end:
            stop = _piece_end(piece, end)
            name_end = _next_byte(piece, stop, NAME_VALUE_SEPARATOR)
            name_size, value_size = name_end - piece, stop - name_end - 1
            if name_size > 0 and value_size > 0 and not _repeats(piece, name_size, stop + 1, end):
                if (
                    pairs + 1 >= len(name_offsets)
                    or names_used + name_size > len(names)
                    or values_used + value_size > len(values)
                ):
                    return -1
                copy_bytes(name_out + names_used, piece, name_size)
                copy_bytes(value_out + values_used, name_end + 1, value_size)
                names_used += name_size
                values_used += value_size
                pairs += 1
                name_offsets[pairs] = names_used
                value_offsets[pairs] = values_used
            piece = stop + 1
        pair_offsets[n + 1] = pairs
    return pairs


@kernel
def are_equal(stretches):
    """Return True if the stretches hold the same bytes; see the reference."""
    buffer, at, size = stretches
    data = address_of(buffer)
    for n in range(len(at)):
        if size[n] != size[0] or at[n] < 0 or size[n] < 0 or at[n] + size[n] > len(buffer):
            return False
        first, other = data + at[0], data + at[n]
        for place in range(size[0]):
            if byte_at(first + place) != byte_at(other + place):
                return False
    return True


@kernel
def _spell(target, value):
    """Write a byte as two upper-case hex digits."""
    high, low = value >> 4, value & 15
    store_8(target, np.uint8(high + (55 if high > 9 else 48)))
    store_8(target + 1, np.uint8(low + (55 if low > 9 else 48)))


@kernel
def spell_ids(hosts, places, gathered):
    """Write message ids: hosts and log offsets in upper-case hex; see the reference."""
    buffer, at, size = hosts
    out, offsets = gathered
    data, target = address_of(buffer), address_of(out)
    written = 0
    offsets[0] = 0
    for n in range(len(at)):
        if (
            at[n] < 0
            or size[n] < 0
            or at[n] + size[n] > len(buffer)
            or written + 2 * (size[n] + _PLACE_SIZE) > len(out)
        ):
            return -1
        for place in range(size[n]):
            _spell(target + written + 2 * place, byte_at(data + at[n] + place))
        written += 2 * size[n]
        for place in range(_PLACE_SIZE):
            _spell(target + written + 2 * place, (places[n] >> 8 * (_PLACE_SIZE - 1 - place)) & 0xFF)
        written += 2 * _PLACE_SIZE
        offsets[n + 1] = written
    return written
