"""Write a batch of messages as records, straight from Arrow's buffers: measured first, then each byte written once.

The twin of `reput.kernels.reference.encode`, which is the specification. One vector of addresses instead of 41 arrays,
which would have to be made and taken apart for each batch.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log import properties as props
from reput.formats.log import record as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.formats.paths import MAX_QUEUE_ID
from reput.kernels.compiled.tools.crc import body_crc, crc32_at
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import (
    byte_at,
    copy_bytes,
    int32_at,
    load_le64,
    ones_64,
    separators_64,
    set_word,
    spaces_64,
    store_8,
    store_32,
    store_be16,
    store_be32,
    store_be64,
    word,
    word_address,
)
from reput.kernels.compiled.tools.rows import free_place, probe, same_bytes
from reput.kernels.layouts.batch import CHANGED, LAID_OUT, NEW_QUEUE, REFUSED, BatchAt, BatchRefusal, TextsAt

__all__ = ["add_queue", "body_crc", "lay_out", "write_records"]

_AT = fmt.HEAD.offsets
_MAGIC_AT, _CRC_AT, _QUEUE_ID_AT, _FLAG_AT = (_AT[name] for name in ("magic", "body_crc", "queue_id", "flag"))
_QUEUE_OFFSET_AT, _PHYSICAL_AT, _SYS_FLAG_AT, _BORN_AT = (
    _AT[name] for name in ("queue_offset", "physical_offset", "sys_flag", "born_timestamp")
)
_HEAD_SIZE, _TIME_SIZE = fmt.HEAD_SIZE, fmt.BEFORE_BODY_V4.sizes["store_timestamp"]
_BODY_LENGTH_SIZE, _PROPERTIES_LENGTH_SIZE = fmt.BODY_LENGTH_SIZE, fmt.PROPERTIES_LENGTH.size
_MAX_PROPERTIES, _CRC_SIZE, _CRC_DIGITS = props.MAX_PROPERTIES_SIZE, fmt.CRC_PROPERTY_SIZE, fmt.CRC_DIGITS
_NONE, _BAD_OFFSETS, _BAD_QUEUE_ID = (
    int(BatchRefusal.NONE),
    int(BatchRefusal.BAD_OFFSETS),
    int(BatchRefusal.BAD_QUEUE_ID),
)
_BODY_TOO_LONG, _PROPERTIES_TOO_LONG = int(BatchRefusal.BODY_TOO_LONG), int(BatchRefusal.PROPERTIES_TOO_LONG)
_BAD_TAGS, _BAD_KEY, _BAD_UNIQUE_KEY = (
    int(BatchRefusal.BAD_TAGS),
    int(BatchRefusal.BAD_KEY),
    int(BatchRefusal.BAD_UNIQUE_KEY),
)

# Names are stored as numbers: four or eight bytes, then the 0x01.
TAGS, KEYS = (np.int32(int.from_bytes(name, "big")) for name in (props.TAGS, props.KEYS))
UNIQUE, _CRC = (np.int64(int.from_bytes(name, "big")) for name in (props.UNIQUE_KEY, props.CRC32))
assert len(props.KEYS) == len(props.TAGS) == 4
assert len(props.CRC32) == len(props.UNIQUE_KEY) == 8
NAME_4, NAME_8 = 5, 9
"""Bytes of such a name and its separator."""
_ENCODED = -1
"""In place of a name's bytes: the column holds whole properties, with no name or separator to add."""
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_TWOS, _SPACES = np.uint64(0x0202020202020202), np.uint64(0x2020202020202020)

_HASH_SHIFT = np.uint64(20)
"""The bits of a queue's hash from here on name its place in the hash table."""


@kernel
def _has_zero(eight):
    """Return whether one of eight bytes is zero."""
    return (eight - _ONES) & ~eight & _HIGHS != 0


