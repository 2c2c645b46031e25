"""Write a plain batch as records, straight from Arrow's buffers; the twin of `reput.kernels.reference_plain`.

One vector of addresses instead of 41 arrays, which would have to be made and taken apart for each batch.
"""

from __future__ import annotations

import numpy as np

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.kernels.batch_words import CHANGED, LAID_OUT, NEW_QUEUE, NOT_PLAIN, Batch, Text
from reput.kernels.compiled.crc import crc32_at
from reput.kernels.compiled.decode import same_bytes
from reput.kernels.compiled.encode import KEYS, NAME_4, NAME_8, TAGS, UNIQUE, copy_text, has_bad
from reput.kernels.compiled.jit import kernel
from reput.kernels.compiled.memory import (
    byte_at,
    copy_bytes,
    load_le32,
    load_le64,
    store_8,
    store_32,
    store_64,
    store_be16,
    store_be32,
    store_be64,
)

_AT = fmt.HEAD.offsets
_MAGIC_AT, _CRC_AT, _QUEUE_ID_AT, _FLAG_AT = (_AT[name] for name in ("magic", "body_crc", "queue_id", "flag"))
_QUEUE_OFFSET_AT, _PHYSICAL_AT, _SYS_FLAG_AT, _BORN_AT = (
    _AT[name] for name in ("queue_offset", "physical_offset", "sys_flag", "born_timestamp")
)
_HEAD_SIZE = fmt.HEAD_SIZE
_TIME_SIZE, _BODY_LENGTH_SIZE, _PROPERTIES_LENGTH_SIZE = 8, 4, 2
_MAX_PROPERTIES = props.MAX_PROPERTIES_SIZE
_ROWS, _TOPIC, _BODY, _TAGS = int(Batch.ROWS), int(Batch.TOPIC), int(Batch.BODY), int(Batch.TAGS)
_KEYS, _UNIQUE_KEY = int(Batch.KEYS), int(Batch.UNIQUE_KEY)
_QUEUE_ID_FROM, _QUEUE_ID_WIDTH = int(Batch.QUEUE_ID_AT), int(Batch.QUEUE_ID_WIDTH)
_FLAGS, _BORN, _QUEUE, _SIZES, _PLACES = (
    int(word) for word in (Batch.FLAG_AT, Batch.BORN_AT, Batch.QUEUE_AT, Batch.SIZE_AT, Batch.PLACE_AT)
)
_NUMBERS, _TOUCHED_AT, _STAMP = int(Batch.NUMBER_AT), int(Batch.TOUCHED_AT), int(Batch.STAMP)
_DONE, _SIZE, _TOUCHED, _MAX_BODY = int(Batch.DONE), int(Batch.SIZE), int(Batch.TOUCHED), int(Batch.MAX_BODY)
_SYS_FLAG, _HOST, _HOST_SIZE = int(Batch.SYS_FLAG), int(Batch.BORN_HOST_AT), int(Batch.BORN_HOST_SIZE)
_TAIL, _TAIL_SIZE = int(Batch.TAIL_AT), int(Batch.TAIL_SIZE)
_TABLE, _MASK, _FACTOR, _HASHES = int(Batch.TABLE_AT), int(Batch.MASK), int(Batch.FACTOR), int(Batch.HASH_AT)
_IDS, _MAGICS, _PART_SIZES, _PARTS = (
    int(word) for word in (Batch.ID_AT, Batch.MAGIC_AT, Batch.PART_SIZE_AT, Batch.PART_AT)
)
_NAMES, _NEXT, _STAMPS = int(Batch.NAMES_AT), int(Batch.NEXT_AT), int(Batch.STAMP_AT)
_OFFSETS, _WIDTH, _VALID, _FIRST_BIT, _DATA, _DATA_SIZE = (int(word) for word in Text)
_MAX_QUEUE_ID = 0x7FFFFFFF


@kernel
def _word(words, place):
    return np.int64(load_le64(words + 8 * place))


@kernel
def _int32(address, row):
    return np.int64(np.int32(load_le32(address + 4 * row)))


@kernel
def _offset(at, width, row):
    """An offset of a column of texts."""
    if width == 8:
        return np.int64(load_le64(at + 8 * row))
    return _int32(at, row)


