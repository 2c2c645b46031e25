"""Look-ups that are answered in one call: a pull, an offset by time, messages by key.

A call costs Python some 0.1 us, 15 ns of it for each number; an array would cost 0.1 us more, a text 1.5 us. So the
values that stay the same from call to call are in a vector (`reput.kernels.layouts.lookup`), and the places found go
into a buffer that serves many calls. These kernels keep the GIL. To release it takes 40 ns, and while a kernel keeps it
no other thread can drop a map that it reads, or write into the same buffer.

The twin of `reput.kernels.reference.lookup`, which is the specification.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from reput.formats.index import index_file as index_fmt
from reput.formats.log import record as fmt
from reput.formats.queue import consume_queue as queue_fmt
from reput.kernels.compiled.decode import find_properties, next_space
from reput.kernels.compiled.examine import GOOD, PROPERTIES_LENGTH_SIZE, examine_parts
from reput.kernels.compiled.select import is_blank
from reput.kernels.compiled.tools.hashing import java_hash_at
from reput.kernels.compiled.tools.jit import BYTES, INT, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import (
    address_of,
    byte_at,
    load_be32,
    load_be64,
    prefetch,
    set_word,
    word,
    word_address,
)
from reput.kernels.compiled.tools.rows import same_bytes
from reput.kernels.layouts.lookup import (
    ASK,
    BUFFER_FULL,
    FIRST_FILE,
    FIRST_INDEX_FILE,
    MIN_PULL_BYTES,
    MOST_MESSAGES,
    PLACE_WORDS,
    TOPIC_BYTES,
    AnswersAt,
    FileTableAt,
    IndexAt,
    KeyTopicAt,
    PlaceAt,
    QueueAt,
    WatchAt,
    pack_answer,
    pack_needed,
)

_ENTRY_SIZE, _SIZE_AT = queue_fmt.ENTRY_SIZE, queue_fmt.ENTRY.offsets["size"]
_MIN_SIZE, _SYS_FLAG_AT, _CHECK_NONE = fmt.MIN_RECORD_SIZE, fmt.SYS_FLAG_AT, fmt.CHECK_NONE
_BORN_V6 = fmt.FLAG_BORN_HOST_V6
_TIME_AT, _TIME_AT_V6 = fmt.STORE_TIMESTAMP_AT_V4, fmt.STORE_TIMESTAMP_AT_V6
_HEADER_SIZE, _SLOT_SIZE, _ITEM_SIZE = index_fmt.HEADER_SIZE, index_fmt.SLOT_SIZE, index_fmt.ITEM_SIZE
_BEGIN_TIME_AT, _END_TIME_AT = (
    index_fmt.HEADER.offsets["begin_timestamp"],
    index_fmt.HEADER.offsets["end_timestamp"],
)
_ITEM_AT = index_fmt.ITEM.offsets
_PHYSICAL_AT, _DIFF_AT, _PREVIOUS_AT = _ITEM_AT["physical_offset"], _ITEM_AT["time_diff_s"], _ITEM_AT["previous_item"]
_PREFETCH = 320
"""Bytes of a record that are asked for at once, before its lengths say where its properties are."""

_ASK, _BUFFER_FULL, _MOST = np.int64(ASK), np.int64(BUFFER_FULL), MOST_MESSAGES

register_jitable(pack_answer)
register_jitable(pack_needed)


@kernel
def has_changed(vector):
    """Return whether more is confirmed or indexed than the vector knows of, or the indexes have been replaced."""
    at = word(vector, WatchAt.confirmed_at)
    if at and word(at, 0) > word(vector, WatchAt.confirmed):
        return True
    at = word(vector, WatchAt.frontier_at)
    if at and word(at, 0) > word(vector, WatchAt.frontier):
        return True
    at = word(vector, WatchAt.generation_at)
    return at != 0 and word(at, 0) != word(vector, WatchAt.generation)


@kernel
def file_of(table, number):
    """Return the address of a mapped file; 0 if it is not mapped yet, -1 if there is no such file."""
    place = number - word(table, FileTableAt.first)
    if place < 0 or place >= word(table, FileTableAt.count):
        return np.int64(-1)
    return word(table, FIRST_FILE + place)


@kernel
def _put_place(buffer, at, physical, size):
    """Write the place of a message to a word of the answer buffer."""
    set_word(buffer, at + PlaceAt.log_offset, physical)
    set_word(buffer, at + PlaceAt.size, size)


@kernel
def _take(buffer, free, count):
    """Keep the places written from word `free` of the answer buffer on; return the answer that names them."""
    set_word(buffer, AnswersAt.free, free + PLACE_WORDS * count)
    return pack_answer(free, count)


@entry_kernel(INT, INT, INT, INT, INT)
def pull_entries(queue, offset, max_messages, max_bytes, buffer):
    """Write the places of a pull's records to the answer buffer; see the twin."""
    left = word(queue, QueueAt.window_end) - offset
    if offset < word(queue, QueueAt.window_begin) or left <= 0 or not 0 < max_messages <= _MOST or has_changed(queue):
        return _ASK
    at = word(queue, QueueAt.entries_at) + (offset - word(queue, QueueAt.window_begin)) * _ENTRY_SIZE
    begin, end = word(queue, QueueAt.records_begin), word(queue, QueueAt.records_end)
    most = min(max_messages, word(queue, QueueAt.most_messages))
    reach = min(most, left)
    stop_bytes = min(max(max_bytes, MIN_PULL_BYTES), word(queue, QueueAt.stop_bytes))
    most_bytes = min(stop_bytes, word(queue, QueueAt.most_bytes))
    free = word(buffer, AnswersAt.free)
    if free + PLACE_WORDS * reach > word(buffer, AnswersAt.end):
        return _BUFFER_FULL
    place = free
    taken, total, before = np.int64(0), np.int64(0), np.int64(-1)
    for _ in range(reach):
        if total >= stop_bytes:
            return _take(buffer, free, taken)
        physical, size = load_be64(at), load_be32(at + _SIZE_AT)
        if taken > 0 and total + size > most_bytes:
            return _take(buffer, free, taken)
        # Blank entries and expired records, too, are for the pull that knows all cases, and so is damage.
        if physical < begin or size < _MIN_SIZE or physical > end - size or physical <= before:
            return _ASK
        before = physical
        _put_place(buffer, place, physical, size)
        place += PLACE_WORDS
        taken += 1
        total += size
        at += _ENTRY_SIZE
    if taken == 0 or (taken == left and taken < most and total < stop_bytes and not word(queue, QueueAt.is_last)):
        return _ASK
    return _take(buffer, free, taken)


