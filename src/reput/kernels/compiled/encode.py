"""Write a batch of messages as records: measured first, then each byte written once, straight to its place.

The twin of `reput.kernels.reference_encode`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.kernels.compiled.crc import crc32_at
from reput.kernels.compiled.jit import kernel
from reput.kernels.compiled.memory import (
    address_of,
    byte_at,
    copy_bytes,
    load_le64,
    ones_64,
    separators_64,
    spaces_64,
    store_8,
    store_be16,
    store_be32,
    store_be64,
)
from reput.kernels.message_columns import Refusal

_BODY_TOO_LONG, _PROPERTIES_TOO_LONG = int(Refusal.BODY_TOO_LONG), int(Refusal.PROPERTIES_TOO_LONG)
_BAD_TAGS, _BAD_KEY, _BAD_UNIQUE_KEY = int(Refusal.BAD_TAGS), int(Refusal.BAD_KEY), int(Refusal.BAD_UNIQUE_KEY)
_BAD_PROPERTY, _BAD_OFFSETS, _NONE = int(Refusal.BAD_PROPERTY), int(Refusal.BAD_OFFSETS), int(Refusal.NONE)

_AT = fmt.HEAD.offsets
_CRC_AT, _QUEUE_ID_AT, _FLAG_AT, _QUEUE_OFFSET_AT = (
    _AT["body_crc"],
    _AT["queue_id"],
    _AT["flag"],
    _AT["queue_offset"],
)
_MAGIC_AT, _PHYSICAL_AT, _SYS_FLAG_AT, _BORN_AT = (
    _AT["magic"],
    _AT["physical_offset"],
    _AT["sys_flag"],
    _AT["born_timestamp"],
)
_HEAD_SIZE = fmt.HEAD_SIZE
_TIME_SIZE, _BODY_LENGTH_SIZE, _PROPERTIES_LENGTH_SIZE = 8, 4, 2
_MAX_PROPERTIES, _CRC_SIZE, _CRC_DIGITS = props.MAX_PROPERTIES_SIZE, fmt.CRC_PROPERTY_SIZE, 10


# Names are stored as numbers: four or eight bytes, then the 0x01.
TAGS, KEYS = (np.int32(int.from_bytes(name, "big")) for name in (props.TAGS, props.KEYS))
UNIQUE, _CRC = (np.int64(int.from_bytes(name, "big")) for name in (props.UNIQ_KEY, props.CRC32))
assert len(props.KEYS) == len(props.TAGS) == 4
assert len(props.CRC32) == len(props.UNIQ_KEY) == 8
NAME_4, NAME_8 = 5, 9
"""Bytes of such a name and its separator."""
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_TWOS, _SPACES = np.uint64(0x0202020202020202), np.uint64(0x2020202020202020)


@kernel
def _has_zero(word):
    """Whether one of a word's eight bytes is zero."""
    return (word - _ONES) & ~word & _HIGHS != 0


@kernel
def has_bad(begin, end, spaces_too):
    """Whether a text holds 0x01 or 0x02, or, if asked, a space."""
    at = begin
    while at + 64 <= end:
        if ones_64(at) | separators_64(at) != 0 or (spaces_too and spaces_64(at) != 0):
            return True
        at += 64
    while at + 8 <= end:
        word = load_le64(at)
        if _has_zero(word ^ _ONES) or _has_zero(word ^ _TWOS) or (spaces_too and _has_zero(word ^ _SPACES)):
            return True
        at += 8
    while at < end:
        byte = byte_at(at)
        if byte == 0x01 or byte == 0x02 or (spaces_too and byte == 0x20):
            return True
        at += 1
    return False


@kernel
def _text_size(begin, end, size, data, spaces_too, bad):
    """Bytes of a text of `data` and its separator, or the negative of a `Refusal`; `bad` is that of a bad text."""
    if begin < 0 or end < begin or end > size:
        return np.int64(-_BAD_OFFSETS)
    if end == begin or has_bad(data + begin, data + end, spaces_too):
        return np.int64(-bad)
    return end - begin + 1


