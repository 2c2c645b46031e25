"""The lookup kernels in plain Python: the specification of `reput.kernels.compiled.lookup`.

`reput.kernels.layouts.lookup` describes the vectors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from reput.formats.index.index_file import HEADER, HEADER_SIZE, ITEM, ITEM_SIZE, SLOT, SLOT_SIZE, Header
from reput.formats.java.hashing import index_key_hash
from reput.formats.log.properties import KEYS, UNIQUE_KEY, decode_properties, keys_of
from reput.formats.log.record import (
    CHECK_NONE,
    FLAG_BORN_HOST_V6,
    MIN_RECORD_SIZE,
    STORE_TIMESTAMP_AT_V4,
    STORE_TIMESTAMP_AT_V6,
    SYS_FLAG_AT,
    Verdict,
    decode_record,
    examine,
)
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, is_blank
from reput.kernels.layouts.lookup import (
    ASK,
    BUFFER_FULL,
    FIRST_FILE,
    FIRST_INDEX_FILE,
    MIN_PULL_BYTES,
    MOST_MESSAGES,
    NEEDS_FILE,
    PLACE_WORDS,
    TOPIC_BYTES,
    AnswersAt,
    FileTableAt,
    IndexAt,
    KeyTopicAt,
    QueueAt,
    WatchAt,
    pack_answer,
    pack_needed,
)
from reput.kernels.reference.memory import set_word, word, word_address


def _bytes(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def _number(address: int, size: int) -> int:
    return int.from_bytes(_bytes(address, size), "big", signed=True)


def _has_changed(vector: int) -> bool:
    confirmed, frontier = word(vector, WatchAt.confirmed_at), word(vector, WatchAt.frontier_at)
    generation = word(vector, WatchAt.generation_at)
    return bool(
        (confirmed and word(confirmed, 0) > word(vector, WatchAt.confirmed))
        or (frontier and word(frontier, 0) > word(vector, WatchAt.frontier))
        or (generation and word(generation, 0) != word(vector, WatchAt.generation))
    )


def _file(table: int, number: int) -> int:
    place = number - word(table, FileTableAt.first)
    return word(table, FIRST_FILE + place) if 0 <= place < word(table, FileTableAt.count) else -1


def _take(buffer: int, places: list[tuple[int, int]]) -> int:
    """Put places into an answer buffer; return the answer that names them."""
    free, count = word(buffer, AnswersAt.free), PLACE_WORDS * len(places)
    words = (ctypes.c_int64 * count).from_address(word_address(buffer, free))
    words[:] = [value for place in places for value in place]
    set_word(buffer, AnswersAt.free, free + count)
    return pack_answer(free, len(places))


def pull_entries(queue: int, offset: int, max_messages: int, max_bytes: int, buffer: int) -> int:
    """Write the places of a pull's records, from the queue's window, to the answer buffer.

    Returns the answer of `pack_answer` for at least one message, or ASK or BUFFER_FULL.
    """
    begin, end = word(queue, QueueAt.window_begin), word(queue, QueueAt.window_end)
    if not begin <= offset < end or not 0 < max_messages <= MOST_MESSAGES or _has_changed(queue):
        return ASK
    most = min(max_messages, word(queue, QueueAt.most_messages))
    reach = min(most, end - offset)
    if word(buffer, AnswersAt.free) + PLACE_WORDS * reach > word(buffer, AnswersAt.end):
        return BUFFER_FULL
    stop_bytes = min(max(max_bytes, MIN_PULL_BYTES), word(queue, QueueAt.stop_bytes))
    most_bytes = min(stop_bytes, word(queue, QueueAt.most_bytes))
    places: list[tuple[int, int]] = []
    total = 0
    for number in range(offset, offset + reach):
        at = word(queue, QueueAt.entries_at) + (number - begin) * ENTRY_SIZE
        physical, size, _ = ENTRY.struct.unpack(_bytes(at, ENTRY_SIZE))
        if places and (total >= stop_bytes or total + size > most_bytes):
            return _take(buffer, places)
        # Blank entries and expired records, too, are for the pull that knows all cases, and so is damage.
        if places and physical <= places[-1][0]:
            return ASK
        if physical < word(queue, QueueAt.records_begin) or size < MIN_RECORD_SIZE:
            return ASK
        if physical + size > word(queue, QueueAt.records_end):
            return ASK
        places.append((physical, size))
        total += size
    is_cut = len(places) < most and offset + len(places) == end and total < stop_bytes
    return ASK if not places or (is_cut and not word(queue, QueueAt.is_last)) else _take(buffer, places)


def _store_time(queue: int, offset: int) -> int:
    number, place = divmod(offset, word(queue, QueueAt.file_entries))
    entries = _file(word(queue, QueueAt.files_at), number)
    if entries <= 0:
        return -1 if entries else pack_needed(number, True)
    physical, size, _ = ENTRY.struct.unpack(_bytes(entries + place * ENTRY_SIZE, ENTRY_SIZE))
    if physical < 0 or is_blank(physical, size):
        return -1
    file_size = word(queue, WatchAt.log_file_size)
    number, position = divmod(physical, file_size)
    log = _file(word(queue, WatchAt.log_at), number)
    if log <= 0:
        return -1 if log else pack_needed(number, False)
    if position + MIN_RECORD_SIZE > file_size:
        return -1
    is_v6 = _number(log + position + SYS_FLAG_AT, 4) & FLAG_BORN_HOST_V6
    at = STORE_TIMESTAMP_AT_V6 if is_v6 else STORE_TIMESTAMP_AT_V4
    return max(-1, _number(log + position + at, 8))


def seek_time(queue: int, timestamp: int, above: int) -> int:
    """Return the first offset in [first, end) whose message was stored at or after a time; `end` if there is none.

    With `above` 1 only a message stored after the time counts; the time is below the largest int64 then. An entry
    without a record counts as the next one that has one. The compiled twin keeps the times of the first steps, which
    are the same in each search, and reads them no more. Returns ASK; or NEEDS_FILE or below: map the file that
    `needed_file` gives, and call again.
    """
    if _has_changed(queue):
        return ASK
    low, high = word(queue, QueueAt.first), word(queue, QueueAt.end)
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


def find_key(topic: int, name: bytes, max_messages: int, buffer: int) -> int:
    """Write the places of the newest messages with a key, at most `max_messages`, newest first, to the answer buffer.

    `topic` is the address of a `KeyTopic`, `name` the key. Returns the answer of `pack_answer`; its count is one more
    if there are older messages. Or returns ASK (for a key that is not ASCII, too) or BUFFER_FULL; or NEEDS_FILE or
    below: map the file of the log that `needed_file` gives, and call again.
    """
    index = word(topic, KeyTopicAt.index_at)
    if _has_changed(index) or not 0 < max_messages <= MOST_MESSAGES or not name.isascii():
        return ASK
    file_size, places = word(index, WatchAt.log_file_size), dict[int, int]()
    below = min(word(index, IndexAt.below), word(index, WatchAt.log_end))
    topic_bytes = _bytes(word_address(topic, TOPIC_BYTES), word(topic, KeyTopicAt.size))
    files = [word(index, FIRST_INDEX_FILE + n) for n in range(word(index, IndexAt.count))]
    headers = [Header(*HEADER.struct.unpack(_bytes(file, HEADER_SIZE))) for file in files]
    if any(header.begin_timestamp < 0 or header.end_timestamp < 0 for header in headers):
        return ASK
    for file in files:
        for physical in _offsets_of(index, file, index_key_hash(topic_bytes + b"#" + name)):
            if physical is None:
                return ASK
            number, position = divmod(physical, file_size)
            if not 0 <= physical < below or (log := _file(word(index, WatchAt.log_at), number)) < 0:
                continue
            if log == 0:
                return pack_needed(number, False)
            data = memoryview((ctypes.c_uint8 * file_size).from_address(log)).cast("B")
            size = _has_key(data, position, physical, topic_bytes, name)
            if not size or physical in places:
                continue
            if len(places) == max_messages:
                return _take(buffer, list(places.items())) + 1
            if len(places) == (word(buffer, AnswersAt.end) - word(buffer, AnswersAt.free)) // PLACE_WORDS:
                return BUFFER_FULL
            places[physical] = size
    return _take(buffer, list(places.items()))


def _offsets_of(index: int, file: int, key_hash: int) -> Iterator[int | None]:
    """Yield the log offsets of the messages whose items have a hash, newest first; None for a damaged chain."""
    # Items above the header's count are there before their slots, and lead to older ones.
    slots, count = word(index, IndexAt.slots), word(index, IndexAt.items) - 1
    number = _number(file + HEADER_SIZE + key_hash % slots * SLOT_SIZE, SLOT.size)
    base = file + HEADER_SIZE + slots * SLOT_SIZE
    while 0 < number <= count:
        found_hash, physical, diff_s, previous = ITEM.struct.unpack(_bytes(base + number * ITEM_SIZE, ITEM_SIZE))
        if diff_s < 0:
            return
        if found_hash == key_hash:
            yield physical
        if previous >= number:
            break
        number = previous
    else:
        return
    # A link that does not lead to an older item is damage, which the general way names.
    yield None


def _has_key(data: memoryview, position: int, physical: int, topic: bytes, key: bytes) -> int:
    """Return the size of the record at a position; 0 if it has another topic or not this key, or is no record."""
    verdict, size = examine(data, position, len(data), physical, CHECK_NONE)
    if verdict is not Verdict.GOOD:
        return 0
    record: Any = decode_record(data[position : position + size])
    given = decode_properties(record.properties)
    if record.topic != topic:
        return 0
    return size if key == given.get(UNIQUE_KEY) or key in keys_of(given.get(KEYS, b"")) else 0
