"""The kernel of a single put: both twins write the same record, and nothing where it has no place."""

from __future__ import annotations

import gc
import mmap
import sys
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput import kernels
from reput.files.watermarks import WatermarkCell
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.record import Host, Record, decode_record, encode_record
from reput.kernels.layouts.place import MESSAGE_FIELDS, NO_ROOM, NOT_PLACED, OWN_HOST
from reput.kernels.layouts.vectors import address_of
from reput.log.append.lists import FIELDS_AT
from reput.log.append.log_end import LogEnd
from reput.log.encode.encode import RecordEncoder, number_of_host
from reput.log.encode.message import Message, PutResult, PutStatus
from reput.log.encode.topics import NO_OFFSET, TopicState, TopicTable
from support.twins import TWINS

if TYPE_CHECKING:
    from numpy.typing import NDArray

BORN = Host(b"\xc0\xa8\xff\x07", 52122)
BORN_NUMBER = int.from_bytes(BORN.encode(), "big", signed=True)
V4, V6 = Host(b"\x7f\0\0\1", 10911), Host(bytes(range(16)), -1)
FILE_START, ROOM, MAX_BODY = 1 << 33, 2000, 700
NUMBERS = (5, NO_OFFSET, (1 << 40) + 1)
PROPERTIES = "a\x01b\x02TAGS\x01sch\u00f6n\x02KEYS\x01k\x02UNIQ_KEY\x01u\x02".encode()
TOPICS = ("orders", "订单" * 30)


class Name(str):
    """A text of a class of its own, as enums of texts are."""

    __slots__ = ()


class Renamed(Message):
    """A message of a class of its own."""


class Put(NamedTuple):
    """The arguments of a call, but for addresses."""

    topic: int
    queue_id: Any
    flag: Any
    born: Any
    now_ms: int
    body: Any
    tags: Any = None
    keys: Any = None
    unique_key: Any = None
    properties: Any = None
    born_host: int = OWN_HOST


texts = st.sampled_from(
    (
        None,
        None,
        "t",
        "tag",
        "sch\u00f6n",
        "\u8ba2\u5355" * 9,
        "",
        "a b",
        "a\x01",
        "\x02",
        "x" * 70 + "\x01",
        "\udc80",
        5,
        b"t",
        ("k",),
    )
) | st.text(max_size=80)
puts = st.builds(
    Put,
    st.integers(0, 1),
    st.sampled_from((0, 0, 0, 1, 2, 3, -1, 1 << 62, 1 << 64, True, "0", None)),
    st.sampled_from((0, 0, 7, -(1 << 31), (1 << 31) - 1, 1 << 31, 1 << 80, -(1 << 63), False, 1.0)),
    st.sampled_from((None, None, 0, -1, (1 << 63) - 1, 1 << 63, -(1 << 63), True, "now")),
    st.integers(1000, 1003),
    st.binary(max_size=60) | st.sampled_from((bytes(MAX_BODY), bytes(MAX_BODY + 1), bytearray(b"x"), "text", None)),
    texts,
    texts,
    texts,
    st.sampled_from((None, None, b"", b"a\x01b\x02", bytes(MAX_PROPERTIES_SIZE + 1), "a", {})),
    st.sampled_from((OWN_HOST, OWN_HOST, BORN_NUMBER, 0, -1, (1 << 63) - 1)),
)
ordinary_puts = st.builds(
    Put,
    st.integers(0, 1),
    st.just(0),
    st.just(0),
    st.none() | st.integers(0, 1 << 40),
    st.integers(1000, 1003),
    st.binary(max_size=60),
    st.none() | st.text("abc\u00e9\u8ba2 ", max_size=70),
    st.none() | st.text("abc\u00e9\u8ba2", min_size=1, max_size=70),
    st.none() | st.text("abc\u00e9\u8ba2 ", min_size=1, max_size=70),
    st.sampled_from((None, b"a\x01b\x02")),
    st.just(OWN_HOST),
)