@kernel
def time_of(record):
    """Return the store time of a record; one below 0 counts as -1."""
    is_v6 = load_be32(record + _SYS_FLAG_AT) & _BORN_V6
    return max(load_be64(record + (_TIME_AT_V6 if is_v6 else _TIME_AT)), np.int64(-1))


@kernel
def _prefetch_record(entry, log, begin, end):
    """Ask for the record of an entry, if it is in this file of the log, before it is known whether it will be read."""
    physical = load_be64(entry)
    if begin <= physical < end:
        prefetch(log + physical - begin + _TIME_AT)


@kernel
def seek_known(queue, timestamp):
    """Take the steps of a search whose times are known; return low, high and the number of the next step."""
    times, count = word(queue, QueueAt.times_at), word(queue, QueueAt.time_count)
    low, high, step = word(queue, QueueAt.first), word(queue, QueueAt.end), np.int64(1)
    while step < count and low < high:
        time = word(times, step)
        if time == 0:
            break
        middle = (low + high) // 2
        if time >= timestamp:
            high, step = middle, 2 * step
        else:
            low, step = middle + 1, 2 * step + 1
    return low, high, step


@kernel
def keep_time(queue, step, time):
    """Keep the time that a step of a search has read, for the next search."""
    if step < word(queue, QueueAt.time_count):
        set_word(word(queue, QueueAt.times_at), step, time)


