"""Decode a range of the log into columns: one pass, each byte of the records looked at once.

The twin of `reput.kernels.reference.decode_range`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.kernels.columns import HAS_TAG_ITEM, IN_INDEX, IN_QUEUE, INNER_BATCH, MULTI_DISPATCH, State, Stop
from reput.kernels.compiled.examine import BAD_TOPIC, BLANK, GOOD, examine_parts, is_topic_folder_name
from reput.kernels.compiled.hashing import java_hash_at
from reput.kernels.compiled.jit import kernel
from reput.kernels.compiled.memory import (
    address_of,
    byte_at,
    load_be32,
    load_be64,
    load_le64,
    prefetch,
    separators_32,
    spaces_32,
    trailing_zeros,
)


def _start_of(name: bytes) -> np.uint64:
    """The first eight bytes of a property: its name and the 0x01 behind it, as a little-endian number."""
    return np.uint64(int.from_bytes((name + b"\x01")[:8], "little"))


_KEYS, _TAGS, _UNIQ_KEY = _start_of(props.KEYS), _start_of(props.TAGS), _start_of(props.UNIQ_KEY)
_DELAY, _INNER_MULTI = _start_of(props.DELAY), _start_of(props.INNER_MULTI_DISPATCH)
_FIVE_BYTES, _SIX_BYTES = np.uint64((1 << 40) - 1), np.uint64((1 << 48) - 1)
_MULTI_DISPATCH = np.frombuffer(props.INNER_MULTI_DISPATCH + b"\x01", dtype=np.uint8)
_MULTI_QUEUE_OFFSET = np.frombuffer(props.INNER_MULTI_QUEUE_OFFSET + b"\x01", dtype=np.uint8)
_SCHEDULE_TOPIC = np.frombuffer(fmt.SCHEDULE_TOPIC, dtype=np.uint8)
_DELAY_NAME = np.frombuffer(props.DELAY + b"\x01", dtype=np.uint8)
_PREFETCH_AHEAD = 2048
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
_ABOVE_INT = 1 << 32


@kernel
def starts_with(begin, end, name):
    """Whether [begin, end) begins with the bytes of `name`."""
    if end - begin < len(name):
        return False
    for n in range(len(name)):
        if byte_at(begin + n) != name[n]:
            return False
    return True


@kernel
def next_separator(at, end, limit):
    """Address of the next 0x02, or `end`."""
    while at < end and at + 32 <= limit:
        found = separators_32(at)
        if found:
            return min(at + trailing_zeros(found), end)
        at += 32
    while at < end and byte_at(at) != 0x02:
        at += 1
    return min(at, end)


@kernel
def next_space(at, end, limit):
    """Address of the next space, or `end`."""
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
    """Begin and end of the values that dispatch looks at: UNIQ_KEY, KEYS, TAGS, DELAY (0, 0: none).

    Last, whether both properties of a message for light queues are there. Of a name given twice the later
    value wins; a name without a value does not count.
    """
    unique, unique_end, keys, keys_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    tags, tags_end, delay, delay_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    multi = 0
    piece = begin
    while piece < end:
        stop = next_separator(piece, end, limit)
        if piece + 8 <= limit:
            word = load_le64(piece)
            if word & _FIVE_BYTES == _KEYS:
                if stop > piece + 5:
                    keys, keys_end = piece + 5, stop
            elif word & _FIVE_BYTES == _TAGS:
                if stop > piece + 5:
                    tags, tags_end = piece + 5, stop
            elif word == _UNIQ_KEY:
                if stop > piece + 9 and byte_at(piece + 8) == 0x01:
                    unique, unique_end = piece + 9, stop
            elif word & _SIX_BYTES == _DELAY:
                if stop > piece + 6:
                    delay, delay_end = piece + 6, stop
            elif word == _INNER_MULTI:
                if stop - piece > len(_MULTI_DISPATCH) and starts_with(piece, stop, _MULTI_DISPATCH):
                    multi |= 1
                elif stop - piece > len(_MULTI_QUEUE_OFFSET) and starts_with(piece, stop, _MULTI_QUEUE_OFFSET):
                    multi |= 2
        elif stop > piece + 5:
            # The last bytes of the buffer: what is left of it is shorter than a word, so spell the name.
            if byte_at(piece + 4) == 0x01 and byte_at(piece + 3) == 0x53:
                first, second, third = byte_at(piece), byte_at(piece + 1), byte_at(piece + 2)
                if first == 0x4B and second == 0x45 and third == 0x59:
                    keys, keys_end = piece + 5, stop
                elif first == 0x54 and second == 0x41 and third == 0x47:
                    tags, tags_end = piece + 5, stop
            elif stop > piece + 6 and starts_with(piece, stop, _DELAY_NAME):
                delay, delay_end = piece + 6, stop
        piece = stop + 1
    return unique, unique_end, keys, keys_end, tags, tags_end, delay, delay_end, multi == 3


@kernel
def queue_key_of(begin, end, queue_id):
    """A 64-bit mix of the topic's bytes and the queue id, to find the queue's row."""
    key = np.uint64(queue_id) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        key = (key ^ load_le64(at)) * np.uint64(0xFF51AFD7ED558CCD)
        key ^= key >> np.uint64(32)
        at += 8
    while at < end:
        key = (key ^ np.uint64(byte_at(at))) * np.uint64(0xFF51AFD7ED558CCD)
        at += 1
    return key ^ key >> np.uint64(29)


@kernel
def same_bytes(first, second, size):
    """Whether `size` bytes at two addresses are the same."""
    n = 0
    if size < 8:
        while n < size:
            if byte_at(first + n) != byte_at(second + n):
                return False
            n += 1
        return True
    while n + 8 < size:
        if load_le64(first + n) != load_le64(second + n):
            return False
        n += 8
    # The last eight, some of them for the second time.
    return load_le64(first + size - 8) == load_le64(second + size - 8)


@kernel
def _parse_java_int(begin, end):
    """What Integer.parseInt makes of ASCII text; 0 where it is no number."""
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
    """The Java hash of a string with hash `value` after two more ASCII characters."""
    return np.int64(np.int32((value * 31 + first) * 31 + second & 0xFFFFFFFF))


@kernel
def decode_range(
    buffer, base, begin, end, limit, crc_check, tag_items, delays_ms, position_out, size_out, queue_out,
    queue_offset_out, tags_code_out, store_timestamp_out, flags_out, first_item_out, item_hash_out,
    queue_id_out, topic_at_out, topic_size_out, topic_hash_out, is_schedule_out, names, queue_table,
    queue_key, state,
):  # fmt: skip
    """Decode records from `begin` until one starts at or past `end`; returns why it stopped (`Stop`).

    `buffer[0]` stands at log offset `base`; nothing at or past `limit` (the file's end) is read.
    """
    data, topics = address_of(buffer), address_of(names)
    last = data + limit
    n, items, queues, names_used = state[_S_RECORDS], state[_S_ITEMS], state[_S_QUEUES], state[_S_NAMES]
    last_time, max_time = state[_S_LAST_TIME], state[_S_MAX_TIME]
    mask = np.uint64(len(queue_table) - 1)
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

        # The queue: its row in the table, made at its first record.
        queue_id = load_be32(record + _QUEUE_ID_AT)
        topic_size = topic_end - topic
        key = queue_key_of(topic, topic_end, queue_id)
        place = key & mask
        row = np.int64(queue_table[place]) - 1
        while row >= 0 and not (
            queue_key[row] == key
            and queue_id_out[row] == queue_id
            and topic_size_out[row] == topic_size
            and same_bytes(topic, topics + topic_at_out[row], topic_size)
        ):
            place = place + np.uint64(1) & mask
            row = np.int64(queue_table[place]) - 1
        # A topic that is in the table has been looked at.
        if row < 0 and not is_topic_folder_name(topic, topic_end):
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
                names[names_used + k] = byte_at(topic + k)
            topic_hash = java_hash_at(topic, topic_end, np.int64(0))
            topic_hash_out[row] = np.int32(topic_hash * 31 + 0x23 & 0xFFFFFFFF)
            is_schedule_out[row] = topic_size == len(_SCHEDULE_TOPIC) and starts_with(topic, topic_end, _SCHEDULE_TOPIC)
            names_used += topic_size
            queues += 1

        unique, unique_end, keys, keys_end, tags, tags_end, delay, delay_end, multi = find_properties(
            topic_end + 2, record + size, last
        )
        store_timestamp = load_be64(record + _STORE_TIMESTAMP_AT + (_V6_MORE if sys_flag & _BORN_V6 else 0))
        transaction = sys_flag & _TRANSACTION
        tags_code = java_hash_at(tags, tags_end, np.int64(0)) if tags_end > tags else np.int64(0)
        if is_schedule_out[row] and delay_end > delay:
            level = min(_parse_java_int(delay, delay_end), np.int64(len(delays_ms) - 1))
            if level > 0:
                tags_code = store_timestamp + delays_ms[level]

        # The items: unique key, keys, tag.
        flags = 0
        new_items = items
        if transaction != _ROLLBACK:
            flags = IN_INDEX if transaction == _PREPARED else IN_INDEX | IN_QUEUE
            seed = np.int64(topic_hash_out[row])
            # Room for the most there can be: a key takes two bytes with its space; the unique key, a last key
            # and the tag one item each.
            if new_items + (keys_end - keys) // 2 + 3 > len(item_hash_out):
                stop = _ITEMS_FULL
                break
            if unique_end > unique:
                item_hash_out[new_items] = _item_hash(unique, unique_end, seed)
                new_items += 1
            while keys < keys_end:
                space = next_space(keys, keys_end, last)
                if space > keys:
                    item_hash_out[new_items] = _item_hash(keys, space, seed)
                    new_items += 1
                keys = space + 1
            if tag_items and tags_end > tags:
                item_hash_out[new_items] = _item_hash(tags, tags_end, _prefix_hash(seed, 0x54, 0x23))
                new_items += 1
                flags |= HAS_TAG_ITEM

        if transaction:
            state[_S_PREPARED] += transaction == _PREPARED
            state[_S_ROLLED_BACK] += transaction == _ROLLBACK
        if sys_flag & _INNER_BATCH:
            if state[_S_BATCHES] == 0:
                state[_S_FIRST_BATCH] = base + position
            state[_S_BATCHES] += 1
            flags |= INNER_BATCH
        if multi:
            if state[_S_MULTI] == 0:
                state[_S_FIRST_MULTI] = base + position
            state[_S_MULTI] += 1
            flags |= MULTI_DISPATCH
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
        queue_offset_out[n] = load_be64(record + _QUEUE_OFFSET_AT)
        tags_code_out[n] = tags_code
        store_timestamp_out[n] = store_timestamp
        flags_out[n] = flags
        items = new_items
        n += 1
        first_item_out[n] = items
        position += size
    state[_S_RECORDS], state[_S_ITEMS], state[_S_QUEUES], state[_S_NAMES] = n, items, queues, names_used
    state[_S_POSITION], state[_S_VERDICT] = position, verdict
    state[_S_LAST_TIME], state[_S_MAX_TIME] = last_time, max_time
    return stop
