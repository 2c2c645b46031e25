"""Many look-ups in one call: those of a group take their steps in turn, so that they wait for memory together.

A search by time prefetches an entry in one step and its record in the next. Both are in the cache when its turn comes
again. For keys, a call first prefetches the first items of each chain and the records that they name. Then the search
for a single key finds them in the cache.

These kernels keep the GIL, as `reput.kernels.compiled.lookup` does, so callers ask some thousand questions a call.

The twin of `reput.kernels.reference.many`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.index import index_file as index_fmt
from reput.formats.log import record as fmt
from reput.formats.queue import consume_queue as queue_fmt
from reput.kernels.compiled.lookup import (
    ask_for_lines,
    can_find,
    file_of,
    find,
    has_changed,
    hash_of,
    is_ascii,
    items_of,
    keep_time,
    last_item_of,
    record_of,
    seek,
    seek_known,
    slot_of,
    time_of,
)
from reput.kernels.compiled.tools.jit import INT, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import (
    load_be32,
    load_be64,
    prefetch,
    set_word,
    word,
    word_address,
)
from reput.kernels.layouts.lookup import (
    ASK,
    CHAIN_LAYOUT,
    FIRST_INDEX_FILE,
    KEY_GROUP,
    SEARCH_LAYOUT,
    SEEK_GROUP,
    ChainAt,
    IndexAt,
    KeysAt,
    KeyTopicAt,
    QueueAt,
    SearchAt,
    SeeksAt,
    WatchAt,
)

_ASK = np.int64(ASK)
_ENTRY_SIZE, _ITEM_SIZE = queue_fmt.ENTRY_SIZE, index_fmt.ITEM_SIZE
_MIN_SIZE, _SYS_FLAG_AT, _TIME_AT = fmt.MIN_RECORD_SIZE, fmt.SYS_FLAG_AT, fmt.STORE_TIMESTAMP_AT_V4
_PHYSICAL_AT, _PREVIOUS_AT = index_fmt.ITEM.offsets["physical_offset"], index_fmt.ITEM.offsets["previous_item"]
_SEARCH_SIZE, _CHAIN_SIZE = SEARCH_LAYOUT.size, CHAIN_LAYOUT.size
_ITEMS_AHEAD = 3
"""Items of a chain that are asked for before the keys are looked for: few chains of a full IndexFile are longer."""


@kernel
def _ask_for_entry(queue, search):
    """Choose the entry in the middle of a search, and prefetch it. Its address is 0 if no mapped file has it."""
    middle = (word(search, SearchAt.low) + word(search, SearchAt.high)) // 2
    if not word(search, SearchAt.files_begin) <= middle < word(search, SearchAt.files_end):
        file_entries = word(queue, QueueAt.file_entries)
        number = middle // file_entries
        set_word(search, SearchAt.files_begin, number * file_entries)
        set_word(search, SearchAt.files_end, (number + 1) * file_entries)
        set_word(search, SearchAt.file_at, file_of(word(queue, QueueAt.files_at), number))
    file, entry = word(search, SearchAt.file_at), np.int64(0)
    if file > 0:
        entry = file + (middle - word(search, SearchAt.files_begin)) * _ENTRY_SIZE
        prefetch(entry)
    set_word(search, SearchAt.entry_at, entry)


@kernel
def _ask_for_record(queue, search):
    """Read the entry in the middle of a search, and prefetch its record. The address is 0 if no mapped file has it."""
    entry, record = word(search, SearchAt.entry_at), np.int64(0)
    physical = load_be64(entry) if entry else np.int64(0)
    # Log offset 0 may be a blank entry's; the single search sees to it.
    if physical > 0:
        if not word(search, SearchAt.log_begin) <= physical < word(search, SearchAt.log_end):
            file_size = word(queue, WatchAt.log_file_size)
            number = physical // file_size
            set_word(search, SearchAt.log_begin, number * file_size)
            set_word(search, SearchAt.log_end, (number + 1) * file_size)
            set_word(search, SearchAt.log_at, file_of(word(queue, WatchAt.log_at), number))
        log = word(search, SearchAt.log_at)
        if log > 0 and physical + _MIN_SIZE <= word(search, SearchAt.log_end):
            record = log + physical - word(search, SearchAt.log_begin)
            prefetch(record + _SYS_FLAG_AT)
            prefetch(record + _TIME_AT)
    set_word(search, SearchAt.record_at, record)


@kernel
def _take_step(queue, search, timestamp):
    """Take the step of a search whose record has been asked for; return the answer once it is known, otherwise ASK."""
    low, high, step = word(search, SearchAt.low), word(search, SearchAt.high), word(search, SearchAt.step)
    record = word(search, SearchAt.record_at)
    time = time_of(record) if record else np.int64(-1)
    if time < 0:
        # The single search knows all cases.
        answer = seek(queue, timestamp, low, high, step)
        set_word(search, SearchAt.high, low)
        return answer
    keep_time(queue, step, time)
    middle = (low + high) // 2
    if time >= timestamp:
        high, step = middle, 2 * step
        set_word(search, SearchAt.high, high)
    else:
        low, step = middle + 1, 2 * step + 1
        set_word(search, SearchAt.low, low)
    set_word(search, SearchAt.step, step)
    return low if low == high else _ASK


@kernel
def _seek_group(asked, first, count):
    """Search for some questions at once, step by step: each waits for memory while the others do."""
    queues = word_address(word(asked, SeeksAt.queues_at), first)
    times = word_address(word(asked, SeeksAt.timestamps_at), first)
    answers, group = word_address(word(asked, SeeksAt.answers_at), first), word(asked, SeeksAt.group_at)
    above, left = word(asked, SeeksAt.above), np.int64(0)
    for n in range(count):
        search, queue = group + n * _SEARCH_SIZE, word(queues, n)
        set_word(search, SearchAt.low, 0)
        set_word(search, SearchAt.high, 0)
        if word(answers, n) == 0:
            low, high, step = seek_known(queue, word(times, n) + above)
            set_word(search, SearchAt.low, low)
            set_word(search, SearchAt.high, high)
            set_word(search, SearchAt.step, step)
            set_word(search, SearchAt.files_end, 0)
            set_word(search, SearchAt.log_end, 0)
            set_word(answers, n, low)
            left += low < high
    while left > 0:
        for n in range(count):
            search = group + n * _SEARCH_SIZE
            if word(search, SearchAt.low) < word(search, SearchAt.high):
                _ask_for_entry(word(queues, n), search)
        for n in range(count):
            search = group + n * _SEARCH_SIZE
            if word(search, SearchAt.low) < word(search, SearchAt.high):
                _ask_for_record(word(queues, n), search)
        for n in range(count):
            search = group + n * _SEARCH_SIZE
            if word(search, SearchAt.low) < word(search, SearchAt.high):
                answer = _take_step(word(queues, n), search, word(times, n) + above)
                if answer != _ASK:
                    set_word(answers, n, answer)
                    left -= 1


@entry_kernel(INT)
def seek_times(asked):
    """Answer many searches by time; see the twin."""
    count, queues, answers = word(asked, SeeksAt.count), word(asked, SeeksAt.queues_at), word(asked, SeeksAt.answers_at)
    answered = np.int64(0)
    for n in range(count):
        queue = word(queues, n)
        can_answer = queue != 0 and not has_changed(queue)
        set_word(answers, n, np.int64(0) if can_answer else _ASK)
    for first in range(0, count, SEEK_GROUP):
        _seek_group(asked, first, min(SEEK_GROUP, count - first))
    for n in range(count):
        answered += word(answers, n) >= 0
    return answered


@kernel
def _ask_for_chains(index, file, group, count):
    """Ask for the first items of some searches' chains in an IndexFile, and for the records that they name."""
    items, item_count = items_of(index, file), last_item_of(index)
    below = min(word(index, IndexAt.below), word(index, WatchAt.log_end))
    for n in range(count):
        chain = group + n * _CHAIN_SIZE
        number = load_be32(file + word(chain, ChainAt.slot_at))
        set_word(chain, ChainAt.number, number)
        prefetch(items + number * _ITEM_SIZE)
    for _ in range(_ITEMS_AHEAD):
        for n in range(count):
            chain = group + n * _CHAIN_SIZE
            number = word(chain, ChainAt.number)
            if 0 < number <= item_count:
                item = items + number * _ITEM_SIZE
                physical, previous = load_be64(item + _PHYSICAL_AT), load_be32(item + _PREVIOUS_AT)
                if load_be32(item) == word(chain, ChainAt.hash) and 0 <= physical < below:
                    record = record_of(index, physical)
                    if record > 0:
                        ask_for_lines(record)
                prefetch(items + previous * _ITEM_SIZE)
                set_word(chain, ChainAt.number, previous if previous < number else np.int64(0))