@kernel
def _is_there(valid, bit):
    """Whether a text is not null."""
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
def _queue_row(words, begin, size, queue_id):
    """The directory's row of a queue, -1 if it has none; and the hash."""
    value = _hash_of(begin, begin + size, queue_id, np.uint64(_word(words, _FACTOR)))
    table, mask, hashes = _word(words, _TABLE), np.uint64(_word(words, _MASK)), _word(words, _HASHES)
    place = value >> np.uint64(20) & mask
    while True:
        row = _int32(table, np.int64(place)) - 1
        if row < 0:
            return np.int64(-1)
        if load_le64(hashes + 8 * row) == value and _int32(_word(words, _IDS), row) == queue_id:
            part_size = _int32(_word(words, _PART_SIZES), row)
            part = _word(words, _NAMES) + np.int64(load_le64(_word(words, _PARTS) + 8 * row))
            prefix = part_size - size
            if 1 <= prefix <= 2 and same_bytes(part + prefix, begin, size):
                return row
        place = place + np.uint64(1) & mask


@kernel
def _begin_and_end(column, rows):
    """Between which bytes of its data a column's texts stand; the second is -1 where that cannot be."""
    at, width = _word(column, _OFFSETS), _word(column, _WIDTH)
    begin, end = _offset(at, width, 0), _offset(at, width, rows)
    if begin < 0 or end < begin or end > _word(column, _DATA_SIZE):
        return begin, np.int64(-1)
    return begin, end


@kernel
def _add_texts(column, rows, name_size, spaces_too, sizes):
    """Add the bytes of a property, which each message has or not, to the sizes; False where the column is not plain.

    Empty tags are none; a key, which must have no spaces, cannot be empty.
    """
    at, width, valid, bit = (
        _word(column, _OFFSETS),
        _word(column, _WIDTH),
        _word(column, _VALID),
        _word(column, _FIRST_BIT),
    )
    if width == 0:
        return True
    begin, end = _begin_and_end(column, rows)
    # All texts at once, and what stands between them: a fifth of what it costs one by one.
    if end < 0 or has_bad(_word(column, _DATA) + begin, _word(column, _DATA) + end, spaces_too):
        return False
    signs, is_good = np.int64(0), True
    for n in range(rows):
        end = _offset(at, width, n + 1)
        signs |= end | end - begin
        if _is_there(valid, bit + n):
            if begin != end:
                store_64(sizes + 8 * n, np.int64(load_le64(sizes + 8 * n)) + name_size + end - begin + 1)
            elif spaces_too:
                is_good = False
        begin = end
    return is_good and signs >= 0


@kernel
def _add_bodies(words, rows, fixed, sizes):
    """Add the bytes of the bodies and of what all records have; False where a record would be too large."""
    column, most = words + 8 * _BODY, _word(words, _MAX_BODY)
    at, width = _word(column, _OFFSETS), _word(column, _WIDTH)
    begin, end = _begin_and_end(column, rows)
    if end < 0:
        return False
    signs = np.int64(0)
    for n in range(rows):
        end = _offset(at, width, n + 1)
        properties = np.int64(load_le64(sizes + 8 * n))
        signs |= end | end - begin | most - (end - begin) | _MAX_PROPERTIES - properties
        store_64(sizes + 8 * n, fixed + end - begin + properties)
        begin = end
    return signs >= 0


@kernel
def _fixed_size(words):
    """Bytes of a record but for topic, body and properties."""
    fixed = _HEAD_SIZE + _word(words, _HOST_SIZE) + _TIME_SIZE + _word(words, _TAIL_SIZE) + _BODY_LENGTH_SIZE
    return fixed + _PROPERTIES_LENGTH_SIZE


@kernel
def _measure(words):
    """Fill the sizes, all but the topics' part, column by column; False where the batch is not plain."""
    rows, sizes = _word(words, _ROWS), _word(words, _SIZES)
    for n in range(rows):
        store_64(sizes + 8 * n, np.int64(0))
    return (
        _add_texts(words + 8 * _TAGS, rows, NAME_4, False, sizes)
        and _add_texts(words + 8 * _KEYS, rows, NAME_4, True, sizes)
        and _add_texts(words + 8 * _UNIQUE_KEY, rows, NAME_8, False, sizes)
        and _add_bodies(words, rows, _fixed_size(words), sizes)
    )