@kernel
def has_bad(begin, end, spaces_too):
    """Return True if a text holds 0x01 or 0x02, or, if asked, a space."""
    at = begin
    while at + 64 <= end:
        if ones_64(at) | separators_64(at) != 0 or (spaces_too and spaces_64(at) != 0):
            return True
        at += 64
    while at + 8 <= end:
        eight = load_le64(at)
        if _has_zero(eight ^ _ONES) or _has_zero(eight ^ _TWOS) or (spaces_too and _has_zero(eight ^ _SPACES)):
            return True
        at += 8
    while at < end:
        byte = byte_at(at)
        if byte == NAME_VALUE_SEPARATOR or byte == PROPERTY_SEPARATOR or (spaces_too and byte == 0x20):
            return True
        at += 1
    return False


@kernel
def _copy_text(at, begin, end, separator):
    """Write a text and a separator; return the address after them."""
    copy_bytes(at, begin, end - begin)
    at += end - begin
    store_8(at, np.uint8(separator))
    return at + 1


@kernel
def _write_crc(record, at):
    """Write the CRC property of the record that ends with it: ten digits, the lowest first."""
    crc = crc32_at(record, at)
    store_be64(at, _CRC)
    store_8(at + 8, np.uint8(NAME_VALUE_SEPARATOR))
    for k in range(_CRC_DIGITS):
        store_8(at + NAME_8 + k, np.uint8(0x30 + crc % 10))
        crc //= 10
    store_8(at + NAME_8 + _CRC_DIGITS, np.uint8(PROPERTY_SEPARATOR))


@kernel
def _offset(at, width, row):
    """Return an offset of a column of texts."""
    if width == 8:
        return word(at, row)
    return int32_at(at, row)


@kernel
def _is_there(valid, bit):
    """Return True if a text is not null."""
    return valid == 0 or byte_at(valid + (bit >> 3)) >> (bit & 7) & 1 == 1


@kernel
def _hash_of(begin, end, queue_id, factor):
    value = np.uint64(queue_id) * factor ^ np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        value = (value ^ load_le64(at)) * factor
        value ^= value >> np.uint64(32)
        at += 8
    if at < end:
        rest = np.uint64(0)
        if end - begin >= 8:
            # The last eight, some of them for the second time.
            rest = load_le64(end - 8)
        else:
            while end > begin:
                end -= 1
                rest = rest << np.uint64(8) | np.uint64(byte_at(end))
        value = (value ^ rest) * factor
        value ^= value >> np.uint64(32)
    return value * factor


@kernel
def _queue_row(batch, begin, size, queue_id):
    """Return the directory's row of a queue, -1 if it has none."""
    key = _hash_of(begin, begin + size, queue_id, np.uint64(word(batch, BatchAt.factor)))
    table, mask, hashes = (
        word(batch, BatchAt.table_at),
        np.uint64(word(batch, BatchAt.mask)),
        word(batch, BatchAt.hash_at),
    )
    row, place = probe(table, mask, hashes, key >> _HASH_SHIFT & mask, key)
    while row >= 0:
        if int32_at(word(batch, BatchAt.id_at), row) == queue_id:
            part_size = int32_at(word(batch, BatchAt.part_size_at), row)
            part = word(batch, BatchAt.names_at) + word(word(batch, BatchAt.part_at), row)
            prefix = part_size - size
            if 1 <= prefix <= 2 and same_bytes(part + prefix, begin, size):
                return row
        row, place = probe(table, mask, hashes, place + np.uint64(1) & mask, key)
    return np.int64(-1)


@kernel
def _begin_and_end(column, rows):
    """Return begin and end of a column's texts in its data; the second is -1 if they are not valid."""
    at, width = word(column, TextsAt.offsets_at), word(column, TextsAt.width)
    begin, end = _offset(at, width, 0), _offset(at, width, rows)
    if begin < 0 or end < begin or end > word(column, TextsAt.data_size):
        return begin, np.int64(-1)
    return begin, end


@kernel
def _text_size(name_size, size):
    """Return the bytes that a text takes among a record's properties."""
    return size if name_size == _ENCODED else name_size + size + 1