class Log:
    """The end of a log of one file, with two topics."""

    def __init__(self, twin: str, host: Host, publishes: bool = True) -> None:
        self.kernels = kernels.place_kernels(twin)
        self.place = self.kernels.place_record
        self.records = RecordEncoder(host)
        self.lock = Lock()
        self.end = LogEnd(FILE_START + 100, 1001, self.records, MAX_BODY, self.lock)
        self.memory = mmap.mmap(-1, 4096)
        self.wrote, self.confirmed = WatermarkCell.own(), WatermarkCell.own()
        self.end.publish_at(self.wrote.at, self.confirmed.at if publishes else 0)
        self.end.take_memory(self.memory, FILE_START, FILE_START + ROOM)
        table = TopicTable({}, 0)
        self.topics = [table.topic(name) for name in TOPICS]
        self.topic_at = table.at_by_name
        for topic in self.topics:
            for queue_id, number in enumerate(NUMBERS):
                topic.go_on_at(queue_id, number)

    def put(self, given: Put) -> PutResult | None:
        """Call the kernel."""
        now_ns = given.now_ms * 1_000_000 + 999_999
        return self.place(
            self.end.at, self.topics[given.topic].at, given.queue_id, given.flag, given.born, given.born_host, now_ns,
            given.body, given.tags, given.keys, given.unique_key, given.properties,
        )  # fmt: skip

    def put_message(self, message: object, queue_id: object, now_ms: int) -> PutResult | None:
        """Call the kernel of messages."""
        return self.kernels.place_message(self.end.at, FIELDS_AT, self.topic_at, message, queue_id, now_ms * 1_000_000)

    def put_list(self, messages: Any, queue_ids: object, now_ms: int) -> tuple[int, NDArray[np.int64]]:
        """Call the kernel of lists; return its answer and the places. `listed_ms` is the store time then."""
        places = np.zeros(3 * (len(messages) if messages else 0) + 1, dtype=np.int64)
        now_ns = now_ms * 1_000_000
        done = self.kernels.place_messages(
            self.end.at, FIELDS_AT, self.topic_at, messages, queue_ids, now_ns, address_of(places)
        )
        self.listed_ms = places[-1]
        return done, places[:-1].reshape(3, -1)

    @property
    def state(self) -> tuple[object, ...]:
        """All that a call may change."""
        end, numbers = self.end, [list(topic.numbers) for topic in self.topics]
        marks = self.wrote.view[0], self.confirmed.view[0]
        return self.memory[:], end.offset, end.last_ms, end.room_end, numbers, marks


@given(st.lists(puts | ordinary_puts, max_size=12), st.sampled_from((V4, V6)), st.booleans())
def test_the_twins_place_the_same_records(given_puts: list[Put], host: Host, publishes: bool) -> None:
    """Any puts leave the same bytes, numbers, times and positions, and get the same answers."""
    one, other = (Log(twin, host, publishes) for twin in TWINS)
    for each in given_puts:
        before = one.state
        answer = one.put(each)
        assert answer == other.put(each)
        assert one.state == other.state
        assert type(answer) in {PutResult, type(None)}
        if answer is None:
            assert one.state == before
    assert not any(one.memory[ROOM:])
    assert not any(one.memory[:100])


def message_of(given: Put, changed: tuple[str, object] | None) -> Message:
    """A message with the values of a put, and one more that few have."""
    made = Message(
        TOPICS[given.topic], given.body, given.tags, given.keys, flag=given.flag, born_timestamp=given.born,
        unique_key=given.unique_key,
    )  # fmt: skip
    if changed is not None:
        setattr(made, *changed)
    return made


changes = st.sampled_from(
    (
        *(None for _ in range(30)), ("topic", "unknown"), ("topic", 5), ("topic", None), ("sys_flag", 1),
        ("sys_flag", False), ("reconsume_times", 2), ("prepared_transaction_offset", 1 << 70), ("born_host", BORN),
        ("properties", {"a": "b"}), ("properties", {}),
    )
)  # fmt: skip


@given(
    st.lists(st.lists(st.tuples(ordinary_puts | ordinary_puts | puts, changes), max_size=6), max_size=4),
    st.booleans(),
    st.integers(1000, 1003),
)
def test_the_twins_place_the_same_lists(
    lists: list[list[tuple[Put, tuple[str, object] | None]]], one_by_one: bool, now_ms: int
) -> None:
    """A list is stored whole or not at all, as its messages are one by one, and both twins give the same answers."""
    one, other = (Log(twin, V4) for twin in TWINS)
    for each in lists:
        before, before_ms, messages = one.state, one.end.last_ms, [message_of(*given) for given in each]
        queue_ids: Any = [put.queue_id for put, _ in each]
        if one_by_one:
            for message, queue_id in zip(messages, queue_ids, strict=True):
                assert one.put_message(message, queue_id, now_ms) == other.put_message(message, queue_id, now_ms)
        else:
            done, places = one.put_list(messages, queue_ids, now_ms)
            same, same_places = other.put_list(messages, queue_ids, now_ms)
            assert done == same
            if done < 0:
                assert one.state == before
            else:
                assert (places == same_places).all()
                assert one.listed_ms == other.listed_ms == max(now_ms, before_ms)
                assert done == places[1].sum() == one.end.offset - (places[0, 0] if len(each) else one.end.offset)
        assert one.state == other.state
    assert not any(one.memory[ROOM:])


