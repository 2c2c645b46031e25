"""Decode a range of the log into columns: one pass, each byte of the records looked at once.

The twin of `reput.kernels.reference.decode_range`, which is the specification.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.kernels.columns import HAS_TAG_ITEM, IN_INDEX, IN_QUEUE, State, Stop
from reput.kernels.compiled.examine import BAD_TOPIC, BLANK, GOOD, examine_parts, is_topic_folder_name
from reput.kernels.compiled.hashing import java_hash
from reput.kernels.compiled.memory import (
    count_trailing_zeros,
    find_separators_32,
    load_be32,
    load_be64,
    load_le32,
    load_le64,
)


def _word(name: bytes) -> int:
    return int.from_bytes(name, "little")


_KEYS, _TAGS = np.uint32(_word(props.KEYS)), np.uint32(_word(props.TAGS))
_UNIQ_KEY = np.uint64(_word(props.UNIQ_KEY))
_DELAY = np.frombuffer(props.DELAY, dtype=np.uint8)
_MULTI_DISPATCH = np.frombuffer(props.INNER_MULTI_DISPATCH, dtype=np.uint8)
_MULTI_QUEUE_OFFSET = np.frombuffer(props.INNER_MULTI_QUEUE_OFFSET, dtype=np.uint8)
_SCHEDULE_TOPIC = np.frombuffer(fmt.SCHEDULE_TOPIC, dtype=np.uint8)
_QUEUE_ID_AT, _QUEUE_OFFSET_AT = fmt.HEAD.offsets["queue_id"], fmt.HEAD.offsets["queue_offset"]
_STORE_TIMESTAMP_AT, _V6_MORE = fmt.STORE_TIMESTAMP_AT_V4, fmt.HOST_V6_SIZE - fmt.HOST_V4_SIZE
_BORN_V6, _INNER_BATCH = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_INNER_BATCH
_TRANSACTION, _PREPARED, _ROLLBACK = fmt.TRANSACTION_MASK, fmt.TRANSACTION_PREPARED, fmt.TRANSACTION_ROLLBACK

_REACHED_END, _FILE_END, _NOT_A_RECORD = int(Stop.REACHED_END), int(Stop.FILE_END), int(Stop.NOT_A_RECORD)
_RECORDS_FULL, _ITEMS_FULL, _QUEUES_FULL = int(Stop.RECORDS_FULL), int(Stop.ITEMS_FULL), int(Stop.QUEUES_FULL)
_S_RECORDS, _S_ITEMS, _S_QUEUES, _S_NAMES = (
    int(State.RECORDS),
    int(State.ITEMS),
    int(State.QUEUES),
    int(State.NAMES),
)
_S_POSITION, _S_VERDICT, _S_PREPARED = int(State.POSITION), int(State.VERDICT), int(State.PREPARED)
_S_ROLLED_BACK, _S_BATCHES, _S_FIRST_BATCH = (
    int(State.ROLLED_BACK),
    int(State.INNER_BATCHES),
    int(State.FIRST_INNER_BATCH),
)
_S_MULTI, _S_FIRST_MULTI = int(State.MULTI_DISPATCHES), int(State.FIRST_MULTI_DISPATCH)
_S_REGRESSIONS, _S_FIRST_REGRESSION = int(State.TIME_REGRESSIONS), int(State.FIRST_TIME_REGRESSION)
_S_LAST_TIME, _S_FIRST_TIME = int(State.LAST_STORE_TIMESTAMP), int(State.FIRST_STORE_TIMESTAMP)
_S_MAX_TIME = int(State.MAX_STORE_TIMESTAMP)
_UNKNOWN_LEVEL_DELAY_MS = 1000
_ABOVE_INT = 1 << 32


@njit(cache=True, nogil=True)
def _equals(buffer, begin, end, name):
    if end - begin != len(name):
        return False
    for n in range(len(name)):
        if buffer[begin + n] != name[n]:
            return False
    return True


@njit(cache=True, nogil=True)
def _note_property(buffer, begin, separator, end, found):
    """Remember where the value of a known name stands: `found` holds begin and end of UNIQ_KEY ..."""
    if separator <= begin or separator + 1 >= end:
        return
    length = separator - begin
    which = -1
    if length == 4:
        name = load_le32(buffer, begin)
        if name == _KEYS:
            which = 1
        elif name == _TAGS:
            which = 2
    elif length == 8:
        if load_le64(buffer, begin) == _UNIQ_KEY:
            which = 0
    elif length == 5:
        if _equals(buffer, begin, separator, _DELAY):
            which = 3
    elif length == 20:
        if _equals(buffer, begin, separator, _MULTI_DISPATCH):
            which = 4
    elif length == 24 and _equals(buffer, begin, separator, _MULTI_QUEUE_OFFSET):
        which = 5
    if which >= 0:
        found[2 * which] = separator + 1
        found[2 * which + 1] = end


@njit(cache=True, nogil=True)
def scan_properties(buffer, begin, end, limit, found):
    """Find the values of the properties that dispatch looks at; a later one of the same name wins."""
    for n in range(len(found)):
        found[n] = 0
    piece, separator, position = begin, np.int64(-1), begin
    while position < end and position + 32 <= limit:
        bits = find_separators_32(buffer, position)
        if position + 32 > end:
            bits &= np.uint32((np.uint64(1) << np.uint64(end - position)) - np.uint64(1))
        while bits:
            at = position + np.int64(count_trailing_zeros(bits))
            bits &= bits - np.uint32(1)
            if buffer[at] == 0x02:
                _note_property(buffer, piece, separator, at, found)
                piece, separator = at + 1, np.int64(-1)
            elif separator < 0:
                separator = at
        position += 32
    while position < end:
        if buffer[position] == 0x02:
            _note_property(buffer, piece, separator, position, found)
            piece, separator = position + 1, np.int64(-1)
        elif buffer[position] == 0x01 and separator < 0:
            separator = position
        position += 1
    if piece < end:
        _note_property(buffer, piece, separator, end, found)


@njit(cache=True, nogil=True)
def _topic_key(buffer, begin, end, queue_id):
    """A 64-bit mix of the topic's bytes and the queue id, to find the queue's row."""
    key = np.uint64(queue_id) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(end - begin)
    position = begin
    while position + 8 <= end:
        key = (key ^ load_le64(buffer, position)) * np.uint64(0xFF51AFD7ED558CCD)
        key ^= key >> np.uint64(32)
        position += 8
    while position < end:
        key = (key ^ np.uint64(buffer[position])) * np.uint64(0xFF51AFD7ED558CCD)
        position += 1
    return key ^ key >> np.uint64(29)


@njit(cache=True, nogil=True)
def _same_bytes(buffer, begin, names, at, size):
    n = 0
    while n + 8 <= size:
        if load_le64(buffer, begin + n) != load_le64(names, at + n):
            return False
        n += 8
    while n < size:
        if buffer[begin + n] != names[at + n]:
            return False
        n += 1
    return True


@njit(cache=True, nogil=True)
def _parse_java_int(buffer, begin, end):
    """What Integer.parseInt makes of ASCII text, and whether it is a number at all."""
    negative = buffer[begin] == 0x2D
    position = begin + 1 if negative or buffer[begin] == 0x2B else begin
    if position == end:
        return np.int64(0), False
    value = np.int64(0)
    while position < end:
        digit = np.int64(buffer[position]) - 0x30
        if digit < 0 or digit > 9:
            return np.int64(0), False
        # Leading zeros are allowed, so the text may be long; the bound keeps its value from wrapping.
        value = min(value * 10 + digit, _ABOVE_INT)
        position += 1
    if negative:
        value = -value
    return value, -0x80000000 <= value <= 0x7FFFFFFF


@njit(cache=True, nogil=True)
def _positive(value):
    # Java's Math.abs leaves Integer.MIN_VALUE negative, and the peer then takes 0.
    if value == np.int32(-0x80000000):
        return np.int32(0)
    return np.int32(-value) if value < 0 else np.int32(value)


@njit(cache=True, nogil=True)
def decode_range(
    buffer, base, begin, end, limit, crc_check, tag_items, delays_ms, position_out, size_out, queue_out,
    queue_offset_out, tags_code_out, store_timestamp_out, flags_out, first_item_out, item_hash_out,
    queue_id_out, topic_at_out, topic_size_out, topic_hash_out, is_schedule_out, names, queue_table,
    queue_key, state,
):  # fmt: skip
    """Decode records from `begin` until one starts at or past `end`; returns why it stopped (`Stop`).

    `buffer[0]` stands at log offset `base`; nothing at or past `limit` (the file's end) is read.
    """
    found = np.empty(12, dtype=np.int64)
    n, items, queues, names_used = state[_S_RECORDS], state[_S_ITEMS], state[_S_QUEUES], state[_S_NAMES]
    last_time, max_time = state[_S_LAST_TIME], state[_S_MAX_TIME]
    mask = np.uint64(len(queue_table) - 1)
    position, verdict, stop = np.int64(begin), GOOD, _REACHED_END
    while position < end:
        verdict, size, body_at, body_end, topic_at, topic_end, sys_flag = examine_parts(
            buffer, position, limit, base + position, crc_check
        )
        if verdict != GOOD:
            stop = _NOT_A_RECORD
            if verdict == BLANK:
                position += size
                stop = _FILE_END
            break
        record_end = position + size

        # The queue: its row in the table, made at its first record.
        queue_id = load_be32(buffer, position + _QUEUE_ID_AT)
        topic_size = topic_end - topic_at
        key = _topic_key(buffer, topic_at, topic_end, queue_id)
        place = key & mask
        row = np.int64(queue_table[place]) - 1
        while row >= 0 and not (
            queue_key[row] == key
            and queue_id_out[row] == queue_id
            and topic_size_out[row] == topic_size
            and _same_bytes(buffer, topic_at, names, np.int64(topic_at_out[row]), topic_size)
        ):
            place = place + np.uint64(1) & mask
            row = np.int64(queue_table[place]) - 1
        # A topic that is in the table has been looked at.
        if row < 0 and not is_topic_folder_name(buffer, topic_at, topic_end):
            verdict, stop = BAD_TOPIC, _NOT_A_RECORD
            break
        if n >= len(position_out):
            stop = _RECORDS_FULL
            break
        if row < 0:
            if queues >= len(queue_id_out) or names_used + topic_size > len(names):
                stop = _QUEUES_FULL
                break
            row = queues
            queue_table[place] = row + 1
            queue_key[row] = key
            queue_id_out[row] = queue_id
            topic_at_out[row] = names_used
            topic_size_out[row] = topic_size
            for k in range(topic_size):
                names[names_used + k] = buffer[topic_at + k]
            topic_hash = java_hash(buffer, topic_at, topic_end, np.int32(0))
            topic_hash_out[row] = np.int32(np.uint32(topic_hash) * np.uint32(31) + np.uint32(0x23))
            is_schedule_out[row] = _equals(buffer, topic_at, topic_end, _SCHEDULE_TOPIC)
            names_used += topic_size
            queues += 1

        scan_properties(buffer, topic_end + 2, record_end, limit, found)
        time_at = position + _STORE_TIMESTAMP_AT + (_V6_MORE if sys_flag & _BORN_V6 else 0)
        store_timestamp = load_be64(buffer, time_at)
        transaction = sys_flag & _TRANSACTION

        # The tags code, and the items: unique key, keys, tag.
        tags_code = np.int64(0)
        if found[5] > found[4]:
            tags_code = np.int64(java_hash(buffer, found[4], found[5], np.int32(0)))
        if is_schedule_out[row] and found[7] > found[6]:
            level, is_number = _parse_java_int(buffer, found[6], found[7])
            if is_number and level > 0:
                level = min(level, len(delays_ms) - 1)
                delay = delays_ms[level] if level > 0 else np.int64(-1)
                tags_code = store_timestamp + (delay if delay >= 0 else _UNKNOWN_LEVEL_DELAY_MS)
        flags = 0
        new_items = items
        if transaction != _ROLLBACK:
            flags = IN_INDEX
            seed = topic_hash_out[row]
            if new_items + 2 > len(item_hash_out):
                stop = _ITEMS_FULL
                break
            if found[1] > found[0]:
                item_hash_out[new_items] = _positive(java_hash(buffer, found[0], found[1], seed))
                new_items += 1
            word = found[2]
            for at in range(found[2], found[3] + 1):
                if at == found[3] or buffer[at] == 0x20:
                    if at > word:
                        if new_items + 2 > len(item_hash_out):
                            stop = _ITEMS_FULL
                            break
                        item_hash_out[new_items] = _positive(java_hash(buffer, word, at, seed))
                        new_items += 1
                    word = at + 1
            if stop == _ITEMS_FULL:
                break
            if tag_items and found[5] > found[4]:
                seed = np.int32(
                    (np.uint32(seed) * np.uint32(31) + np.uint32(0x54)) * np.uint32(31) + np.uint32(0x23)
                )
                item_hash_out[new_items] = _positive(java_hash(buffer, found[4], found[5], seed))
                new_items += 1
                flags |= HAS_TAG_ITEM
            if transaction == _PREPARED:
                state[_S_PREPARED] += 1
            else:
                flags |= IN_QUEUE
        else:
            state[_S_ROLLED_BACK] += 1

        if sys_flag & _INNER_BATCH:
            if state[_S_BATCHES] == 0:
                state[_S_FIRST_BATCH] = base + position
            state[_S_BATCHES] += 1
        if found[9] > found[8] and found[11] > found[10]:
            if state[_S_MULTI] == 0:
                state[_S_FIRST_MULTI] = base + position
            state[_S_MULTI] += 1
        if n == 0:
            state[_S_FIRST_TIME] = store_timestamp
        elif store_timestamp < last_time:
            if state[_S_REGRESSIONS] == 0:
                state[_S_FIRST_REGRESSION] = base + position
            state[_S_REGRESSIONS] += 1
        last_time = store_timestamp
        max_time = max(max_time, store_timestamp)

        position_out[n] = base + position
        size_out[n] = size
        queue_out[n] = row
        queue_offset_out[n] = load_be64(buffer, position + _QUEUE_OFFSET_AT)
        tags_code_out[n] = tags_code
        store_timestamp_out[n] = store_timestamp
        flags_out[n] = flags
        items = new_items
        n += 1
        first_item_out[n] = items
        position = record_end
    state[_S_RECORDS], state[_S_ITEMS], state[_S_QUEUES], state[_S_NAMES] = n, items, queues, names_used
    state[_S_POSITION], state[_S_VERDICT] = position, verdict
    state[_S_LAST_TIME], state[_S_MAX_TIME] = last_time, max_time
    return stop
