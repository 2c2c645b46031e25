"""Decode a range of the log into columns: one pass, each byte of the records looked at once.

The twin of `reput.kernels.reference.decode.decode_range`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log import properties as props
from reput.formats.log import record as fmt
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.examine import (
    BAD_TOPIC,
    BLANK,
    GOOD,
    PROPERTIES_LENGTH_SIZE,
    examine_parts,
    is_topic_folder_name,
)
from reput.kernels.compiled.tools.hashing import java_hash_at
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    byte_at,
    load_be32,
    load_be64,
    load_le64,
    prefetch,
    separators_32,
    spaces_32,
    store_32,
    trailing_zeros,
)
from reput.kernels.compiled.tools.rows import add_row, find_row, queue_key_of, row_places, starts_with
from reput.kernels.layouts.columns import HAS_TAG_ITEM, IN_INDEX, IN_QUEUE, INNER_BATCH, MULTI_DISPATCH, StateAt, Stop


def _start_of(name: bytes) -> np.uint64:
    """Return the first eight bytes of a property, its name and the 0x01 after it, as a little-endian number."""
    return np.uint64(int.from_bytes((name + props.NAME_END)[:8], "little"))


_KEYS, _TAGS, _UNIQ_KEY = _start_of(props.KEYS), _start_of(props.TAGS), _start_of(props.UNIQUE_KEY)
_DELAY, _INNER_MULTI = _start_of(props.DELAY), _start_of(props.INNER_MULTI_DISPATCH)
_NAME_4, _NAME_5, _NAME_8 = (len(name + props.NAME_END) for name in (props.KEYS, props.DELAY, props.UNIQUE_KEY))
"""Bytes of names and their separators."""
_FIRST_4, _FIRST_5 = np.uint64((1 << 8 * _NAME_4) - 1), np.uint64((1 << 8 * _NAME_5) - 1)
_MULTI_DISPATCH = np.frombuffer(props.INNER_MULTI_DISPATCH + props.NAME_END, dtype=np.uint8)
_MULTI_QUEUE_OFFSET = np.frombuffer(props.INNER_MULTI_QUEUE_OFFSET + props.NAME_END, dtype=np.uint8)
_DELAY_NAME = np.frombuffer(props.DELAY + props.NAME_END, dtype=np.uint8)
_PREFETCH_AHEAD = 2048
_QUEUE_ID_AT, _QUEUE_OFFSET_AT = fmt.HEAD.offsets["queue_id"], fmt.HEAD.offsets["queue_offset"]
_STORE_TIMESTAMP_AT, _V6_MORE = fmt.STORE_TIMESTAMP_AT_V4, fmt.V6_MORE
_BORN_V6, _INNER_BATCH = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_INNER_BATCH
_TRANSACTION, _PREPARED, _ROLLBACK = fmt.TRANSACTION_MASK, fmt.TRANSACTION_PREPARED, fmt.TRANSACTION_ROLLBACK

_REACHED_END, _FILE_END, _NOT_A_RECORD = int(Stop.REACHED_END), int(Stop.FILE_END), int(Stop.NOT_A_RECORD)
_RECORDS_FULL, _ITEMS_FULL, _QUEUES_FULL = int(Stop.RECORDS_FULL), int(Stop.ITEMS_FULL), int(Stop.QUEUES_FULL)


@kernel
def next_separator(at, end, limit):
    """Return the address of the next 0x02, or `end`."""
    while at < end and at + 32 <= limit:
        found = separators_32(at)
        if found:
            return min(at + trailing_zeros(found), end)
        at += 32
    while at < end and byte_at(at) != PROPERTY_SEPARATOR:
        at += 1
    return min(at, end)


@kernel
def next_space(at, end, limit):
    """Return the address of the next space, or `end`."""
    while at < end and at + 32 <= limit:
        found = spaces_32(at)
        if found:
            return min(at + trailing_zeros(found), end)
        at += 32
    while at < end and byte_at(at) != 0x20:
        at += 1
    return min(at, end)


@kernel
def find_properties(begin, end, limit):
    """Return begin and end of the values that dispatch reads: UNIQ_KEY, KEYS, TAGS, DELAY (0, 0: none).

    The last value is True if both properties of a message for light queues are there. Of a repeated name the last value
    counts; a name without a value does not count.
    """
    unique, unique_end, keys, keys_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    tags, tags_end, delay, delay_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    multi = 0
    piece = begin
    while piece < end:
        stop = next_separator(piece, end, limit)
        if piece + 8 <= limit:
            word = load_le64(piece)
            if word & _FIRST_4 == _KEYS:
                if stop > piece + _NAME_4:
                    keys, keys_end = piece + _NAME_4, stop
            elif word & _FIRST_4 == _TAGS:
                if stop > piece + _NAME_4:
                    tags, tags_end = piece + _NAME_4, stop
            elif word == _UNIQ_KEY:
                if stop > piece + _NAME_8 and byte_at(piece + _NAME_8 - 1) == NAME_VALUE_SEPARATOR:
                    unique, unique_end = piece + _NAME_8, stop
            elif word & _FIRST_5 == _DELAY:
                if stop > piece + _NAME_5:
                    delay, delay_end = piece + _NAME_5, stop
            elif word == _INNER_MULTI:
                if stop - piece > len(_MULTI_DISPATCH) and starts_with(piece, stop, _MULTI_DISPATCH):
                    multi |= 1
                elif stop - piece > len(_MULTI_QUEUE_OFFSET) and starts_with(piece, stop, _MULTI_QUEUE_OFFSET):
                    multi |= 2
        elif stop > piece + _NAME_4:
            # The last bytes of the buffer are fewer than a word, so compare the name byte by byte.
            if byte_at(piece + _NAME_4 - 1) == NAME_VALUE_SEPARATOR and byte_at(piece + 3) == 0x53:
                first, second, third = byte_at(piece), byte_at(piece + 1), byte_at(piece + 2)
                if first == 0x4B and second == 0x45 and third == 0x59:
                    keys, keys_end = piece + _NAME_4, stop
                elif first == 0x54 and second == 0x41 and third == 0x47:
                    tags, tags_end = piece + _NAME_4, stop
            elif stop > piece + _NAME_5 and starts_with(piece, stop, _DELAY_NAME):
                delay, delay_end = piece + _NAME_5, stop
        piece = stop + 1
    return unique, unique_end, keys, keys_end, tags, tags_end, delay, delay_end, multi == 3


@kernel
def _parse_java_int(begin, end):
    """Read ASCII text as Integer.parseInt does; return 0 if it is no number."""
    negative = byte_at(begin) == 0x2D
    at = begin + 1 if negative or byte_at(begin) == 0x2B else begin
    value = np.int64(0)
    if at == end:
        return value
    while at < end:
        digit = byte_at(at) - 0x30
        if digit < 0 or digit > 9:
            return np.int64(0)
        value = value * 10 + digit
        if value > 0x80000000:
            return np.int64(0)
        at += 1
    if negative:
        return -value
    return value if value <= 0x7FFFFFFF else np.int64(0)


@kernel
def _item_hash(begin, end, seed):
    # Java's Math.abs leaves Integer.MIN_VALUE negative, and the peer then takes 0.
    value = java_hash_at(begin, end, seed)
    return np.int32(0 if value == -0x80000000 else abs(value))


@kernel
def _prefix_hash(value, first, second):
    """Return the Java hash of a string with hash `value` after two more ASCII characters."""
    return np.int64(np.int32((value * 31 + first) * 31 + second & 0xFFFFFFFF))


@kernel
def _put_items(found, last, seed, tag_items, at):
    """Write the hashes of a record's items to an address; return how many, and whether the last is the tag's.

    `found` is what `find_properties` gives, `seed` the hash of topic and "#".
    """
    unique, unique_end, keys, keys_end, tags, tags_end = found[:6]
    first = at
    if unique_end > unique:
        store_32(at, _item_hash(unique, unique_end, seed))
        at += 4
    while keys < keys_end:
        space = next_space(keys, keys_end, last)
        if space > keys:
            store_32(at, _item_hash(keys, space, seed))
            at += 4
        keys = space + 1
    has_tag = tag_items and tags_end > tags
    if has_tag:
        store_32(at, _item_hash(tags, tags_end, _prefix_hash(seed, 0x54, 0x23)))
        at += 4
    return (at - first) // 4, has_tag


@kernel
def _count_first(state, counter, first, place):
    """Count one more of something; keep the log offset of the first."""
    if state[counter] == 0:
        state[first] = place
    state[counter] += 1


@kernel
def _count_rare(state, transaction, is_batch, is_multi, place):
    """Count a record that is one of few."""
    state[StateAt.prepared] += transaction == _PREPARED
    state[StateAt.rolled_back] += transaction == _ROLLBACK
    if is_batch:
        _count_first(state, StateAt.inner_batches, StateAt.first_inner_batch, place)
    if is_multi:
        _count_first(state, StateAt.multi_dispatches, StateAt.first_multi_dispatch, place)


@kernel
def _delayed_code(delay, delay_end, delays_ms, store_timestamp, tags_code):
    """Return the tags code of a delayed message: the time of its delivery, if its level is one."""
    level = min(_parse_java_int(delay, delay_end), np.int64(len(delays_ms) - 1))
    return store_timestamp + delays_ms[level] if level > 0 else tags_code


@kernel
def decode_range(log, begin, end, rules, arrays):
    """Decode records from `begin` until one starts at or past `end`; see the twin."""
    # Helpers take addresses and numbers; an array that is passed in the loop costs more than their work.
    buffer, base, limit = log
    records, queues, state = arrays.records, arrays.queues, arrays.state
    position_out, size_out, queue_out, queue_offset_out, tags_code_out, store_timestamp_out = records[:6]
    flags_out, first_item_out, item_hash_out = records[6:]
    crc_check, tag_items, delays_ms = rules
    topic_hash, is_schedule, places = queues.topic_hash, queues.is_schedule, row_places(queues)
    data, hashes, most_hashes = address_of(buffer), address_of(item_hash_out), len(item_hash_out)
    last = data + limit
    n, items, rows = state[StateAt.records], state[StateAt.items], state[StateAt.queues]
    last_time, max_time = state[StateAt.last_store_timestamp], state[StateAt.max_store_timestamp]
    position, verdict, stop = np.int64(begin), GOOD, _REACHED_END
    while position < end:
        record = data + position
        verdict, size, _, topic, topic_end, sys_flag = examine_parts(record, last, base + position, crc_check)
        if verdict != GOOD:
            stop = _NOT_A_RECORD
            if verdict == BLANK:
                position += size
                stop = _FILE_END
            break
        # Records are short and the log is long: the next lines come from memory, so ask for them early.
        for line in range(0, min(size, _PREFETCH_AHEAD), 64):
            prefetch(record + _PREFETCH_AHEAD + line)

        queue_id = load_be32(record + _QUEUE_ID_AT)
        key = queue_key_of(topic, topic_end, queue_id)
        row, place = find_row(places, rows, topic, topic_end, queue_id, key)
        # A topic that is in the table has been looked at.
        if row < 0 and not is_topic_folder_name(topic, topic_end):
            verdict, stop = BAD_TOPIC, _NOT_A_RECORD
            break
        if n >= len(position_out):
            stop = _RECORDS_FULL
            break
        if row < 0:
            row = add_row(queues, state, place, topic, topic_end, queue_id, key)
            if row < 0:
                stop = _QUEUES_FULL
                break
            rows = row + 1

        found = find_properties(topic_end + PROPERTIES_LENGTH_SIZE, record + size, last)
        _, _, keys, keys_end, tags, tags_end, delay, delay_end, multi = found
        store_timestamp = load_be64(record + _STORE_TIMESTAMP_AT + (_V6_MORE if sys_flag & _BORN_V6 else 0))
        tags_code = java_hash_at(tags, tags_end, np.int64(0)) if tags_end > tags else np.int64(0)
        if is_schedule[row] and delay_end > delay:
            tags_code = _delayed_code(delay, delay_end, delays_ms, store_timestamp, tags_code)

        transaction, flags, new_items = sys_flag & _TRANSACTION, 0, np.int64(0)
        if transaction != _ROLLBACK:
            # Space for the most items there can be: a key takes two bytes with its space; the unique key, a last key
            # and the tag one item each.
            if items + (keys_end - keys) // 2 + 3 > most_hashes:
                stop = _ITEMS_FULL
                break
            flags = IN_INDEX if transaction == _PREPARED else IN_INDEX | IN_QUEUE
            new_items, has_tag = _put_items(found, last, np.int64(topic_hash[row]), tag_items, hashes + 4 * items)
            flags |= HAS_TAG_ITEM if has_tag else 0
        if multi or sys_flag & (_TRANSACTION | _INNER_BATCH):
            _count_rare(state, transaction, sys_flag & _INNER_BATCH, multi, base + position)
            flags |= (INNER_BATCH if sys_flag & _INNER_BATCH else 0) | (MULTI_DISPATCH if multi else 0)
        if n == 0:
            state[StateAt.first_store_timestamp] = store_timestamp
        elif store_timestamp < last_time:
            _count_first(state, StateAt.time_regressions, StateAt.first_time_regression, base + position)
        last_time = store_timestamp
        max_time = max(max_time, store_timestamp)

        position_out[n] = base + position
        size_out[n] = size
        queue_out[n] = row
        queue_offset_out[n] = load_be64(record + _QUEUE_OFFSET_AT)
        tags_code_out[n] = tags_code
        store_timestamp_out[n] = store_timestamp
        flags_out[n] = flags
        items += new_items
        n += 1
        first_item_out[n] = items
        position += size
    state[StateAt.records], state[StateAt.items] = n, items
    state[StateAt.position], state[StateAt.verdict] = position, verdict
    state[StateAt.last_store_timestamp], state[StateAt.max_store_timestamp] = last_time, max_time
    return stop