@pytest.mark.parametrize("twin", TWINS)
def test_a_list_is_what_its_messages_are(twin: str) -> None:
    """A list leaves the records and numbers of its messages put one by one; what is no list of messages is left."""
    messages = [Message(TOPICS[0], b"%d" % number, "tag", "k", unique_key="u") for number in range(5)]
    one, other = Log(twin, V4), Log(twin, V4)
    done, places = one.put_list(messages, 0, 2000)
    results = [other.put_message(message, 0, 2000) for message in messages]
    assert all(result is not None for result in results)
    assert places.T.tolist() == [list(result[1:4]) for result in results if result is not None]
    assert done == places[1].sum()
    assert one.state == other.state
    strange: list[tuple[Any, Any]] = [
        (tuple(messages), 0), ([*messages, "text"], 0), (messages, [0]), (messages, (0,) * 5), (messages, "0"),
        ([Renamed(TOPICS[0], b"x")], 0), (None, 0), (messages, [0, 0, 0, 0, 1]),
    ]  # fmt: skip
    for given_messages, queue_ids in strange:
        assert one.put_list(given_messages, queue_ids, 2000)[0] == NOT_PLACED
    assert one.state == other.state
    one.end.shut()
    assert one.put_list(messages, 0, 2000)[0] == NO_ROOM - done
    assert one.put_message(messages[0], 0, 2000) is None


@pytest.mark.parametrize("twin", TWINS)
def test_nothing_is_stored_while_a_thread_holds_the_lock(twin: str) -> None:
    """A holder of the writer's lock has the end of the log for itself; after that puts go on."""
    log, message = Log(twin, V4), Message(TOPICS[0], b"x")
    put = Put(0, 0, 0, None, 2000, b"x")
    assert log.end.is_guarded
    for _ in range(2):
        with log.lock:
            before = log.state
            assert log.put(put) is None
            assert log.put_message(message, 0, 2000) is None
            assert log.put_list([message], 0, 2000)[0] < NO_ROOM
            assert log.state == before
        assert log.put(put) is not None
        assert log.put_message(message, 0, 2000) is not None
        assert log.put_list([message], 0, 2000)[0] > 0


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("properties", ["a\x01b\x02", b"a\x01" + b"b" * MAX_PROPERTIES_SIZE + b"\x02"])
def test_properties_that_no_record_holds_are_left_to_others(properties: Any, twin: str) -> None:
    """Further properties that are a text, or too long, leave the log as it is."""
    log = Log(twin, V4)
    before = log.state
    assert log.put(Put(0, 0, 0, None, 2000, b"x", properties=properties)) is None
    assert log.state == before
    assert log.put(Put(0, 0, 0, None, 2000, b"x", properties=b"a\x01b\x02")) is not None


def test_a_message_without_a_value_is_left_to_others() -> None:
    """A slot whose value was deleted is no reason to read what is not there."""
    log, message = Log("compiled", V4), Message(TOPICS[0], b"x")
    for name in MESSAGE_FIELDS:
        message = Message(TOPICS[0], b"x")
        delattr(message, name)
        assert log.put_message(message, 0, 2000) is None
        assert log.put_list([message], 0, 2000)[0] == NOT_PLACED