@kernel
def _add_texts(column, rows, name_size, is_one_key, sizes):
    """Add the bytes of a property, which each message has or not, to the sizes; return False if a text may be bad.

    An empty text counts as none. A text that is one key holds no space and cannot be empty.
    """
    at, width, valid, bit = (
        word(column, TextsAt.offsets_at),
        word(column, TextsAt.width),
        word(column, TextsAt.valid_at),
        word(column, TextsAt.first_bit),
    )
    if width == 0:
        return True
    begin, end = _begin_and_end(column, rows)
    data = word(column, TextsAt.data_at)
    # All texts at once, and what lies between them: a fifth of what it costs one by one.
    if end < 0 or (name_size != _ENCODED and has_bad(data + begin, data + end, is_one_key)):
        return False
    signs, is_good = np.int64(0), True
    for n in range(rows):
        end = _offset(at, width, n + 1)
        signs |= end | end - begin
        if _is_there(valid, bit + n):
            if begin != end:
                set_word(sizes, n, word(sizes, n) + _text_size(name_size, end - begin))
            elif is_one_key:
                is_good = False
        begin = end
    return is_good and signs >= 0


@kernel
def _add_bodies(batch, rows, fixed, most_properties, sizes):
    """Add the bytes of the bodies and of the fixed parts; return False if a record would be too large."""
    column, most = word_address(batch, BatchAt.body), word(batch, BatchAt.max_body)
    at, width = word(column, TextsAt.offsets_at), word(column, TextsAt.width)
    begin, end = _begin_and_end(column, rows)
    if end < 0:
        return False
    signs = np.int64(0)
    for n in range(rows):
        end = _offset(at, width, n + 1)
        properties = word(sizes, n)
        signs |= end | end - begin | most - (end - begin) | most_properties - properties
        set_word(sizes, n, fixed + end - begin + properties)
        begin = end
    return signs >= 0


@kernel
def _crc_size(batch):
    return _CRC_SIZE if word(batch, BatchAt.append_crc) else 0


@kernel
def _fixed_size(batch):
    """Return the bytes of a record without topic, body and the properties of the columns."""
    hosts = word(batch, BatchAt.born_host_size) + _TIME_SIZE + word(batch, BatchAt.tail_size)
    return _HEAD_SIZE + hosts + _BODY_LENGTH_SIZE + _PROPERTIES_LENGTH_SIZE + _crc_size(batch)


@kernel
def _measure(batch):
    """Fill the sizes, all but the topics' part, column by column; return False if a message may be refused."""
    rows, sizes = word(batch, BatchAt.rows), word(batch, BatchAt.size_at)
    is_one_key = word(batch, BatchAt.keys_are_joined) == 0
    for n in range(rows):
        set_word(sizes, n, np.int64(0))
    return (
        _add_texts(word_address(batch, BatchAt.properties), rows, _ENCODED, False, sizes)
        and _add_texts(word_address(batch, BatchAt.tags), rows, NAME_4, False, sizes)
        and _add_texts(word_address(batch, BatchAt.keys), rows, NAME_4, is_one_key, sizes)
        and _add_texts(word_address(batch, BatchAt.unique_key), rows, NAME_8, False, sizes)
        and _add_bodies(batch, rows, _fixed_size(batch), _MAX_PROPERTIES - _crc_size(batch), sizes)
    )


@kernel
def _span(column, row, name_size):
    """Return the place of a property's text and its bytes in the record (0: none, -1: not valid); read offsets once."""
    at, width = word(column, TextsAt.offsets_at), word(column, TextsAt.width)
    if width == 0 or not _is_there(word(column, TextsAt.valid_at), word(column, TextsAt.first_bit) + row):
        return np.int64(0), np.int64(0), np.int64(0)
    begin, end = _offset(at, width, row), _offset(at, width, row + 1)
    if begin < 0 or end < begin or end > word(column, TextsAt.data_size):
        return np.int64(0), np.int64(0), np.int64(-1)
    data = word(column, TextsAt.data_at)
    return data + begin, data + end, np.int64(_text_size(name_size, end - begin) if begin < end else 0)