# Both loops take the columns apart first: to hand a tuple of arrays to another function, once a message, would count
# the references of all its arrays up and down, and cost more than the work.


@kernel
def measure_records(columns, queues, frame, max_body, append_crc, size_out):
    """Fill `size_out` with each record's bytes; returns the first message that cannot be stored and its `Refusal`."""
    (body, body_end, bodies), (tag, tag_end, tags) = columns.body, columns.tags
    (unique, unique_end, uniques), (key, key_end, keys) = columns.unique_key, columns.keys
    (name, name_end, names), (value, value_end, values) = columns.names, columns.values
    (first_key, last_key), (first_pair, last_pair) = columns.key_rows, columns.pair_rows
    queue, topic, topic_end = columns.queue, queues.topic.begin, queues.topic.end
    tag_data, unique_data, key_data = address_of(tags), address_of(uniques), address_of(keys)
    name_data, value_data = address_of(names), address_of(values)
    key_count, pair_count = min(len(key), len(key_end)), min(len(name), len(name_end), len(value), len(value_end))
    fixed = _HEAD_SIZE + len(frame.born_host) + _TIME_SIZE + len(frame.tail) + _BODY_LENGTH_SIZE
    crc_size = _CRC_SIZE if append_crc else 0
    for n in range(len(queue)):
        if body[n] < 0 or body_end[n] < body[n] or body_end[n] > len(bodies):
            return n, _BAD_OFFSETS
        if body_end[n] - body[n] > max_body:
            return n, _BODY_TOO_LONG
        size = np.int64(crc_size)
        if tag_end[n] != tag[n]:
            more = _text_size(tag[n], tag_end[n], len(tags), tag_data, False, _BAD_TAGS)
            if more < 0:
                return n, -more
            size += NAME_4 + more
        if first_key[n] < 0 or last_key[n] < first_key[n] or last_key[n] > key_count:
            return n, _BAD_OFFSETS
        for row in range(first_key[n], last_key[n]):
            more = _text_size(key[row], key_end[row], len(keys), key_data, True, _BAD_KEY)
            if more < 0:
                return n, -more
            size += more
        size += NAME_4 if last_key[n] > first_key[n] else 0
        if unique_end[n] != unique[n]:
            more = _text_size(unique[n], unique_end[n], len(uniques), unique_data, False, _BAD_UNIQUE_KEY)
            if more < 0:
                return n, -more
            size += NAME_8 + more
        if first_pair[n] < 0 or last_pair[n] < first_pair[n] or last_pair[n] > pair_count:
            return n, _BAD_OFFSETS
        for row in range(first_pair[n], last_pair[n]):
            more = _text_size(name[row], name_end[row], len(names), name_data, False, _BAD_PROPERTY)
            if more < 0:
                return n, -more
            size += more
            more = _text_size(value[row], value_end[row], len(values), value_data, False, _BAD_PROPERTY)
            if more < 0:
                return n, -more
            size += more
        if size > _MAX_PROPERTIES:
            return n, _PROPERTIES_TOO_LONG
        topic_size = topic_end[queue[n]] - topic[queue[n]]
        size_out[n] = fixed + body_end[n] - body[n] + topic_size + _PROPERTIES_LENGTH_SIZE + size
    return -1, _NONE


@kernel
def copy_text(at, begin, end, separator):
    """Write a text and a separator; returns the address behind them."""
    copy_bytes(at, begin, end - begin)
    at += end - begin
    store_8(at, np.uint8(separator))
    return at + 1


@kernel
def _write_crc(record, at):
    """Write the CRC property of the record that ends with it: ten digits, the lowest first."""
    crc = crc32_at(record, at)
    store_be64(at, _CRC)
    store_8(at + 8, np.uint8(0x01))
    for k in range(_CRC_DIGITS):
        store_8(at + NAME_8 + k, np.uint8(0x30 + crc % 10))
        crc //= 10
    store_8(at + NAME_8 + _CRC_DIGITS, np.uint8(0x02))