@kernel
def lay_out(words):
    """Check and measure the messages, and find the queues of those from DONE on."""
    rows, size, touched = _word(words, _ROWS), _word(words, _SIZE), _word(words, _TOUCHED)
    n = _word(words, _DONE)
    if n == 0 < rows and not _measure(words):
        return NOT_PLAIN
    topic, topic_data = words + 8 * _TOPIC, _word(words + 8 * _TOPIC, _DATA)
    topic_at, topic_width, topic_size = _word(topic, _OFFSETS), _word(topic, _WIDTH), _word(topic, _DATA_SIZE)
    ids, id_width, stamp = _word(words, _QUEUE_ID_FROM), _word(words, _QUEUE_ID_WIDTH), _word(words, _STAMP)
    stamps, queues, part_sizes = _word(words, _STAMPS), _word(words, _QUEUE), _word(words, _PART_SIZES)
    sizes, places, touched_at = _word(words, _SIZES), _word(words, _PLACES), _word(words, _TOUCHED_AT)
    answer = LAID_OUT
    while n < rows:
        begin, end = _offset(topic_at, topic_width, n), _offset(topic_at, topic_width, n + 1)
        queue_id = np.int64(0)
        if id_width == 8:
            queue_id = np.int64(load_le64(ids + 8 * n))
        elif id_width == 4:
            queue_id = _int32(ids, n)
        if begin < 0 or end < begin or end > topic_size or queue_id < 0 or queue_id > _MAX_QUEUE_ID:
            answer = NOT_PLAIN
            break
        row = _queue_row(words, topic_data + begin, end - begin, queue_id)
        if row < 0:
            answer = NEW_QUEUE
            break
        if np.int64(load_le64(stamps + 8 * row)) != stamp:
            store_64(stamps + 8 * row, stamp)
            store_32(touched_at + 4 * touched, np.int32(row))
            touched += 1
        own_size = np.int64(load_le64(sizes + 8 * n)) + _int32(part_sizes, row)
        store_32(queues + 4 * n, np.int32(row))
        store_64(sizes + 8 * n, own_size)
        store_64(places + 8 * n, size)
        size += own_size
        n += 1
    store_64(words + 8 * _DONE, n)
    store_64(words + 8 * _SIZE, size)
    store_64(words + 8 * _TOUCHED, touched)
    return answer


@kernel
def _span(column, row, name_size):
    """Where a property's text stands, each offset read once; its bytes in the record (0: none, -1: no such text)."""
    at, width = _word(column, _OFFSETS), _word(column, _WIDTH)
    if width == 0 or not _is_there(_word(column, _VALID), _word(column, _FIRST_BIT) + row):
        return np.int64(0), np.int64(0), np.int64(0)
    begin, end = _offset(at, width, row), _offset(at, width, row + 1)
    if begin < 0 or end < begin or end > _word(column, _DATA_SIZE):
        return np.int64(0), np.int64(0), np.int64(-1)
    data = _word(column, _DATA)
    return data + begin, data + end, np.int64(name_size + end - begin + 1 if begin < end else 0)