@entry_kernel(INT)
def find_keys(asked):
    """Answer many questions by key; see the twin."""
    topic, count, answers = word(asked, KeysAt.topic_at), word(asked, KeysAt.count), word(asked, KeysAt.answers_at)
    names, ends, group = word(asked, KeysAt.names_at), word(asked, KeysAt.ends_at), word(asked, KeysAt.group_at)
    index, max_messages = word(topic, KeyTopicAt.index_at), word(asked, KeysAt.max_messages)
    answered, can_answer = np.int64(0), can_find(index, max_messages)
    for first in range(0, count, KEY_GROUP):
        size = min(KEY_GROUP, count - first) if can_answer else 0
        for n in range(size):
            begin, end = word(ends, first + n), word(ends, first + n + 1)
            key_hash = hash_of(topic, names + begin, end - begin)
            set_word(group + n * _CHAIN_SIZE, ChainAt.hash, key_hash)
            slot_at = slot_of(index, key_hash)
            set_word(group + n * _CHAIN_SIZE, ChainAt.slot_at, slot_at)
            for file in range(word(index, IndexAt.count)):
                prefetch(word(index, FIRST_INDEX_FILE + file) + slot_at)
        for file in range(word(index, IndexAt.count) if can_answer else 0):
            _ask_for_chains(index, word(index, FIRST_INDEX_FILE + file), group, size)
        for n in range(min(KEY_GROUP, count - first)):
            answer = _ASK
            begin, end = word(ends, first + n), word(ends, first + n + 1)
            if can_answer and is_ascii(names + begin, names + end):
                chain, buffer = group + n * _CHAIN_SIZE, word(asked, KeysAt.buffer_at)
                key_hash, slot_at = word(chain, ChainAt.hash), word(chain, ChainAt.slot_at)
                answer = find(topic, names + begin, end - begin, key_hash, slot_at, max_messages, buffer)
            set_word(answers, first + n, answer)
            answered += answer >= 0
    return answered