@kernel
def seek(queue, timestamp, low, high, step):
    """Return the first offset in [low, high) whose message was stored at or after a time; see `seek_time`."""
    file_entries, file_size = word(queue, QueueAt.file_entries), word(queue, WatchAt.log_file_size)
    last = word(queue, QueueAt.end)
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
                entries = file_of(word(queue, QueueAt.files_at), number)
                if entries == 0:
                    return pack_needed(number, 1)
            at = entries + (probe - queue_begin) * _ENTRY_SIZE
            if entries > 0:
                physical, size = load_be64(at), load_be32(at + _SIZE_AT)
                if physical > 0 or (physical == 0 and not is_blank(physical, size)):
                    if not log_begin <= physical < log_end:
                        number = physical // file_size
                        log_begin, log_end = number * file_size, (number + 1) * file_size
                        log = file_of(word(queue, WatchAt.log_at), number)
                        if log == 0:
                            return pack_needed(number, 0)
                    if log > 0 and physical + _MIN_SIZE <= log_end:
                        # A step waits for an entry and then for its record: ask for those of both next steps meanwhile.
                        # This halves the time; to ask for the four after them, too, costs more than it saves.
                        following = (low + middle) // 2
                        if following >= queue_begin:
                            _prefetch_record(at + (following - probe) * _ENTRY_SIZE, log, log_begin, log_end)
                        following = (middle + 1 + high) // 2
                        if following < min(queue_end, last):
                            _prefetch_record(at + (following - probe) * _ENTRY_SIZE, log, log_begin, log_end)
                        time = time_of(log + physical - log_begin)
                        if time >= 0:
                            break
            probe += 1
        if probe == middle:
            keep_time(queue, step, time)
        if probe == last or time >= timestamp:
            high, step = middle, 2 * step
        else:
            low, step = probe + 1, 2 * step + 1
    return low


@entry_kernel(INT, INT, INT)
def seek_time(queue, timestamp, above):
    """Return the queue offset for a time; see the twin."""
    if has_changed(queue):
        return _ASK
    low, high, step = seek_known(queue, timestamp + above)
    return seek(queue, timestamp + above, low, high, step)


@kernel
def _has_key(record, topic, topic_size, key, key_size, limit, physical):
    """Return the size of the record at address `record`; 0 if it has another topic or not this key, or is no record."""
    verdict, size, _, topic_at, topic_end, _ = examine_parts(record, limit, physical, _CHECK_NONE)
    if verdict != GOOD or topic_end - topic_at != topic_size or not same_bytes(topic_at, topic, topic_size):
        return np.int64(0)
    unique, unique_end, keys, keys_end, _, _, _, _, _ = find_properties(
        topic_end + PROPERTIES_LENGTH_SIZE, record + size, limit
    )
    if unique_end - unique == key_size and same_bytes(unique, key, key_size):
        return np.int64(size)
    while keys < keys_end:
        space = next_space(keys, keys_end, limit)
        if space - keys == key_size and same_bytes(keys, key, key_size):
            return np.int64(size)
        keys = space + 1
    return np.int64(0)


@kernel
def is_ascii(at, end):
    """Return whether the bytes in [at, end) are ASCII."""
    high = np.int64(0)
    while at < end:
        high |= byte_at(at)
        at += 1
    return high < 0x80


@kernel
def _is_among(offset, places, count):
    for n in range(count):
        if word(places, PLACE_WORDS * n + PlaceAt.log_offset) == offset:
            return True
    return False


@kernel
def hash_of(topic, key, key_size):
    """Return the hash that an item has for a key of a topic."""
    # Java's Math.abs leaves Integer.MIN_VALUE negative, and the peer then takes 0.
    value = java_hash_at(key, key + key_size, word(topic, KeyTopicAt.hash))
    return np.int64(0) if value == -0x80000000 else abs(value)


@kernel
def slot_of(index, key_hash):
    """Return the byte of an IndexFile at which the slot of a hash begins."""
    # Both are Java's int; a division of 32 bits takes half the time.
    return _HEADER_SIZE + np.int64(np.uint32(key_hash) % np.uint32(word(index, IndexAt.slots))) * _SLOT_SIZE


@kernel
def items_of(index, file):
    """Return the address of item 0 of an IndexFile."""
    return file + _HEADER_SIZE + word(index, IndexAt.slots) * _SLOT_SIZE