@kernel
def _measure_text(column, row, name_size, is_one_key, bad):
    """Return the bytes of a property's text in the record, or a negative `BatchRefusal`; `bad`: that of a bad text."""
    begin, end, size = _span(column, row, name_size)
    if size < 0:
        return np.int64(-_BAD_OFFSETS)
    if size > 0:
        is_bad = name_size != _ENCODED and has_bad(begin, end, is_one_key)
    else:
        is_there = _is_there(word(column, TextsAt.valid_at), word(column, TextsAt.first_bit) + row)
        is_bad = is_one_key and word(column, TextsAt.width) != 0 and is_there
    return np.int64(-bad) if is_bad else size


@kernel
def _measure_rows(batch):
    """Do what `_measure` does, one by one; return the first refused message (-1: none) and its `BatchRefusal`."""
    rows, sizes = word(batch, BatchAt.rows), word(batch, BatchAt.size_at)
    fixed, most_properties = _fixed_size(batch), _MAX_PROPERTIES - _crc_size(batch)
    is_one_key = word(batch, BatchAt.keys_are_joined) == 0
    body = word_address(batch, BatchAt.body)
    at, width, data_size = word(body, TextsAt.offsets_at), word(body, TextsAt.width), word(body, TextsAt.data_size)
    for n in range(rows):
        begin, end = _offset(at, width, n), _offset(at, width, n + 1)
        if begin < 0 or end < begin or end > data_size:
            return n, _BAD_OFFSETS
        if end - begin > word(batch, BatchAt.max_body):
            return n, _BODY_TOO_LONG
        encoded = _measure_text(word_address(batch, BatchAt.properties), n, _ENCODED, False, _BAD_OFFSETS)
        tags = _measure_text(word_address(batch, BatchAt.tags), n, NAME_4, False, _BAD_TAGS)
        keys = _measure_text(word_address(batch, BatchAt.keys), n, NAME_4, is_one_key, _BAD_KEY)
        unique = _measure_text(word_address(batch, BatchAt.unique_key), n, NAME_8, False, _BAD_UNIQUE_KEY)
        for size in (encoded, tags, keys, unique):
            if size < 0:
                return n, -size
        if encoded + tags + keys + unique > most_properties:
            return n, _PROPERTIES_TOO_LONG
        set_word(sizes, n, fixed + end - begin + encoded + tags + keys + unique)
    return -1, _NONE


@kernel
def lay_out(batch):
    """Check and measure the messages, and find the queues of those from `done` on."""
    rows, size, touched = word(batch, BatchAt.rows), word(batch, BatchAt.size), word(batch, BatchAt.touched)
    n = word(batch, BatchAt.done)
    if n == 0 < rows and not _measure(batch):
        refused, why = _measure_rows(batch)
        if refused >= 0:
            set_word(batch, BatchAt.done, np.int64(refused))
            set_word(batch, BatchAt.refusal, np.int64(why))
            return REFUSED
    topic = word_address(batch, BatchAt.topic)
    topic_at, topic_width = word(topic, TextsAt.offsets_at), word(topic, TextsAt.width)
    topic_data, topic_size = word(topic, TextsAt.data_at), word(topic, TextsAt.data_size)
    ids, id_width = word(batch, BatchAt.queue_id_at), word(batch, BatchAt.queue_id_width)
    stamps, stamp = word(batch, BatchAt.stamp_at), word(batch, BatchAt.stamp)
    queues, part_sizes = word(batch, BatchAt.queue_at), word(batch, BatchAt.part_size_at)
    sizes, places, touched_at = (
        word(batch, BatchAt.size_at),
        word(batch, BatchAt.place_at),
        word(batch, BatchAt.touched_at),
    )
    answer, why = LAID_OUT, _NONE
    while n < rows:
        begin, end = _offset(topic_at, topic_width, n), _offset(topic_at, topic_width, n + 1)
        queue_id = np.int64(0)
        if id_width == 8:
            queue_id = word(ids, n)
        elif id_width == 4:
            queue_id = int32_at(ids, n)
        if begin < 0 or end < begin or end > topic_size:
            answer, why = REFUSED, _BAD_OFFSETS
            break
        if queue_id < 0 or queue_id > MAX_QUEUE_ID:
            answer, why = REFUSED, _BAD_QUEUE_ID
            break
        row = _queue_row(batch, topic_data + begin, end - begin, queue_id)
        if row < 0:
            answer = NEW_QUEUE
            break
        if word(stamps, row) != stamp:
            set_word(stamps, row, stamp)
            store_32(touched_at + 4 * touched, np.int32(row))
            touched += 1
        own_size = word(sizes, n) + int32_at(part_sizes, row)
        store_32(queues + 4 * n, np.int32(row))
        set_word(sizes, n, own_size)
        set_word(places, n, size)
        size += own_size
        n += 1
    set_word(batch, BatchAt.done, n)
    set_word(batch, BatchAt.size, size)
    set_word(batch, BatchAt.touched, touched)
    set_word(batch, BatchAt.refusal, np.int64(why))
    return answer


