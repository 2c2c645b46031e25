"""The lookup kernels: both twins answer alike, and as the files say, for any bytes in them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.files.maps import MapTable
from reput.formats.index import index_file
from reput.formats.index.index_file import HEADER_SIZE, ITEM, ITEM_SIZE, SLOT_SIZE, Header, encode_header
from reput.formats.java.hashing import index_key_hash
from reput.formats.log.record import BODY_AT_V4, MIN_RECORD_SIZE, Record, encode_record
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, LAST_BLANK, PRE_BLANK
from reput.kernels import LookupKernels, ManyKernels, lookup_kernels, many_kernels
from reput.kernels.compiled import lookup, many
from reput.kernels.layouts.lookup import (
    ASK,
    BUFFER_FULL,
    CHAIN_WORDS,
    INDEX_LAYOUT,
    KEY_GROUP,
    KEY_TOPIC_LAYOUT,
    KEYS_LAYOUT,
    MOST_MESSAGES,
    PLACE_WORDS,
    QUEUE_LAYOUT,
    SEARCH_WORDS,
    SEEK_GROUP,
    SEEKS_LAYOUT,
    WATCH_LAYOUT,
    AnswersAt,
    WatchAt,
    answer_at,
    answer_count,
    needed_file,
    pack_answer,
    pack_needed,
)
from reput.kernels.layouts.vectors import address_of, vector_of, words_of
from support.lookups import NO_BOUNDS, topic_vector
from support.twins import TWINS

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOPIC = b"orders"
SLOTS, ITEMS = 3, 40
FILE_SIZE = 3200
FILE_ENTRIES = 7


class World:
    """A log of two files, a queue of small files and one IndexFile, all in memory, as the vectors describe them."""

    def __init__(self, times: list[int], keys: list[bytes], blanks: set[int], mapped: bool = True) -> None:
        self.log = [np.zeros(FILE_SIZE, dtype=np.uint8) for _ in range(2)]
        self.places: list[tuple[int, int]] = []
        self._write(times, keys)
        self.entries = b"".join(
            (LAST_BLANK if n % 2 else PRE_BLANK) if n in blanks else ENTRY.struct.pack(*place, 0)
            for n, place in enumerate(self.places)
        )
        self.index = self._index_file(times, keys)
        files = -(-len(self.places) // FILE_ENTRIES)
        self.queue_files = [self._queue_file(n) for n in range(files)]
        self.log_table, self.queue_table = MapTable(0, 2, 64), MapTable(0, files, 64)
        if mapped:
            for number in range(2):
                self.map(pack_needed(number, False))
            for number in range(files):
                self.map(pack_needed(number, True))
        self.mark = np.zeros(3, dtype=np.int64)
        self.times = np.zeros(8, dtype=np.int64)

    def map(self, needed: int) -> None:
        """Map the file that a kernel asks for."""
        number, of_queue = needed_file(needed)
        table, files = (self.queue_table, self.queue_files) if of_queue else (self.log_table, self.log)
        assert table.put(number, files[number])

    def _write(self, times: list[int], keys: list[bytes]) -> None:
        offset = 0
        for time, key in zip(times, keys, strict=True):
            record = Record(
                TOPIC, b"b", b"KEYS\x01a " + key + b"\x02UNIQ_KEY\x01u" + key + b"\x02", store_timestamp=time
            )
            size = len(encode_record(record))
            if offset // FILE_SIZE != (offset + size + 8) // FILE_SIZE:
                offset = FILE_SIZE
            record = Record(record.topic, record.body, record.properties, store_timestamp=time, physical_offset=offset)
            at = offset % FILE_SIZE
            self.log[offset // FILE_SIZE][at : at + size] = np.frombuffer(encode_record(record), dtype=np.uint8)
            self.places.append((offset, size))
            offset += size

    def _queue_file(self, number: int) -> NDArray[np.uint8]:
        data = self.entries[number * FILE_ENTRIES * ENTRY_SIZE : (number + 1) * FILE_ENTRIES * ENTRY_SIZE]
        return np.frombuffer(data.ljust(FILE_ENTRIES * ENTRY_SIZE, b"\0"), dtype=np.uint8)

    def _index_file(self, times: list[int], keys: list[bytes]) -> NDArray[np.uint8]:
        data = bytearray(index_file.file_size(SLOTS, ITEMS))
        data[:HEADER_SIZE] = encode_header(Header(0, max(times, default=0), 0, 0, 0, len(keys) + 1))
        newest: dict[int, int] = {}
        for number, (key, (offset, _)) in enumerate(zip(keys, self.places, strict=True), 1):
            key_hash = index_key_hash(TOPIC + b"#" + key)
            at = HEADER_SIZE + SLOTS * SLOT_SIZE + number * ITEM_SIZE
            data[at : at + ITEM_SIZE] = ITEM.struct.pack(key_hash, offset, 0, newest.get(key_hash % SLOTS, 0))
            newest[key_hash % SLOTS] = number
            at = HEADER_SIZE + key_hash % SLOTS * SLOT_SIZE
            data[at : at + SLOT_SIZE] = number.to_bytes(SLOT_SIZE, "big")
        return np.frombuffer(bytes(data), dtype=np.uint8)

    def _watch(self) -> dict[str, int]:
        cells = [address_of(self.mark) + 8 * n for n in range(3)]
        return dict.fromkeys(WATCH_LAYOUT.offsets, 0) | {
            "confirmed_at": cells[0], "frontier_at": cells[1], "generation_at": cells[2],
            "log_at": self.log_table.address, "log_file_size": FILE_SIZE, "log_end": 2 * FILE_SIZE,
        }  # fmt: skip

    def queue(self, begin: int, end: int, **fields: int) -> NDArray[np.int64]:
        """The queue's vector, with the window [begin, end)."""
        self.window = np.frombuffer(self.entries[begin * ENTRY_SIZE :], dtype=np.uint8)
        given = self._watch() | {
            "first": 0, "end": len(self.places), "file_entries": FILE_ENTRIES, "files_at": self.queue_table.address,
            "window_begin": begin, "window_end": end, "entries_at": address_of(self.window), "is_last": 1,
            "records_begin": 0, "records_end": 2 * FILE_SIZE,
            "times_at": address_of(self.times), "time_count": len(self.times),
        }  # fmt: skip
        return vector_of(QUEUE_LAYOUT, **given | NO_BOUNDS | fields)

    def index_vector(self, below: int = 2 * FILE_SIZE) -> NDArray[np.int64]:
        """The index's vector."""
        fields = words_of(INDEX_LAYOUT, **self._watch(), slots=SLOTS, items=ITEMS, below=below, count=1)
        return np.array([*fields, address_of(self.index)], dtype=np.int64)


TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=ITEMS - 1).map(sorted)
KEYS = st.sampled_from([b"Aa", b"BB", b"k", b"other", b"a"])


@st.composite
def worlds(draw: Any, mapped: bool = True) -> World:
    """Worlds in which times do not run backwards."""
    times = draw(TIMES)
    keys = draw(st.lists(KEYS, min_size=len(times), max_size=len(times)))
    return World(times, keys, draw(st.sets(st.integers(0, len(times) - 1), max_size=5)), mapped)


class AnswerBuffer:
    """A buffer for some places, of which another answer has taken one already."""

    def __init__(self, most: int) -> None:
        self.words = np.full(4 + PLACE_WORDS * most, -7, dtype=np.int64)
        self.words[AnswersAt.free], self.words[AnswersAt.end] = 4, len(self.words)
        self.address = address_of(self.words)

    def used(self) -> list[int]:
        """All words up to the first one that is free; those after it may have any values."""
        return self.words[: int(self.words[AnswersAt.free])].tolist()

    def read(self, answer: int) -> tuple[int, list[int]]:
        """The number of messages in an answer, or the reason why it has none; and the places that it names."""
        free = int(self.words[AnswersAt.free])
        if answer < 0:
            assert free == 4, "a kernel that finds nothing keeps nothing"
            return answer, []
        assert answer_at(answer) == 4
        assert self.words[free:].tolist() == [-7] * (len(self.words) - free)
        return answer_count(answer), self.words[4:free].tolist()