@pytest.mark.parametrize(
    ("born_number", "born_host", "own_host"), [(OWN_HOST, V6, V6), (BORN_NUMBER, BORN, V6), (BORN_NUMBER, BORN, V4)]
)
@pytest.mark.parametrize("twin", TWINS)
def test_a_placed_record_is_the_one_that_the_format_says(
    twin: str, born_number: int, born_host: Host, own_host: Host
) -> None:
    """The record is that of `encode_record`, and all positions and numbers follow it."""
    log = Log(twin, own_host)
    placed = log.put(
        Put(1, 2, -7, None, 900, b"body", "sch\u00f6n", "k", "u", properties=b"a\x01b\x02", born_host=born_number)
    )
    assert placed is not None
    status, offset, size, number, now_ms, reason = placed
    assert (status, reason) == (PutStatus.PUT_OK, "")
    assert (offset, number, now_ms) == (FILE_START + 100, (1 << 40) + 1, 1001)
    data = log.memory[100 : 100 + size]
    record = decode_record(data)
    assert encode_record(record) == data
    expected = Record(
        TOPICS[1].encode(), b"body", PROPERTIES, queue_id=2, flag=-7, queue_offset=number, physical_offset=offset,
        sys_flag=log.records.host_bits, born_timestamp=1001, born_host=born_host, store_timestamp=1001,
        store_host=own_host,
        magic=log.topics[1].magic,
    )  # fmt: skip
    assert encode_record(expected) == data
    assert log.end.offset == log.wrote.view[0] == log.confirmed.view[0] == offset + size
    assert log.topics[1].numbers[2] == number + 1


@pytest.mark.parametrize("twin", TWINS)
def test_numbers_that_move_are_found_at_their_new_place(twin: str) -> None:
    """Queues that are added move the numbers of a topic; while they move it has no queue."""
    log = Log(twin, V4)
    topic: TopicState = log.topics[0]
    for queue_id in range(3, 1000):
        topic.go_on_at(queue_id, queue_id * 10)
    placed = log.put(Put(0, 999, 0, 0, 2000, b"x"))
    assert placed is not None
    assert placed.queue_offset == 9990
    assert topic.numbers[999] == 9991
    log.end.shut()
    assert log.put(Put(0, 999, 0, 0, 2000, b"x")) is None


def references() -> int:
    """Return the number of references to what all answers share; an assert would keep one of its own."""
    gc.collect()
    return sys.getrefcount(PutStatus.PUT_OK)


@pytest.mark.parametrize("twin", TWINS)
def test_answers_are_independent_objects(twin: str) -> None:
    """An answer keeps nothing alive, and the ends of other answers leave it as it is; the collector knows it."""
    log = Log(twin, V4)
    first, second = log.put(Put(0, 0, 0, 0, 2000, b"x")), log.put(Put(0, 0, 0, 0, 2000, b"y", Name("tag")))
    assert second is None
    counts = [references()]
    others = [log.put(Put(0, 0, 0, 0, 2000, b"x")) for _ in range(10)]
    counts.append(references())
    assert [other.queue_offset for other in others if other is not None] == list(range(6, 16))
    del others
    counts.append(references())
    assert counts == [counts[0], counts[0] + 10, counts[0]]
    assert gc.is_tracked(first)
    assert first == PutResult(PutStatus.PUT_OK, FILE_START + 100, 98, 5, 2000)


@pytest.mark.parametrize("twin", TWINS)
def test_arguments_are_given_back(twin: str) -> None:
    """A call keeps none of its arguments, placed or not."""
    log = Log(twin, V4)
    for tags in ("tag-of-a-test", "bad\x01tag"):
        body, keys = bytes(300), "k" * 300
        counts = [sys.getrefcount(one) for one in (body, tags, keys)]
        log.put(Put(0, 0, 0, 0, 2000, body, tags, keys))
        assert [sys.getrefcount(one) for one in (body, tags, keys)] == counts


@pytest.mark.parametrize(
    ("host", "number"),
    [
        (Host(bytes(4), 0), 0),
        (Host(b"\x7f\0\0\1", 10911), 0x7F00_0001_0000_2A9F),
        (Host(b"\xff\xff\xff\xff", -1), -1),
        (V6, None),
        (Host(b"\x80\0\0\0", 0), None),
        (Host(bytes(4), 1 << 31), None),
        (Host(bytes(3), 1), None),
        (Host(bytearray(4), 1), None),
        ("127.0.0.1:1", None),
    ],
)
def test_a_kernel_takes_a_host_of_ipv4_as_a_number(host: Any, number: int | None) -> None:
    """The number is the eight bytes of a record; another host has none, nor the one whose number means the own host."""
    assert number_of_host(host) == number
    if number is not None:
        assert number.to_bytes(8, "big", signed=True) == host.encode()