@kernel
def _born(batch, row, store_timestamp):
    """Return the time at which a message was born; the time of the put if it does not say."""
    at = word(batch, BatchAt.born_at)
    if at != 0 and _is_there(word(batch, BatchAt.born_valid_at), word(batch, BatchAt.born_first_bit) + row):
        return word(at, row)
    return np.int64(store_timestamp)


@kernel
def copy_named_8(at, name, begin, end):
    """Write a property with a name of eight bytes; return the address after it."""
    store_be64(at, name)
    store_8(at + 8, np.uint8(NAME_VALUE_SEPARATOR))
    return _copy_text(at + NAME_8, begin, end, PROPERTY_SEPARATOR)


@kernel
def copy_named_4(at, name, begin, end):
    """Write a property with a name of four bytes; return the address after it."""
    store_be32(at, name)
    store_8(at + 4, np.uint8(NAME_VALUE_SEPARATOR))
    return _copy_text(at + NAME_4, begin, end, PROPERTY_SEPARATOR)


@kernel
def write_head(record, size, magic, crc, queue_id, flag, number, physical, sys_flag, born):
    """Write the fields of a record up to the born timestamp."""
    store_be32(record, np.int32(size))
    store_be32(record + _MAGIC_AT, np.int32(magic))
    store_be32(record + _CRC_AT, np.int32(crc))
    store_be32(record + _QUEUE_ID_AT, np.int32(queue_id))
    store_be32(record + _FLAG_AT, np.int32(flag))
    store_be64(record + _QUEUE_OFFSET_AT, np.int64(number))
    store_be64(record + _PHYSICAL_AT, np.int64(physical))
    store_be32(record + _SYS_FLAG_AT, np.int32(sys_flag))
    store_be64(record + _BORN_AT, np.int64(born))