def pull(
    run: LookupKernels, vector: NDArray[np.int64], offset: int, most: int, most_bytes: int
) -> tuple[int, list[int]]:
    """The answer to a pull: how many, or why none; and their places."""
    buffer = AnswerBuffer(most)
    return buffer.read(run.pull_entries(address_of(vector), offset, most, most_bytes, buffer.address))


@given(worlds(), st.data())
@settings(max_examples=150, deadline=None)
def test_twins_pull_alike(world: World, data: st.DataObject) -> None:
    """Both twins give the same places, which are those of the entries, or both leave the pull to the general way."""
    count = len(world.places)
    begin = data.draw(st.integers(0, count - 1))
    vector = world.queue(
        begin, count, is_last=data.draw(st.integers(0, 1)), most_messages=data.draw(st.integers(1, 9)),
        records_end=data.draw(st.sampled_from([FILE_SIZE, 2 * FILE_SIZE])), most_bytes=data.draw(st.integers(100, 900)),
    )  # fmt: skip
    asked = data.draw(st.tuples(st.integers(begin - 1, count + 1), st.integers(1, 12), st.integers(-5, 2000)))
    answers = [pull(lookup_kernels(kind), vector, *asked) for kind in TWINS]

    assert answers[0] == answers[1]
    taken, found = answers[0]
    if taken > 0:
        places = world.places[asked[0] : asked[0] + taken]
        assert found == [word for place in places for word in place]


@pytest.mark.parametrize("kind", TWINS)
def test_entries_out_of_order_are_for_the_general_way(kind: str) -> None:
    """A pull whose entries go back in the log, as damage has them, is left to the way that reports it."""
    world = World([1, 2, 3], [b"k"] * 3, set())
    places = [ENTRY.struct.pack(*place, 0) for place in world.places]
    world.entries = places[1] + places[0] + places[2]
    assert pull(lookup_kernels(kind), world.queue(0, 3), 0, 3, 1 << 16) == (ASK, [])
    assert pull(lookup_kernels(kind), world.queue(0, 3), 1, 2, 1 << 16)[0] == 2