@kernel
def write_rows(words, first, last, store_timestamp, physical_offset, buffer):
    """Write the records of messages [first, last) of a batch that is laid out to the address `buffer`.

    Arrow's buffers may be somebody's arrays, who changes them meanwhile: no offset that `lay_out` has seen is believed.
    (Copying 32 bytes at once, and a few too many, instead of a call for each text saves a thirtieth.)
    """
    tags, keys, unique = words + 8 * _TAGS, words + 8 * _KEYS, words + 8 * _UNIQUE_KEY
    body, bodies = words + 8 * _BODY, _word(words + 8 * _BODY, _DATA)
    bodies_at, bodies_width, bodies_size = _word(body, _OFFSETS), _word(body, _WIDTH), _word(body, _DATA_SIZE)
    flags, born, queues, sizes = _word(words, _FLAGS), _word(words, _BORN), _word(words, _QUEUE), _word(words, _SIZES)
    numbers, places = _word(words, _NUMBERS), _word(words, _PLACES)
    next_offsets, ids = _word(words, _NEXT), _word(words, _IDS)
    magics, part_sizes = _word(words, _MAGICS), _word(words, _PART_SIZES)
    parts, names = _word(words, _PARTS), _word(words, _NAMES)
    host, host_size = _word(words, _HOST), _word(words, _HOST_SIZE)
    tail, tail_size = _word(words, _TAIL), _word(words, _TAIL_SIZE)
    fixed, sys_flag = _fixed_size(words), np.int32(_word(words, _SYS_FLAG))
    record, physical = buffer, np.int64(physical_offset)
    for n in range(first, last):
        row, size = _int32(queues, n), np.int64(load_le64(sizes + 8 * n))
        body_begin, body_end = _offset(bodies_at, bodies_width, n), _offset(bodies_at, bodies_width, n + 1)
        tag_at, tag_end, tag = _span(tags, n, NAME_4)
        key_at, key_end, key = _span(keys, n, NAME_4)
        own_at, own_end, own = _span(unique, n, NAME_8)
        body_at, body_size, part_size = bodies + body_begin, body_end - body_begin, _int32(part_sizes, row)
        if body_begin < 0 or body_size < 0 or body_end > bodies_size or tag < 0 or key < 0 or own < 0:
            return np.int64(CHANGED)
        if fixed + body_size + part_size + tag + key + own != size:
            return np.int64(CHANGED)
        number = np.int64(load_le64(next_offsets + 8 * row))
        store_64(next_offsets + 8 * row, number + 1)
        store_64(numbers + 8 * n, number)
        store_64(places + 8 * n, physical)
        store_be32(record, np.int32(size))
        store_be32(record + _MAGIC_AT, np.int32(_int32(magics, row)))
        store_be32(record + _CRC_AT, np.int32(crc32_at(body_at, body_at + body_size)))
        store_be32(record + _QUEUE_ID_AT, np.int32(_int32(ids, row)))
        store_be32(record + _FLAG_AT, np.int32(_int32(flags, n) if flags != 0 else 0))
        store_be64(record + _QUEUE_OFFSET_AT, number)
        store_be64(record + _PHYSICAL_AT, physical)
        store_be32(record + _SYS_FLAG_AT, sys_flag)
        store_be64(record + _BORN_AT, np.int64(load_le64(born + 8 * n)) if born != 0 else np.int64(store_timestamp))
        copy_bytes(record + _HEAD_SIZE, host, host_size)
        at = record + _HEAD_SIZE + host_size
        store_be64(at, np.int64(store_timestamp))
        copy_bytes(at + _TIME_SIZE, tail, tail_size)
        at += _TIME_SIZE + tail_size
        store_be32(at, np.int32(body_size))
        copy_bytes(at + _BODY_LENGTH_SIZE, body_at, body_size)
        at += _BODY_LENGTH_SIZE + body_size
        copy_bytes(at, names + np.int64(load_le64(parts + 8 * row)), part_size)
        at += part_size
        store_be16(at, np.int16(record + size - at - _PROPERTIES_LENGTH_SIZE))
        at += _PROPERTIES_LENGTH_SIZE
        if tag > 0:
            store_be32(at, TAGS)
            store_8(at + 4, np.uint8(0x01))
            at = copy_text(at + NAME_4, tag_at, tag_end, 0x02)
        if key > 0:
            store_be32(at, KEYS)
            store_8(at + 4, np.uint8(0x01))
            at = copy_text(at + NAME_4, key_at, key_end, 0x02)
        if own > 0:
            store_be64(at, UNIQUE)
            store_8(at + 8, np.uint8(0x01))
            at = copy_text(at + NAME_8, own_at, own_end, 0x02)
        record += size
        physical += size
    return np.int64(record - buffer)


@kernel
def add_queue(words, row, begin, size, queue_id):
    """Have a row of the directory, which is filled, found under a topic's bytes and a queue id."""
    value = _hash_of(begin, begin + size, queue_id, np.uint64(_word(words, _FACTOR)))
    store_64(_word(words, _HASHES) + 8 * row, np.int64(value))
    table, mask = _word(words, _TABLE), np.uint64(_word(words, _MASK))
    place = value >> np.uint64(20) & mask
    while _int32(table, np.int64(place)) != 0:
        place = place + np.uint64(1) & mask
    store_32(table + 4 * np.int64(place), np.int32(row + 1))
    return 0