@kernel
def write_records(batch, first, last, store_timestamp, physical_offset, buffer):
    """Write the records of messages [first, last) of a batch that is laid out to the address `buffer`.

    Arrow's buffers may be a caller's arrays that change meanwhile, so no offset that `lay_out` has read is trusted.
    """
    tags, keys = word_address(batch, BatchAt.tags), word_address(batch, BatchAt.keys)
    unique = word_address(batch, BatchAt.unique_key)
    further, body = word_address(batch, BatchAt.properties), word_address(batch, BatchAt.body)
    sys_flags = word(batch, BatchAt.sys_flag_at)
    bodies_at, bodies_width = word(body, TextsAt.offsets_at), word(body, TextsAt.width)
    bodies, bodies_size = word(body, TextsAt.data_at), word(body, TextsAt.data_size)
    flags, queues, sizes = word(batch, BatchAt.flag_at), word(batch, BatchAt.queue_at), word(batch, BatchAt.size_at)
    numbers, places = word(batch, BatchAt.number_at), word(batch, BatchAt.place_at)
    next_offsets, ids = word(batch, BatchAt.next_at), word(batch, BatchAt.id_at)
    magics, part_sizes = word(batch, BatchAt.magic_at), word(batch, BatchAt.part_size_at)
    parts, names = word(batch, BatchAt.part_at), word(batch, BatchAt.names_at)
    host, host_size = word(batch, BatchAt.born_host_at), word(batch, BatchAt.born_host_size)
    tail, tail_size, fixed = word(batch, BatchAt.tail_at), word(batch, BatchAt.tail_size), _fixed_size(batch)
    sys_flag, append_crc = word(batch, BatchAt.sys_flag), word(batch, BatchAt.append_crc)
    record, physical = buffer, np.int64(physical_offset)
    for n in range(first, last):
        row, size = int32_at(queues, n), word(sizes, n)
        body_begin, body_end = _offset(bodies_at, bodies_width, n), _offset(bodies_at, bodies_width, n + 1)
        tag_at, tag_end, tag = _span(tags, n, NAME_4)
        key_at, key_end, key = _span(keys, n, NAME_4)
        own_at, own_end, own = _span(unique, n, NAME_8)
        more_at, _, more = _span(further, n, _ENCODED)
        body_at, body_size, part_size = bodies + body_begin, body_end - body_begin, int32_at(part_sizes, row)
        is_inside = 0 <= body_begin <= body_end <= bodies_size and min(tag, key, own, more) >= 0
        if not is_inside or fixed + body_size + part_size + tag + key + own + more != size:
            return np.int64(CHANGED)
        number = word(next_offsets, row)
        set_word(next_offsets, row, number + 1)
        set_word(numbers, n, number)
        set_word(places, n, physical)
        crc = crc32_at(body_at, body_at + body_size)
        flag = int32_at(flags, n) if flags != 0 else 0
        bits = int32_at(sys_flags, n) if sys_flags != 0 else sys_flag
        born = _born(batch, n, store_timestamp)
        write_head(record, size, int32_at(magics, row), crc, int32_at(ids, row), flag, number, physical, bits, born)
        copy_bytes(record + _HEAD_SIZE, host, host_size)
        at = record + _HEAD_SIZE + host_size
        store_be64(at, np.int64(store_timestamp))
        copy_bytes(at + _TIME_SIZE, tail, tail_size)
        at += _TIME_SIZE + tail_size + _BODY_LENGTH_SIZE
        store_be32(at - _BODY_LENGTH_SIZE, np.int32(body_size))
        copy_bytes(at, body_at, body_size)
        at += body_size
        copy_bytes(at, names + word(parts, row), part_size)
        at += part_size
        store_be16(at, np.int16(record + size - at - _PROPERTIES_LENGTH_SIZE))
        at += _PROPERTIES_LENGTH_SIZE
        copy_bytes(at, more_at, more)
        at += more
        if tag > 0:
            at = copy_named_4(at, TAGS, tag_at, tag_end)
        if key > 0:
            at = copy_named_4(at, KEYS, key_at, key_end)
        if own > 0:
            at = copy_named_8(at, UNIQUE, own_at, own_end)
        if append_crc:
            _write_crc(record, at)
        record += size
        physical += size
    return np.int64(record - buffer)


@kernel
def add_queue(batch, row, begin, size, queue_id):
    """Have a row of the directory, which is filled, found under a topic's bytes and a queue id."""
    key = _hash_of(begin, begin + size, queue_id, np.uint64(word(batch, BatchAt.factor)))
    set_word(word(batch, BatchAt.hash_at), row, np.int64(key))
    table, mask = word(batch, BatchAt.table_at), np.uint64(word(batch, BatchAt.mask))
    place = free_place(table, mask, key >> _HASH_SHIFT & mask)
    store_32(table + 4 * np.int64(place), np.int32(row + 1))
    return 0