@kernel
def last_item_of(index):
    """Return the number of the last item that an IndexFile has room for; see the twin."""
    return word(index, IndexAt.items) - 1


@kernel
def record_of(index, physical):
    """Return the address in a log file's map at which a record begins; 0 if it is not mapped, -1 for no such file."""
    file_size = word(index, WatchAt.log_file_size)
    number = physical // file_size
    log = file_of(word(index, WatchAt.log_at), number)
    return log + physical - number * file_size if log > 0 else log


@kernel
def ask_for_lines(record):
    """Ask for the first bytes of a record."""
    for line in range(0, _PREFETCH, 64):
        prefetch(record + line)


@kernel
def has_times(index):
    """Return whether all IndexFiles have times."""
    for n in range(word(index, IndexAt.count)):
        file = word(index, FIRST_INDEX_FILE + n)
        if load_be64(file + _BEGIN_TIME_AT) < 0 or load_be64(file + _END_TIME_AT) < 0:
            return False
    return True


@kernel
def can_find(index, max_messages):
    """Return whether the IndexFiles can answer questions for that number of messages."""
    return not has_changed(index) and 0 < max_messages <= _MOST and has_times(index)


@kernel
def find(topic, key, key_size, key_hash, slot_at, max_messages, buffer):
    """Write the places of the newest messages with an ASCII key to the answer buffer; see `find_key`."""
    index, free = word(topic, KeyTopicAt.index_at), word(buffer, AnswersAt.free)
    places, most_places = word_address(buffer, free), (word(buffer, AnswersAt.end) - free) // PLACE_WORDS
    topic_at, topic_size = word_address(topic, TOPIC_BYTES), word(topic, KeyTopicAt.size)
    below, file_size = min(word(index, IndexAt.below), word(index, WatchAt.log_end)), word(index, WatchAt.log_file_size)
    taken = np.int64(0)
    for n in range(word(index, IndexAt.count)):
        file = word(index, FIRST_INDEX_FILE + n)
        count, items, number = last_item_of(index), items_of(index, file), load_be32(file + slot_at)
        while 0 < number <= count:
            item = items + number * _ITEM_SIZE
            previous = load_be32(item + _PREVIOUS_AT)
            prefetch(items + previous * _ITEM_SIZE)
            if load_be32(item + _DIFF_AT) < 0:
                break
            physical = load_be64(item + _PHYSICAL_AT)
            # To look at a record only when the next one is found, so that it comes meanwhile, costs a tenth more.
            if load_be32(item) == key_hash and 0 <= physical < below and not _is_among(physical, places, taken):
                log_number = physical // file_size
                log = file_of(word(index, WatchAt.log_at), log_number)
                if log == 0:
                    return pack_needed(log_number, 0)
                if log > 0:
                    record = log + physical - log_number * file_size
                    ask_for_lines(record)
                    size = _has_key(record, topic_at, topic_size, key, key_size, log + file_size, physical)
                    if size > 0:
                        if taken == max_messages:
                            return _take(buffer, free, taken) + 1
                        if taken == most_places:
                            return _BUFFER_FULL
                        _put_place(buffer, free + PLACE_WORDS * taken, physical, size)
                        taken += 1
            # A link that does not lead to an older item is damage, which the general way names.
            if previous >= number:
                return _ASK
            number = previous
    return _take(buffer, free, taken)


@entry_kernel(INT, BYTES, INT, INT)
def find_key(topic, name, max_messages, buffer):
    """Write the places of the newest messages with a key to the answer buffer; see the twin."""
    index, key, key_size = word(topic, KeyTopicAt.index_at), address_of(name), len(name)
    if not can_find(index, max_messages) or not is_ascii(key, key + key_size):
        return _ASK
    key_hash = hash_of(topic, key, key_size)
    slot_at = slot_of(index, key_hash)
    for n in range(1, word(index, IndexAt.count)):
        # Ask for the slots of all files at once.
        prefetch(word(index, FIRST_INDEX_FILE + n) + slot_at)
    return find(topic, key, key_size, key_hash, slot_at, max_messages, buffer)
