"""The lookup kernels in plain Python: the specification of `reput.kernels.compiled.lookup`.

What a vector holds stands at `reput.kernels.lookup_columns`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, is_blank
from reput.formats.hashing import index_key_hash
from reput.formats.index_file import HEADER, HEADER_SIZE, ITEM, ITEM_SIZE, SLOT, SLOT_SIZE, Header
from reput.formats.properties import KEYS, UNIQ_KEY, decode_properties
from reput.formats.record import (
    CHECK_NONE,
    FLAG_BORN_HOST_V6,
    HOST_V4_SIZE,
    HOST_V6_SIZE,
    MIN_RECORD_SIZE,
    STORE_TIMESTAMP_AT_V4,
    SYS_FLAG_AT,
    Verdict,
    decode_record,
    examine,
)
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

_MIN_PULL_BYTES = 100


def _word(vector: int, place: int) -> int:
    return int(ctypes.c_int64.from_address(vector + 8 * place).value)


def _bytes(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def _number(address: int, size: int) -> int:
    return int.from_bytes(_bytes(address, size), "big", signed=True)


def _has_changed(vector: int) -> bool:
    confirmed, frontier = _word(vector, Watch.CONFIRMED_AT), _word(vector, Watch.FRONTIER_AT)
    generation = _word(vector, Watch.GENERATION_AT)
    return bool(
        (confirmed and _word(confirmed, 0) > _word(vector, Watch.CONFIRMED))
        or (frontier and _word(frontier, 0) > _word(vector, Watch.FRONTIER))
        or (generation and _word(generation, 0) != _word(vector, Watch.GENERATION))
    )


def _file(table: int, number: int) -> int:
    place = number - _word(table, Table.FIRST)
    return _word(table, Table.FILES + place) if 0 <= place < _word(table, Table.COUNT) else -1


def _take(room: int, places: list[tuple[int, int]]) -> int:
    """Put places into a room; returns the answer that names them."""
    free = _word(room, Room.FREE)
    words = (ctypes.c_int64 * (2 * len(places))).from_address(room + 8 * free)
    words[:] = [word for place in places for word in place]
    ctypes.c_int64.from_address(room + 8 * Room.FREE).value = free + 2 * len(places)
    return free << COUNT_BITS | len(places)


def pull_entries(queue: int, offset: int, max_messages: int, max_bytes: int, room: int) -> int:
    """The places of a pull's records, from the queue's window, into the room.

    Returns where they stand and how many, at least 1 (see COUNT_BITS); or ASK or NEEDS_ROOM.
    """
    begin, behind = _word(queue, Queue.BEGIN), _word(queue, Queue.BEHIND)
    if not begin <= offset < behind or not 0 < max_messages <= MOST_MESSAGES or _has_changed(queue):
        return ASK
    most = min(max_messages, _word(queue, Queue.MOST_MESSAGES))
    reach = min(most, behind - offset)
    if _word(room, Room.FREE) + 2 * reach > _word(room, Room.END):
        return NEEDS_ROOM
    stop_bytes = min(max(max_bytes, _MIN_PULL_BYTES), _word(queue, Queue.STOP_BYTES))
    most_bytes = min(stop_bytes, _word(queue, Queue.MOST_BYTES))
    places: list[tuple[int, int]] = []
    total = 0
    for number in range(offset, offset + reach):
        at = _word(queue, Queue.ENTRIES_AT) + (number - begin) * ENTRY_SIZE
        physical, size, _ = ENTRY.struct.unpack(_bytes(at, ENTRY_SIZE))
        if places and (total >= stop_bytes or total + size > most_bytes):
            return _take(room, places)
        # Blank entries and expired records, too: those are for the pull that knows all cases.
        if physical < _word(queue, Queue.RECORDS_BEGIN) or size < MIN_RECORD_SIZE:
            return ASK
        if physical + size > _word(queue, Queue.RECORDS_END):
            return ASK
        places.append((physical, size))
        total += size
    is_cut = len(places) < most and offset + len(places) == behind and total < stop_bytes
    return ASK if not places or (is_cut and not _word(queue, Queue.IS_LAST)) else _take(room, places)


def _store_time(queue: int, offset: int) -> int:
    number, place = divmod(offset, _word(queue, Queue.FILE_ENTRIES))
    entries = _file(_word(queue, Queue.FILES_AT), number)
    if entries <= 0:
        return -1 if entries else NEEDS_FILE - 2 * number - 1
    physical, size, _ = ENTRY.struct.unpack(_bytes(entries + place * ENTRY_SIZE, ENTRY_SIZE))
    if physical < 0 or is_blank(physical, size):
        return -1
    file_size = _word(queue, Watch.LOG_FILE_SIZE)
    number, position = divmod(physical, file_size)
    log = _file(_word(queue, Watch.LOG_AT), number)
    if log <= 0:
        return -1 if log else NEEDS_FILE - 2 * number
    if position + MIN_RECORD_SIZE > file_size:
        return -1
    is_v6 = _number(log + position + SYS_FLAG_AT, 4) & FLAG_BORN_HOST_V6
    at = STORE_TIMESTAMP_AT_V4 + (HOST_V6_SIZE - HOST_V4_SIZE if is_v6 else 0)
    return max(-1, _number(log + position + at, 8))


def seek_time(queue: int, timestamp: int, above: int) -> int:
    """The first offset in [FIRST, END) whose message was stored at or after a time, with `above` 1 after it; else END.

    Entries without a record count as the next one that has one. NEEDS_FILE or below: map that file, and call again.
    """
    if _has_changed(queue):
        return ASK
    low, high = _word(queue, Queue.FIRST), _word(queue, Queue.END)
    end = high
    while low < high:
        middle = probe = (low + high) // 2
        time = -1
        while probe < end and (time := _store_time(queue, probe)) == -1:
            probe += 1
        if time <= NEEDS_FILE:
            return time
        if probe == end or time >= timestamp + above:
            high = middle
        else:
            low = probe + 1
    return low


def find_key(topic: int, name: bytes, max_messages: int, room: int) -> int:
    """The places of the newest messages with a key, at most `max_messages`, newest first, into the room.

    `topic` as `KeyTopic` has it; `name` is the key, which is ASCII. Returns where they stand and how many, one more
    where there are older ones (see COUNT_BITS). Or ASK (what is not ASCII, too), NEEDS_ROOM; or NEEDS_FILE or below:
    map that file of the log, and call again.
    """
    index = _word(topic, KeyTopic.INDEX_AT)
    if _has_changed(index) or not 0 < max_messages <= MOST_MESSAGES or not name.isascii():
        return ASK
    file_size, places = _word(index, Watch.LOG_FILE_SIZE), dict[int, int]()
    below = min(_word(index, Index.BELOW), _word(index, Watch.LOG_END))
    topic_bytes = _bytes(topic + 8 * KeyTopic.BYTES, _word(topic, KeyTopic.SIZE))
    for n in range(_word(index, Index.COUNT)):
        file = _word(index, Index.FILES + n)
        header = Header(*HEADER.struct.unpack(_bytes(file, HEADER_SIZE)))
        if header.begin_timestamp < 0 or header.end_timestamp < 0:
            return ASK
        for physical in _offsets_of(index, file, header, index_key_hash(topic_bytes + b"#" + name)):
            number, position = divmod(physical, file_size)
            if not 0 <= physical < below or (log := _file(_word(index, Watch.LOG_AT), number)) < 0:
                continue
            if log == 0:
                return NEEDS_FILE - 2 * number
            data = memoryview((ctypes.c_uint8 * file_size).from_address(log)).cast("B")
            size = _has_key(data, position, physical, topic_bytes, name)
            if not size or physical in places:
                continue
            if len(places) == max_messages:
                return _take(room, list(places.items())) + 1
            if len(places) == (_word(room, Room.END) - _word(room, Room.FREE)) // 2:
                return NEEDS_ROOM
            places[physical] = size
    return _take(room, list(places.items()))


def _offsets_of(index: int, file: int, header: Header, key_hash: int) -> Iterator[int]:
    """Where the messages stand whose items have a hash, newest first."""
    slots, count = _word(index, Index.SLOTS), min(header.index_count, _word(index, Index.ITEMS) - 1)
    number = _number(file + HEADER_SIZE + key_hash % slots * SLOT_SIZE, SLOT.size)
    base = file + HEADER_SIZE + slots * SLOT_SIZE
    while 0 < number <= count:
        found_hash, physical, diff_s, previous = ITEM.struct.unpack(_bytes(base + number * ITEM_SIZE, ITEM_SIZE))
        if diff_s < 0:
            return
        if found_hash == key_hash:
            yield physical
        # A link that does not lead to an older item would lead in circles.
        if previous >= number:
            return
        number = previous


def _has_key(data: memoryview, position: int, physical: int, topic: bytes, key: bytes) -> int:
    """The size of the record at a position if it is one, of this topic, with this key or unique key; else 0."""
    verdict, size = examine(data, position, len(data), physical, CHECK_NONE)
    if verdict is not Verdict.GOOD:
        return 0
    record: Any = decode_record(data[position : position + size])
    given = decode_properties(record.properties)
    if record.topic != topic:
        return 0
    return size if key == given.get(UNIQ_KEY) or key in given.get(KEYS, b"").split(b" ") else 0