@given(worlds(mapped=False), st.integers(-1, 32), st.integers(0, 1))
@settings(max_examples=150, deadline=None)
def test_twins_seek_alike_and_find_the_first(world: World, time: int, above: int) -> None:
    """The first entry at or after a time, blank entries counting as the next message; both ask for the same files."""
    vector = world.queue(0, len(world.places))
    while (found := lookup_kernels("reference").seek_time(address_of(vector), time, above)) < ASK:
        assert lookup_kernels("compiled").seek_time(address_of(vector), time, above) == found
        world.map(found)
    assert lookup_kernels("compiled").seek_time(address_of(vector), time, above) == found

    def reached(offset: int) -> bool:
        """Return true if the message of an entry, or the next one's, is that late."""
        for number in range(offset, len(world.places)):
            place, size, _ = ENTRY.struct.unpack_from(world.entries, number * ENTRY_SIZE)
            if (place, size) == world.places[number]:
                at = place % FILE_SIZE + 56
                stored = int.from_bytes(world.log[place // FILE_SIZE][at : at + 8].tobytes(), "big")
                return stored >= time + above
        return True

    first = next((offset for offset in range(len(world.places)) if reached(offset)), len(world.places))
    assert reached(found) or found == len(world.places)
    assert found == 0 or not reached(found - 1)
    assert found >= first


@given(worlds(), KEYS, st.integers(1, 12), st.integers(0, 2 * FILE_SIZE))
@settings(max_examples=150, deadline=None)
def test_twins_find_keys_alike(world: World, key: bytes, most: int, below: int) -> None:
    """The newest messages that have the key itself, no other of its hash, each once, and whether there are more."""
    vector = world.index_vector(below)
    topic = topic_vector(TOPIC, vector)
    answers = []
    for run in map(lookup_kernels, TWINS):
        buffer, cramped = AnswerBuffer(most), AnswerBuffer(most - 1)
        asked = address_of(topic), key, most
        answers.append(buffer.read(run.find_key(*asked, buffer.address)))
        small = cramped.read(run.find_key(*asked, cramped.address))
        assert small == (answers[-1] if answers[-1][0] < most else (BUFFER_FULL, []))
    assert answers[0] == answers[1]
    count, places = answers[0]
    assert len(places) == 2 * min(count, most)
    assert set(zip(places[::2], places[1::2], strict=True)) <= set(world.places)
    assert all(offset < below for offset in places[::2])
    assert places[::2] == sorted(set(places[::2]), reverse=True)


@given(worlds(mapped=False), st.lists(st.integers(-1, 32), min_size=1, max_size=40), st.integers(0, 1))
@settings(max_examples=100, deadline=None)
def test_many_searches_by_time_answer_as_single_ones(world: World, times: list[int], above: int) -> None:
    """Both twins give each question the answer of the single search; a queue without a vector is left open."""
    vector = world.queue(0, len(world.places))
    queues = np.array([0 if time % 5 == 4 else address_of(vector) for time in times], dtype=np.int64)
    asked, group = np.array(times, dtype=np.int64), np.empty(SEEK_GROUP * SEARCH_WORDS, dtype=np.int64)

    def answers(run: ManyKernels) -> list[int]:
        found = np.full(len(times), 7, dtype=np.int64)
        record = vector_of(
            SEEKS_LAYOUT, queues_at=address_of(queues), timestamps_at=address_of(asked), count=len(times), above=above,
            answers_at=address_of(found), group_at=address_of(group),
        )  # fmt: skip
        assert run.seek_times(address_of(record)) == np.count_nonzero(found >= 0)
        return found.tolist()

    single = lookup_kernels("reference").seek_time
    while True:
        found = answers(many_kernels("compiled"))
        assert found == answers(many_kernels("reference"))
        assert found == [single(address_of(vector), time, above) if time % 5 != 4 else ASK for time in times]
        needed = [answer for answer in found if answer < ASK]
        if not needed:
            break
        for answer in set(needed):
            world.map(answer)


@given(
    worlds(), st.lists(st.one_of(KEYS, st.just("ключ".encode())), max_size=40), st.integers(0, 9), st.integers(1, 60)
)
@settings(max_examples=100, deadline=None)
def test_many_questions_by_key_answer_as_single_ones(world: World, keys: list[bytes], most: int, space: int) -> None:
    """Both twins give each question the answer of the single one, and write the places alike."""
    index = world.index_vector()
    topic = topic_vector(TOPIC, index)
    names, group = np.frombuffer(b"".join(keys) or b"\0", dtype=np.uint8), np.empty(KEY_GROUP * CHAIN_WORDS, np.int64)
    ends = np.array([0, *np.cumsum([len(key) for key in keys])], dtype=np.int64)
    reported = []
    for kind in TWINS:
        buffer, found = AnswerBuffer(space), np.full(len(keys), 7, dtype=np.int64)
        record = vector_of(
            KEYS_LAYOUT, topic_at=address_of(topic), names_at=address_of(names), ends_at=address_of(ends),
            count=len(keys), max_messages=most, answers_at=address_of(found), buffer_at=buffer.address,
            group_at=address_of(group),
        )  # fmt: skip
        assert many_kernels(kind).find_keys(address_of(record)) == np.count_nonzero(found >= 0)
        reported.append((found.tolist(), buffer.used()))
    one_by_one = AnswerBuffer(space)
    single = [lookup_kernels("reference").find_key(address_of(topic), key, most, one_by_one.address) for key in keys]
    assert reported == [(single, one_by_one.used())] * 2


@given(worlds(), st.lists(st.integers(-1, 32), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_kept_times_change_no_answer(world: World, times: list[int]) -> None:
    """A search that finds the times of its first steps kept gives the answer of the first one, which read them."""
    vector, run = world.queue(0, len(world.places)), lookup_kernels("compiled")
    fresh = [lookup_kernels("reference").seek_time(address_of(vector), time, 0) for time in times]
    assert [run.seek_time(address_of(vector), time, 0) for time in times] == fresh
    assert [run.seek_time(address_of(vector), time, 0) for time in times] == fresh


@pytest.mark.parametrize("kind", TWINS)
def test_a_full_buffer_is_reported(kind: str) -> None:
    """A kernel without space for its answer says so, and leaves the buffer as it is."""
    world, buffer, run = World([1, 2], [b"k", b"k"], set()), AnswerBuffer(1), lookup_kernels(kind)
    assert run.pull_entries(address_of(world.queue(0, 2)), 0, 2, 1000, buffer.address) == BUFFER_FULL
    assert buffer.read(run.pull_entries(address_of(world.queue(0, 2)), 1, 2, 1000, buffer.address))[0] == 1
    assert run.pull_entries(address_of(world.queue(0, 2)), 0, MOST_MESSAGES + 1, 1000, buffer.address) == ASK


@pytest.mark.parametrize("kind", TWINS)
def test_keys_that_are_not_ascii_are_not_looked_for(kind: str) -> None:
    """Bytes that are no ASCII decode to another text; the general way compares texts."""
    world, buffer, run = World([1], ["ключ".encode()], set()), AnswerBuffer(1), lookup_kernels(kind)
    vector = world.index_vector()
    topic = topic_vector(TOPIC, vector)
    assert run.find_key(address_of(topic), "ключ".encode(), 1, buffer.address) == ASK


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("mark", [0, 1, 2])
def test_what_has_changed_is_not_answered(kind: str, mark: int) -> None:
    """More confirmed, more indexed, or another generation: the kernels leave the answer to the general way."""
    world, run = World([1, 2], [b"k", b"k"], set()), lookup_kernels(kind)
    queue, index, buffer = world.queue(0, 2), world.index_vector(), AnswerBuffer(9)
    topic = topic_vector(TOPIC, index)
    queue[[WatchAt.confirmed, WatchAt.frontier, WatchAt.generation]] = 5
    index[[WatchAt.confirmed, WatchAt.frontier, WatchAt.generation]] = 5
    world.mark[:] = 5
    assert pull(run, queue, 0, 9, 1000)[0] == 2
    assert run.seek_time(address_of(queue), 2, 0) == 1
    assert answer_count(run.find_key(address_of(topic), b"k", 9, AnswerBuffer(9).address)) == 2
    world.mark[mark] = 6
    assert pull(run, queue, 0, 9, 1000)[0] == ASK
    assert run.seek_time(address_of(queue), 2, 0) == ASK
    assert run.find_key(address_of(topic), b"k", 9, buffer.address) == ASK


def damaged_index(world: World, item: int, **fields: int) -> None:
    """Change fields of an item of the IndexFile."""
    data = bytearray(world.index.tobytes())
    at = HEADER_SIZE + SLOTS * SLOT_SIZE + item * ITEM_SIZE
    names = ("key_hash", "physical", "diff_s", "previous")
    values = dict(zip(names, ITEM.struct.unpack_from(data, at), strict=True)) | fields
    ITEM.struct.pack_into(data, at, *values.values())
    world.index = np.frombuffer(bytes(data), dtype=np.uint8)


def find_k(kind: str, world: World) -> tuple[int, list[int]]:
    """Ask for the key "k"."""
    vector, buffer = world.index_vector(), AnswerBuffer(9)
    topic = topic_vector(TOPIC, vector)
    return buffer.read(lookup_kernels(kind).find_key(address_of(topic), b"k", 9, buffer.address))


@pytest.mark.parametrize("kind", TWINS)
def test_damaged_items_are_not_believed(kind: str) -> None:
    """A chain ends at an item without a time, and one that leads to no older item is left to the general way."""
    keys = [b"k"] * 3
    world = World([1, 2, 3], keys, set())
    damaged_index(world, 2, diff_s=-1)
    assert find_k(kind, world) == (1, [*world.places[2]])
    world = World([1, 2, 3], keys, set())
    damaged_index(world, 2, previous=2)
    assert find_k(kind, world) == (ASK, [])
    world = World([1, 2, 3], keys, set())
    data = bytearray(world.index.tobytes())
    data[:HEADER_SIZE] = encode_header(Header(-1, 3, 0, 0, 0, 4))
    world.index = np.frombuffer(bytes(data), dtype=np.uint8)
    assert find_k(kind, world) == (ASK, [])


@pytest.mark.parametrize("kind", TWINS)
def test_items_that_lead_to_no_such_record_are_passed_over(kind: str) -> None:
    """An item whose record has another topic, is no record or is not in a mapped file gives no message."""
    world = World([1, 2, 3], [b"k"] * 3, set())
    damaged_index(world, 2, physical=world.places[1][0] + 1)
    at = world.places[0][0] + BODY_AT_V4 + 1
    world.log[0][at + 1 : at + 1 + len(TOPIC)] = np.frombuffer(b"others", dtype=np.uint8)
    assert find_k(kind, world) == (1, [*world.places[2]])
    unmapped = World([1, 2, 3], [b"k"] * 3, set(), mapped=False)
    assert find_k(kind, unmapped) == (pack_needed(0, False), [])


@pytest.mark.parametrize("kind", TWINS)
def test_an_entry_that_leads_past_a_file_has_no_time(kind: str) -> None:
    """A search by time passes over an entry whose record does not fit into its file of the log."""
    world = World([5, 6, 7], [b"k"] * 3, set())
    entries = bytearray(world.entries)
    entries[:ENTRY_SIZE] = ENTRY.struct.pack(FILE_SIZE - MIN_RECORD_SIZE + 1, 91, 0)
    world.entries = bytes(entries)
    world.queue_table.put(0, world._queue_file(0))
    queue = world.queue(0, 3)
    assert [lookup_kernels(kind).seek_time(address_of(queue), time, 0) for time in (0, 6, 7, 8)] == [0, 0, 2, 3]


@pytest.mark.parametrize("kind", TWINS)
def test_a_record_that_ends_past_the_largest_number_is_not_there(kind: str) -> None:
    """Place and size of an entry whose sum has more than 63 bits lead to no record (found by make fuzz-decoders)."""
    world = World([1, 2], [b"a", b"b"], set())
    world.entries = ENTRY.struct.pack((1 << 63) - 100, 200, 0) + world.entries[ENTRY_SIZE:]
    vector = world.queue(0, 2)
    assert pull(lookup_kernels(kind), vector, 0, 1, 1000) == (ASK, [])
    assert pull(lookup_kernels(kind), vector, 1, 1, 1000)[0] == 1


@pytest.mark.parametrize("name", [*LookupKernels._fields, *ManyKernels._fields])
def test_twins_take_the_same_arguments(name: str) -> None:
    """Each kernel has the same parameters in the same order in both twins."""
    is_single = name in LookupKernels._fields
    reference = getattr((lookup_kernels if is_single else many_kernels)("reference"), name)
    compiled = getattr(lookup if is_single else many, name)
    assert list(inspect.signature(compiled.py_func).parameters) == list(inspect.signature(reference).parameters)


@given(st.integers(0, 1 << 40), st.integers(0, MOST_MESSAGES + 1))
def test_an_answer_says_what_was_packed(at: int, count: int) -> None:
    """An answer gives back its number of messages and their place, and is no refusal."""
    answer = pack_answer(at, count)
    assert (answer_at(answer), answer_count(answer)) == (at, count)
    assert answer >= 0


@given(st.integers(0, 1 << 40), st.booleans())
def test_a_needed_file_says_what_was_packed(number: int, of_queue: bool) -> None:
    """An answer that asks for a file names it, and is not taken for another refusal."""
    assert needed_file(pack_needed(number, of_queue)) == (number, of_queue)
    assert BUFFER_FULL < pack_needed(number, of_queue) < ASK


def test_words_come_in_the_layouts_order() -> None:
    """Words are given by name, each of them once."""
    assert words_of(KEY_TOPIC_LAYOUT, size=3, index_at=1, hash=2) == [1, 2, 3]
    with pytest.raises(ValueError, match="2 words are given, 3 are needed"):
        words_of(KEY_TOPIC_LAYOUT, size=3, index_at=1)
    with pytest.raises(KeyError, match="hash"):
        words_of(KEY_TOPIC_LAYOUT, size=3, index_at=1, hsah=2)