@kernel
def encode_records(
    columns, queues, frame, size, append_crc, born_timestamp, store_timestamp, physical_offset, next_offset,
    queue_offset_out, buffer, position,
):  # fmt: skip
    """Write the records of a measured batch into `buffer` from `position` on; returns the position behind them."""
    queue, flag, sys_flag = columns.queue, columns.flag, columns.sys_flag
    (body, body_end, bodies), (tag, tag_end, tags) = columns.body, columns.tags
    (unique, unique_end, uniques), (key, key_end, keys) = columns.unique_key, columns.keys
    (name, name_end, names), (value, value_end, values) = columns.names, columns.values
    (first_key, last_key), (first_pair, last_pair) = columns.key_rows, columns.pair_rows
    queue_id, magic, (topic, topic_end, topics) = queues.queue_id, queues.magic, queues.topic
    body_data, tag_data, unique_data = address_of(bodies), address_of(tags), address_of(uniques)
    key_data, name_data, value_data = address_of(keys), address_of(names), address_of(values)
    topic_data, born_host, tail = address_of(topics), address_of(frame.born_host), address_of(frame.tail)
    born_size, tail_size = len(frame.born_host), len(frame.tail)
    record, physical = address_of(buffer) + position, np.int64(physical_offset)
    for n in range(len(queue)):
        row = queue[n]
        number = next_offset[row]
        next_offset[row] = number + 1
        queue_offset_out[n] = number
        body_at, body_size = body_data + body[n], body_end[n] - body[n]
        store_be32(record, size[n])
        store_be32(record + _MAGIC_AT, magic[row])
        store_be32(record + _CRC_AT, np.int32(crc32_at(body_at, body_at + body_size)))
        store_be32(record + _QUEUE_ID_AT, queue_id[row])
        store_be32(record + _FLAG_AT, flag[n])
        store_be64(record + _QUEUE_OFFSET_AT, number)
        store_be64(record + _PHYSICAL_AT, physical)
        store_be32(record + _SYS_FLAG_AT, sys_flag[n])
        store_be64(record + _BORN_AT, born_timestamp[n])
        copy_bytes(record + _HEAD_SIZE, born_host, born_size)
        at = record + _HEAD_SIZE + born_size
        store_be64(at, np.int64(store_timestamp))
        copy_bytes(at + _TIME_SIZE, tail, tail_size)
        at += _TIME_SIZE + tail_size
        store_be32(at, np.int32(body_size))
        copy_bytes(at + _BODY_LENGTH_SIZE, body_at, body_size)
        at += _BODY_LENGTH_SIZE + body_size
        copy_bytes(at, topic_data + topic[row], topic_end[row] - topic[row])
        at += topic_end[row] - topic[row]
        store_be16(at, np.int16(record + size[n] - at - _PROPERTIES_LENGTH_SIZE))
        at += _PROPERTIES_LENGTH_SIZE
        for pair in range(first_pair[n], last_pair[n]):
            at = copy_text(at, name_data + name[pair], name_data + name_end[pair], 0x01)
            at = copy_text(at, value_data + value[pair], value_data + value_end[pair], 0x02)
        if tag_end[n] > tag[n]:
            store_be32(at, TAGS)
            store_8(at + 4, np.uint8(0x01))
            at = copy_text(at + NAME_4, tag_data + tag[n], tag_data + tag_end[n], 0x02)
        if last_key[n] > first_key[n]:
            store_be32(at, KEYS)
            store_8(at + 4, np.uint8(0x01))
            at += NAME_4
            for k in range(first_key[n], last_key[n]):
                at = copy_text(at, key_data + key[k], key_data + key_end[k], 0x20)
            store_8(at - 1, np.uint8(0x02))
        if unique_end[n] > unique[n]:
            store_be64(at, UNIQUE)
            store_8(at + 8, np.uint8(0x01))
            at = copy_text(at + NAME_8, unique_data + unique[n], unique_data + unique_end[n], 0x02)
        if append_crc:
            _write_crc(record, at)
        record += size[n]
        physical += size[n]
    return record - address_of(buffer)
