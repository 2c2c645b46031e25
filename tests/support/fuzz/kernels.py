"""The laws of the kernels that read what is decoded: over any bytes both twins write and return the same.

The kernels that decode the log are in `support.fuzz.targets` ("record"), and with compiled loops in
`support.fuzz.compiled`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reput.files.maps import MapTable
from reput.formats.index import index_file
from reput.formats.index.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput.formats.log.record import CHECK_BODY, CHECK_NONE, MIN_RECORD_SIZE
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.kernels import field_kernels, filter_kernels, kernels, key_kernels, lookup_kernels
from reput.kernels.layouts.columns import Columns, FurtherRecords, ItemRange, PullRules
from reput.kernels.layouts.fields import COUNT_PAIRS, FIND_PROPERTIES, field_table
from reput.kernels.layouts.filter import FoundTexts, NumberTest, PropertyPlaces, TextList
from reput.kernels.layouts.keys import MOST_KEY_BYTES, KeyOutput, KeySources, KeyStateAt, key_state
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.kernels.layouts.lookup import (
    FIRST_PLACE,
    INDEX_LAYOUT,
    PLACE_WORDS,
    QUEUE_LAYOUT,
    WATCH_LAYOUT,
    AnswersAt,
)
from reput.kernels.layouts.pack import EntrySources, Packed
from reput.kernels.layouts.vectors import address_of, vector_of, words_of
from reput.log.read.decode import further_entries
from support.lookups import NO_BOUNDS, topic_vector
from support.twins import TWINS, Call, as_buffer, decode

if TYPE_CHECKING:
    from collections.abc import Callable


_NAMES = TextList.of([b"TAGS", b"KEYS", b"a"])
_WORDS = TextList.of([b"a", b"5", b"", b"true"])
_ENTRIES, _PULL_HEAD = 6, 8
_SLOTS, _ITEMS = 2, 5
_QUEUE_SIZE, _INDEX_SIZE = _ENTRIES * ENTRY_SIZE, index_file.file_size(_SLOTS, _ITEMS)
assert _INDEX_SIZE == HEADER_SIZE + _SLOTS * SLOT_SIZE + _ITEMS * ITEM_SIZE
_KEYS_AT_ONCE = 3


def _same(call: Callable[[str], list[Any]]) -> None:
    """Fail unless both twins give the same; NaN is equal to NaN."""
    reference, compiled = (repr(call(kind)) for kind in TWINS)
    assert reference == compiled, "the twins differ"


def fields(data: bytes) -> None:
    """Fields of what seems to be a record. The first byte is the place where it begins."""
    at, data = (data[0] if data else 0), data[1:]
    if at > len(data):
        return
    places = RecordPlaces(np.array([at]), np.array([len(data) - at], dtype=np.int32))

    def read(kind: str) -> list[Any]:
        table = field_table(1)
        table[:] = -77
        log = LogBytes.whole(as_buffer(data), 0)
        done = field_kernels(kind).read_fields(log, places, CHECK_NONE, FIND_PROPERTIES | COUNT_PAIRS, table)
        return [done, table.tolist()]

    _same(read)


def filters(data: bytes) -> None:
    """Properties that a filter reads, alone and in what seems to be a record, and the tests of their texts."""
    buffer = as_buffer(data)
    alone = PropertyPlaces(buffer, np.array([0]), np.array([len(data)], dtype=np.int32), False)
    stored = PropertyPlaces(buffer, np.array([0, len(data) // 2, -1]), np.empty(0, dtype=np.int32), True)
    for places in (alone, stored):

        def ask(kind: str, places: PropertyPlaces = places) -> list[Any]:
            run, count = filter_kernels(kind), len(places.at)
            found = FoundTexts.empty(len(_NAMES.ends), count)
            for array in found:
                array[:] = 7
            run.find_values(places, _NAMES, found)
            said = [array.tolist() for array in found]
            for number in range(len(_NAMES.ends)):
                texts = found.of_name(number, buffer)
                holds = [np.ones(count, dtype=np.bool_) for _ in range(2)]
                codes = [np.full(count, 9, dtype=np.uint8) for _ in range(4)]
                values = np.zeros(count)
                run.first_bytes(texts)
                run.is_one_of(texts, _WORDS, True, 2, codes[0])
                run.holds_text(texts, _WORDS.data[:1], False, False, holds[0])
                run.has_wide(texts, holds[1])
                run.compare_whole(texts, NumberTest(5, 4, 2, -(1 << 63), (1 << 63) - 1), codes[1])
                run.compare_double(texts, NumberTest(5, 4, 2), codes[2])
                run.read_double(texts, values, codes[3])
                said += [one.tolist() for one in (*holds, *codes, np.where(codes[3] == 0, values, 0))]
            return said

        _same(ask)


def dispatch(data: bytes) -> None:
    """Entries of queues and further queues, batches, items and keys of indexes."""

    def make(kind: str) -> list[Any]:
        columns = Columns(64, 64, 8)
        columns.kind = kind
        decode(kind, data, Call(crc_check=CHECK_BODY), columns)
        log, records, run = LogBytes.whole(as_buffer(data), 0), columns.records, kernels(kind)
        position, rows = columns.position[:records], np.arange(records, dtype=np.int32)
        base, messages = np.zeros(records, dtype=np.int64), np.zeros(records, dtype=np.int16)
        run.inner_batches(log, position, base, messages)
        queues = columns.queues
        per_queue = [np.zeros(queues + more, dtype=np.int64) for more in (1, 0, 0)]
        packed = Packed(np.zeros(records * ENTRY_SIZE, dtype=np.uint8), *per_queue, np.zeros(queues, dtype=np.uint8))
        run.pack_entries(queues, EntrySources.of(columns), packed)
        items, slots = np.zeros(columns.items * ITEM_SIZE, dtype=np.uint8), np.zeros(7, dtype=np.int32)
        run.chain_items(columns.item_sources, ItemRange(0, 0, columns.items, 1, 0), slots, items)
        keys = _keys(kind, log, columns)
        further = further_entries(log, FurtherRecords(rows, position, np.zeros(records, dtype=np.int32)), columns)
        made = (base, messages, *packed, items, slots, *further, columns.queue_id[: columns.queues])
        return [*(one.tolist() for one in made), keys]

    _same(make)


def _keys(kind: str, log: LogBytes, columns: Columns) -> list[Any]:
    """Return the keys of all records for the index database."""
    state, out = key_state(), KeyOutput.for_keys(_KEYS_AT_ONCE, 2 * MOST_KEY_BYTES)
    found: list[Any] = []
    while state[KeyStateAt.record] < columns.records:
        state[KeyStateAt.keys] = 0
        count = key_kernels(kind).gather_keys(log, KeySources.of(columns), out, state)
        found += [
            out.end[: count + 1].tolist(),
            out.text[: out.end[count]].tobytes(),
            out.store_timestamp[:count].tolist(),
        ]
    return [*found, state.tolist()]


def select(data: bytes) -> None:
    """Entries that a pull chooses from. The first bytes are its bounds."""
    head, data = data[:_PULL_HEAD].ljust(_PULL_HEAD, b"\0"), data[_PULL_HEAD:]
    entries = as_buffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE])
    codes = np.array([head[5], -head[5]][: head[4] % 3], dtype=np.int64)
    rules = PullRules(head[0], head[1] << 8, 1 + (head[2] << 4), codes, 1 + head[3] % 8, head[6] << 8, head[7] << 8)

    def choose(kind: str) -> list[Any]:
        places = np.full(2 * rules.max_messages + 2, -7, dtype=np.int64)
        choice = kernels(kind).select_entries(entries, rules, places)
        return [*map(int, choice), places.tolist()]

    _same(choose)


def lookup(data: bytes) -> None:
    """Pulls, searches by time and by key. A queue file and an IndexFile come first, then a file of the log."""
    data = data.ljust(_QUEUE_SIZE + _INDEX_SIZE + MIN_RECORD_SIZE, b"\0")
    entries, index = as_buffer(data[:_QUEUE_SIZE]), as_buffer(data[_QUEUE_SIZE : _QUEUE_SIZE + _INDEX_SIZE])
    log = as_buffer(data[_QUEUE_SIZE + _INDEX_SIZE :])
    log_table, queue_table = MapTable(0, 1, 1), MapTable(0, 1, 1)
    log_table.put(0, log)
    queue_table.put(0, entries)
    watch = dict.fromkeys(WATCH_LAYOUT.offsets, 0) | {
        "log_at": log_table.address, "log_file_size": len(log), "log_end": len(log)
    }  # fmt: skip

    def ask(kind: str) -> list[Any]:
        run, times = lookup_kernels(kind), np.zeros(4, dtype=np.int64)
        queue = vector_of(
            QUEUE_LAYOUT,
            **watch,
            first=0,
            end=_ENTRIES,
            file_entries=_ENTRIES,
            files_at=queue_table.address,
            window_begin=1,
            window_end=_ENTRIES,
            entries_at=address_of(entries) + ENTRY_SIZE,
            is_last=data[0] & 1,
            records_begin=0,
            records_end=len(log),
            **NO_BOUNDS,
            times_at=address_of(times),
            time_count=len(times),
        )
        said: list[Any] = [
            _answer(lambda at, offset=offset: run.pull_entries(address_of(queue), offset, 3, 1000, at))
            for offset in range(_ENTRIES + 1)
        ]
        for time in (0, int.from_bytes(data[-8:]) >> 2, 1 << 40):
            said += [run.seek_time(address_of(queue), time, above) for above in (0, 1)]
        words = words_of(INDEX_LAYOUT, **watch, slots=_SLOTS, items=_ITEMS, below=len(log), count=1)
        indexes = np.array([*words, address_of(index)], dtype=np.int64)
        for topic, key in ((b"t", b"a"), (b"orders", b"\xc3"), (b"t", b"")):
            asked = topic_vector(topic, indexes)
            said += [
                _answer(lambda at, most=most, asked=asked, key=key: run.find_key(address_of(asked), key, most, at))
                for most in (1, 9)
            ]
        return said

    _same(ask)


def _answer(ask: Callable[[int], int]) -> list[int]:
    """Return the answer of a kernel, and the words of the buffer that it says to have filled."""
    words = np.full(FIRST_PLACE + 4 * PLACE_WORDS, -7, dtype=np.int64)
    words[AnswersAt.free], words[AnswersAt.end] = FIRST_PLACE, len(words)
    answer = ask(address_of(words))
    return [answer, *words[: int(words[AnswersAt.free])].tolist()]
