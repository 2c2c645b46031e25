"""Lookups that are answered in one call: a pull, an offset by time, messages by key.

A call costs Python some 0.1 us, 15 ns of it for each number; an array would cost 0.1 us more, a text 1.5 us. So
what does not change from call to call stands in a vector (see `reput.kernels.lookup_columns`), and what is found goes
into a room that serves many calls. These kernels keep the GIL: to let go of it takes 40 ns, and as long as they keep
it no other thread can drop a map under them, or write into the same room.

The twin of `reput.kernels.reference_lookup`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats import consume_queue as queue_fmt
from reput.formats import index_file as index_fmt
from reput.formats import record as fmt
from reput.kernels.compiled.decode import find_properties, next_space, same_bytes
from reput.kernels.compiled.examine import GOOD, examine_parts
from reput.kernels.compiled.hashing import java_hash_at
from reput.kernels.compiled.jit import BYTES, INT, entry_kernel, kernel
from reput.kernels.compiled.memory import (
    address_of,
    byte_at,
    load_be32,
    load_be64,
    load_le64,
    prefetch,
    store_64,
)
from reput.kernels.compiled.select import is_blank
from reput.kernels.lookup_columns import (
    ASK,
    COUNT_BITS,
    MOST_MESSAGES,
    NEEDS_FILE,
    NEEDS_ROOM,
    Index,
    KeyTopic,
    Queue,
    Room,
    Table,
    Watch,
)

_ENTRY_SIZE, _SIZE_AT = queue_fmt.ENTRY_SIZE, queue_fmt.ENTRY.offsets["size"]
_MIN_SIZE, _SYS_FLAG_AT, _CHECK_NONE = fmt.MIN_RECORD_SIZE, fmt.SYS_FLAG_AT, fmt.CHECK_NONE
_BORN_V6 = fmt.FLAG_BORN_HOST_V6
_TIME_AT, _TIME_AT_V6 = fmt.STORE_TIMESTAMP_AT_V4, fmt.STORE_TIMESTAMP_AT_V4 + fmt.HOST_V6_SIZE - fmt.HOST_V4_SIZE
_HEADER_SIZE, _SLOT_SIZE, _ITEM_SIZE = index_fmt.HEADER_SIZE, index_fmt.SLOT_SIZE, index_fmt.ITEM_SIZE
_BEGIN_TIME_AT, _END_TIME_AT = (
    index_fmt.HEADER.offsets["begin_timestamp"],
    index_fmt.HEADER.offsets["end_timestamp"],
)
_INDEX_COUNT_AT = index_fmt.HEADER.offsets["index_count"]
_ITEM_AT = index_fmt.ITEM.offsets
_PHYSICAL_AT, _DIFF_AT, _PREVIOUS_AT = _ITEM_AT["physical_offset"], _ITEM_AT["time_diff_s"], _ITEM_AT["previous_item"]
_MIN_PULL_BYTES = 100
_PREFETCH = 320
"""Bytes of a record that are asked for at once, before its lengths say where its properties stand."""

_ASK, _NEEDS_FILE, _NEEDS_ROOM = np.int64(ASK), np.int64(NEEDS_FILE), np.int64(NEEDS_ROOM)
_COUNT_BITS, _MOST = COUNT_BITS, MOST_MESSAGES
_FREE, _ROOM_END, _PLACE = int(Room.FREE), int(Room.END), 16
_INDEX_AT, _TOPIC_HASH = int(KeyTopic.INDEX_AT), int(KeyTopic.HASH)
_TOPIC_SIZE, _TOPIC_BYTES = int(KeyTopic.SIZE), int(KeyTopic.BYTES)
_T_FIRST, _T_COUNT, _T_FILES = int(Table.FIRST), int(Table.COUNT), int(Table.FILES)
_CONFIRMED_AT, _CONFIRMED = int(Watch.CONFIRMED_AT), int(Watch.CONFIRMED)
_FRONTIER_AT, _FRONTIER = int(Watch.FRONTIER_AT), int(Watch.FRONTIER)
_GENERATION_AT, _GENERATION = int(Watch.GENERATION_AT), int(Watch.GENERATION)
_LOG_AT, _LOG_FILE_SIZE, _LOG_END = int(Watch.LOG_AT), int(Watch.LOG_FILE_SIZE), int(Watch.LOG_END)
_FIRST, _END, _FILE_ENTRIES, _FILES_AT = int(Queue.FIRST), int(Queue.END), int(Queue.FILE_ENTRIES), int(Queue.FILES_AT)
_BEGIN, _BEHIND, _ENTRIES_AT, _IS_LAST = int(Queue.BEGIN), int(Queue.BEHIND), int(Queue.ENTRIES_AT), int(Queue.IS_LAST)
_RECORDS_BEGIN, _RECORDS_END = int(Queue.RECORDS_BEGIN), int(Queue.RECORDS_END)
_MOST_MESSAGES, _MOST_BYTES, _STOP_BYTES = int(Queue.MOST_MESSAGES), int(Queue.MOST_BYTES), int(Queue.STOP_BYTES)
_SLOTS, _ITEMS, _BELOW = int(Index.SLOTS), int(Index.ITEMS), int(Index.BELOW)
_INDEX_COUNT, _INDEX_FILES = int(Index.COUNT), int(Index.FILES)


@kernel
def _word(vector, place):
    return np.int64(load_le64(vector + 8 * place))


@kernel
def _has_changed(vector):
    """Whether more is confirmed or indexed than the vector knows of, or the indexes have been replaced."""
    at = _word(vector, _CONFIRMED_AT)
    if at and _word(at, 0) > _word(vector, _CONFIRMED):
        return True
    at = _word(vector, _FRONTIER_AT)
    if at and _word(at, 0) > _word(vector, _FRONTIER):
        return True
    at = _word(vector, _GENERATION_AT)
    return at != 0 and _word(at, 0) != _word(vector, _GENERATION)


@kernel
def _file(table, number):
    """Address of a mapped file; 0 where it is not mapped yet, -1 where there is none."""
    place = number - _word(table, _T_FIRST)
    if place < 0 or place >= _word(table, _T_COUNT):
        return np.int64(-1)
    return _word(table, _T_FILES + place)


@kernel
def _take(room, free, count):
    """Keep the places that were written from word `free` of a room on; returns the answer that names them."""
    store_64(room + 8 * _FREE, free + 2 * count)
    return free << _COUNT_BITS | count


@entry_kernel(INT, INT, INT, INT, INT)
def pull_entries(queue, offset, max_messages, max_bytes, room):
    """The places of a pull's records, from the queue's window, into the room.

    Returns where they stand and how many, at least 1 (see COUNT_BITS); or ASK or NEEDS_ROOM.
    """
    left = _word(queue, _BEHIND) - offset
    if offset < _word(queue, _BEGIN) or left <= 0 or not 0 < max_messages <= _MOST or _has_changed(queue):
        return _ASK
    at = _word(queue, _ENTRIES_AT) + (offset - _word(queue, _BEGIN)) * _ENTRY_SIZE
    begin, end = _word(queue, _RECORDS_BEGIN), _word(queue, _RECORDS_END)
    most = min(max_messages, _word(queue, _MOST_MESSAGES))
    reach = min(most, left)
    stop_bytes = min(max(max_bytes, _MIN_PULL_BYTES), _word(queue, _STOP_BYTES))
    most_bytes = min(stop_bytes, _word(queue, _MOST_BYTES))
    free = _word(room, _FREE)
    if free + 2 * reach > _word(room, _ROOM_END):
        return _NEEDS_ROOM
    place = room + 8 * free
    taken, total = np.int64(0), np.int64(0)
    for _ in range(reach):
        if total >= stop_bytes:
            return _take(room, free, taken)
        physical, size = load_be64(at), load_be32(at + _SIZE_AT)
        if taken > 0 and total + size > most_bytes:
            return _take(room, free, taken)
        # Blank entries and expired records, too: those are for the pull that knows all cases.
        if physical < begin or size < _MIN_SIZE or physical + size > end:
            return _ASK
        store_64(place, physical)
        store_64(place + 8, size)
        place += _PLACE
        taken += 1
        total += size
        at += _ENTRY_SIZE
    if taken == 0 or (taken == left and taken < most and total < stop_bytes and not _word(queue, _IS_LAST)):
        return _ASK
    return _take(room, free, taken)


@kernel
def _prefetch_record(entry, log, begin, end):
    """Ask for the record of an entry, if it is in this file of the log, before it is known whether it will be read."""
    physical = load_be64(entry)
    if begin <= physical < end:
        prefetch(log + physical - begin + _TIME_AT)


@entry_kernel(INT, INT, INT)
def seek_time(queue, timestamp, above):
    """The first offset in [FIRST, END) whose message was stored at or after a time, with `above` 1 after it; else END.

    Entries without a record count as the next one that has one. NEEDS_FILE or below: map that file, and call again.
    """
    if _has_changed(queue):
        return _ASK
    timestamp += above
    file_entries, file_size = _word(queue, _FILE_ENTRIES), _word(queue, _LOG_FILE_SIZE)
    low, high = _word(queue, _FIRST), _word(queue, _END)
    last = high
    # The files that the last step was in: offsets of their begin and end, and where they are mapped. A division takes
    # as long as the rest of a step.
    queue_begin, queue_end, entries = np.int64(0), np.int64(0), np.int64(0)
    log_begin, log_end, log = np.int64(0), np.int64(0), np.int64(0)
    while low < high:
        middle = (low + high) // 2
        probe, time = middle, np.int64(-1)
        while probe < last:
            if not queue_begin <= probe < queue_end:
                number = probe // file_entries
                queue_begin, queue_end = number * file_entries, (number + 1) * file_entries
                entries = _file(_word(queue, _FILES_AT), number)
                if entries == 0:
                    return _NEEDS_FILE - 2 * number - 1
            at = entries + (probe - queue_begin) * _ENTRY_SIZE
            if entries > 0:
                physical, size = load_be64(at), load_be32(at + _SIZE_AT)
                if physical > 0 or (physical == 0 and not is_blank(physical, size)):
                    if not log_begin <= physical < log_end:
                        number = physical // file_size
                        log_begin, log_end = number * file_size, (number + 1) * file_size
                        log = _file(_word(queue, _LOG_AT), number)
                        if log == 0:
                            return _NEEDS_FILE - 2 * number
                    if log > 0 and physical + _MIN_SIZE <= log_end:
                        # A step waits for an entry and then for its record: ask for those of both next steps meanwhile.
                        # It halves the time; to ask for the four behind them, too, costs more than it saves.
                        following = (low + middle) // 2
                        if following >= queue_begin:
                            _prefetch_record(at + (following - probe) * _ENTRY_SIZE, log, log_begin, log_end)
                        following = (middle + 1 + high) // 2
                        if following < min(queue_end, last):
                            _prefetch_record(at + (following - probe) * _ENTRY_SIZE, log, log_begin, log_end)
                        record = log + physical - log_begin
                        is_v6 = load_be32(record + _SYS_FLAG_AT) & _BORN_V6
                        time = max(load_be64(record + (_TIME_AT_V6 if is_v6 else _TIME_AT)), np.int64(-1))
                        if time >= 0:
                            break
            probe += 1
        if probe == last or time >= timestamp:
            high = middle
        else:
            low = probe + 1
    return low


@kernel
def _has_key(record, topic, topic_size, key, key_size, limit, physical):
    """The size of the record at address `record` if it is one, of this topic, with this key or unique key; else 0."""
    for line in range(0, _PREFETCH, 64):
        prefetch(record + line)
    verdict, size, _, topic_at, topic_end, _ = examine_parts(record, limit, physical, _CHECK_NONE)
    if verdict != GOOD or topic_end - topic_at != topic_size or not same_bytes(topic_at, topic, topic_size):
        return np.int64(0)
    unique, unique_end, keys, keys_end, _, _, _, _, _ = find_properties(topic_end + 2, record + size, limit)
    if unique_end - unique == key_size and same_bytes(unique, key, key_size):
        return np.int64(size)
    while keys < keys_end:
        space = next_space(keys, keys_end, limit)
        if space - keys == key_size and same_bytes(keys, key, key_size):
            return np.int64(size)
        keys = space + 1
    return np.int64(0)


@kernel
def _is_ascii(at, end):
    high = np.int64(0)
    while at < end:
        high |= byte_at(at)
        at += 1
    return high < 0x80


@kernel
def _is_among(offset, places, count):
    for n in range(count):
        if _word(places, 2 * n) == offset:
            return True
    return False


@entry_kernel(INT, BYTES, INT, INT)
def find_key(topic, name, max_messages, room):
    """The places of the newest messages with a key, at most `max_messages`, newest first, into the room.

    `topic` as `KeyTopic` has it; `name` is the key, which is ASCII. Returns where they stand and how many, one more
    where there are older ones (see COUNT_BITS). Or ASK (what is not ASCII, too), NEEDS_ROOM; or NEEDS_FILE or below:
    map that file of the log, and call again.
    """
    index, key, key_size = _word(topic, _INDEX_AT), address_of(name), len(name)
    if _has_changed(index) or not 0 < max_messages <= _MOST or not _is_ascii(key, key + key_size):
        return _ASK
    free = _word(room, _FREE)
    places, most_places = room + 8 * free, (_word(room, _ROOM_END) - free) // 2
    taken = np.int64(0)
    topic_at, topic_size = topic + 8 * _TOPIC_BYTES, _word(topic, _TOPIC_SIZE)
    # Java's Math.abs leaves Integer.MIN_VALUE negative, and the peer then takes 0.
    value = java_hash_at(key, key + key_size, _word(topic, _TOPIC_HASH))
    key_hash = np.int64(0) if value == -0x80000000 else abs(value)
    slots, items = _word(index, _SLOTS), _word(index, _ITEMS)
    below, file_size = min(_word(index, _BELOW), _word(index, _LOG_END)), _word(index, _LOG_FILE_SIZE)
    slot_at = _HEADER_SIZE + key_hash % slots * _SLOT_SIZE
    for n in range(1, _word(index, _INDEX_COUNT)):
        # Where a file's chain begins does not wait for the files before.
        prefetch(_word(index, _INDEX_FILES + n) + slot_at)
    for n in range(_word(index, _INDEX_COUNT)):
        file = _word(index, _INDEX_FILES + n)
        if load_be64(file + _BEGIN_TIME_AT) < 0 or load_be64(file + _END_TIME_AT) < 0:
            return _ASK
        count = min(load_be32(file + _INDEX_COUNT_AT), items - 1)
        number = load_be32(file + slot_at)
        base = file + _HEADER_SIZE + slots * _SLOT_SIZE
        while 0 < number <= count:
            item = base + number * _ITEM_SIZE
            previous = load_be32(item + _PREVIOUS_AT)
            prefetch(base + previous * _ITEM_SIZE)
            if load_be32(item + _DIFF_AT) < 0:
                break
            physical = load_be64(item + _PHYSICAL_AT)
            if load_be32(item) == key_hash and 0 <= physical < below and not _is_among(physical, places, taken):
                log_number = physical // file_size
                log = _file(_word(index, _LOG_AT), log_number)
                if log == 0:
                    return _NEEDS_FILE - 2 * log_number
                if log > 0:
                    record = log + physical - log_number * file_size
                    size = _has_key(record, topic_at, topic_size, key, key_size, log + file_size, physical)
                    if size > 0:
                        if taken == max_messages:
                            return _take(room, free, taken) + 1
                        if taken == most_places:
                            return _NEEDS_ROOM
                        store_64(places + _PLACE * taken, physical)
                        store_64(places + _PLACE * taken + 8, size)
                        taken += 1
            # A link that does not lead to an older item would lead in circles.
            if previous >= number:
                break
            number = previous
    return _take(room, free, taken)
