"""The encode kernels: a batch becomes the bytes of `encode_record`, or its first bad message is named."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput import kernels
from reput.formats.log.properties import encode_properties
from reput.formats.log.record import (
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    Host,
    Record,
    decode_record,
    encode_record,
)
from reput.kernels.layouts.batch import (
    BATCH_LAYOUT,
    LAID_OUT,
    NEW_QUEUE,
    REFUSED,
    TEXTS_LAYOUT,
    BatchAt,
    BatchRefusal,
    TextsAt,
)
from reput.kernels.layouts.vectors import address_of
from reput.log.encode import column_batch, laid_out, queue_directory
from reput.log.encode.column_batch import ColumnBatch
from reput.log.encode.encode import RecordEncoder
from reput.log.encode.message import MessageRefusedError
from reput.log.encode.queue_directory import QueueDirectory
from reput.log.encode.topics import TopicTable
from support.encoders import magic_for_topic
from support.twins import TWINS

V4, V6 = Host(b"\x7f\0\0\1", 10911), Host(bytes(range(16)), -1)
NOW_MS, PHYSICAL = 1_700_000_000_123, 1 << 35
FIRST = (5, 0, 1 << 20, 0)


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The twin whose kernels the batches of columns take."""
    for module in (laid_out, queue_directory):
        monkeypatch.setattr(module, "encode_kernels", lambda: kernels.encode_kernels(request.param))
    return str(request.param)


class Given(NamedTuple):
    """One message of a batch; `queue` is one of `QUEUES`."""

    body: bytes = b"body"
    queue: int = 0
    tags: bytes = b""
    keys: tuple[bytes, ...] = ()
    unique_key: bytes = b""
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    flag: int = 0
    born: int | None = 0


QUEUES = ((b"orders", 0), (b"orders", 7), ("订单".encode() * 42, 0x7FFFFFFF), (b"t" * 255, 1))


def table_of(batch: list[Given]) -> pa.RecordBatch:
    """The columns of a batch, as `reput.log.encode.columns` leaves them."""
    topics = pa.array([QUEUES[message.queue][0].decode() for message in batch], pa.large_string())
    columns = {
        "topic": topics,
        "queue_id": pa.array([QUEUES[message.queue][1] for message in batch], pa.int64()),
        "body": pa.array([message.body for message in batch], pa.large_binary()),
        "tags": pa.array([message.tags for message in batch], pa.large_binary()),
        "keys": pa.array([b" ".join(message.keys) if message.keys else None for message in batch], pa.large_binary()),
        "unique_key": pa.array([message.unique_key for message in batch], pa.large_binary()),
        "properties": pa.array([encode_properties(dict(message.pairs)) for message in batch], pa.large_binary()),
        "flag": pa.array([message.flag for message in batch], pa.int32()),
        "born_timestamp": pa.array([message.born for message in batch], pa.int64()),
    }
    return pa.record_batch(columns)


KINDS = dict.fromkeys(("topic", "body", "tags", "keys", "unique_key", "properties"), column_batch._BINARIES) | {
    "queue_id": {pa.int64(): 8},
    "flag": {pa.int32(): 4},
    "born_timestamp": {pa.int64(): 8},
}


class Batched:
    """A batch of columns, before it is laid out."""

    def __init__(
        self, table: pa.RecordBatch, born: Host = V4, store: Host = V4, max_body: int = 4000, append_crc: bool = False,
        are_joined: bool = True,
    ) -> None:  # fmt: skip
        numbers = {queue: first for queue, first in zip(QUEUES, FIRST, strict=True) if first}
        directory = QueueDirectory(TopicTable(numbers, PHYSICAL), RecordEncoder(store, append_crc), max_body)
        tail = store.encode() + (3).to_bytes(4, "big") + (99).to_bytes(8, "big")
        self.held = [np.frombuffer(part, np.uint8) for part in (born.encode(), tail)]
        places = ((BatchAt.born_host_at, BatchAt.born_host_size), (BatchAt.tail_at, BatchAt.tail_size))
        for (at, size), part in zip(places, self.held, strict=True):
            directory.template[at], directory.template[size] = address_of(part), len(part)
        bits = (FLAG_BORN_HOST_V6 if born is V6 else 0) | (FLAG_STORE_HOST_V6 if store is V6 else 0)
        directory.template[BatchAt.sys_flag] = 1 | bits
        plan = column_batch._plan_of(table.schema, KINDS)
        assert plan is not None
        words = column_batch._words_of(table, plan)
        assert words is not None
        words[BatchAt.keys_are_joined] = are_joined
        self.directory = directory
        self.batch = ColumnBatch(directory, table, words)

    def lay_out(self) -> tuple[int, BatchRefusal]:
        """The first message that cannot be stored (-1: none), and why: NONE for its topic."""
        run, scratch = laid_out.encode_kernels().lay_out, self.batch._scratch
        while (answer := run(scratch.at)) == NEW_QUEUE:
            row = int(scratch.vector[BatchAt.done])
            try:
                assert self.batch._add_queue(row)
            except MessageRefusedError:
                return row, BatchRefusal.NONE
        if answer == LAID_OUT:
            self.batch.size = int(scratch.vector[BatchAt.size])
            return -1, BatchRefusal.NONE
        assert answer == REFUSED
        return int(scratch.vector[BatchAt.done]), BatchRefusal(int(scratch.vector[BatchAt.refusal]))

    def records(self) -> tuple[bytes, list[int]]:
        """The records that are written, and the messages' queue offsets."""
        assert self.lay_out() == (-1, BatchRefusal.NONE)
        pieces: dict[int, bytes] = {}

        def write(position: int, data: bytes | memoryview) -> None:
            pieces[position] = bytes(data)

        result = self.batch.encode(write, 7, PHYSICAL, NOW_MS)
        assert list(pieces) == [7 + sum(len(data) for data in list(pieces.values())[:n]) for n in range(len(pieces))]
        return b"".join(pieces.values()), result.queue_offsets.tolist()


def expected(batch: list[Given], born: Host, store: Host, append_crc: bool) -> bytes:
    """The batch's records by `encode_record`."""
    data, following = b"", list(FIRST)
    for message in batch:
        topic, queue_id = QUEUES[message.queue]
        properties = dict(message.pairs)
        own = ((b"TAGS", message.tags), (b"KEYS", b" ".join(message.keys)), (b"UNIQ_KEY", message.unique_key))
        properties |= {name: value for name, value in own if value}
        record = Record(
            topic,
            message.body,
            encode_properties(properties),
            queue_id=queue_id,
            flag=message.flag,
            queue_offset=following[message.queue],
            physical_offset=PHYSICAL + len(data),
            sys_flag=1,
            born_timestamp=NOW_MS if message.born is None else message.born,
            born_host=born,
            store_timestamp=NOW_MS,
            store_host=store,
            reconsume_times=3,
            prepared_transaction_offset=99,
            magic=magic_for_topic(b"t" * (200 if len(topic) > 127 else 1)),
        )
        following[message.queue] += 1
        data += encode_record(record, append_crc)
    return data


good = st.binary(min_size=1, max_size=40).map(lambda text: bytes(byte for byte in text if byte > 0x20) or b"x")
givens = st.builds(
    Given,
    body=st.binary(max_size=300),
    queue=st.integers(0, len(QUEUES) - 1),
    tags=st.just(b"") | good,
    keys=st.lists(good, max_size=3).map(tuple),
    unique_key=st.just(b"") | good,
    pairs=st.dictionaries(good.map(lambda name: b"n" + name), good, max_size=3).map(lambda map_: tuple(map_.items())),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    born=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(givens, min_size=1, max_size=12), st.sampled_from((V4, V6)), st.sampled_from((V4, V6)), st.booleans())
def test_bytes_are_the_encoders(twin: str, batch: list[Given], born: Host, store: Host, append_crc: bool) -> None:
    """Any batch gives the bytes of `encode_record`, numbered queue by queue."""
    written, numbers = Batched(table_of(batch), born, store, append_crc=append_crc).records()

    assert written == expected(batch, born, store, append_crc)
    rows = [message.queue for message in batch]
    assert numbers == [FIRST[row] + rows[:n].count(row) for n, row in enumerate(rows)]


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("size", [0, 1, 7, 64, 100, 5000])
def test_the_crc_of_a_body_is_that_of_a_record(kind: str, size: int) -> None:
    """The CRC that a kernel gives for a body is the one that `encode_record` writes, without its highest bit."""
    body = bytes(n * 7 & 0xFF for n in range(size))
    assert kernels.encode_kernels(kind).body_crc(body) == zlib.crc32(body) & 0x7FFFFFFF


@pytest.mark.usefixtures("twin")
def test_a_batch_without_queue_ids_goes_to_queue_0() -> None:
    """Without a column of queue ids every message is put into the topic's first queue."""
    table = table_of([Given(), Given(queue=2)])
    ids = table.schema.names.index("queue_id")
    written, _ = Batched(table.remove_column(ids)).records()
    first = decode_record(written)
    assert [first.queue_id, decode_record(written[first.size :]).queue_id] == [0, 0]


@pytest.mark.usefixtures("twin")
def test_queues_whose_hashes_meet_are_told_apart() -> None:
    """In a directory of very many queues, where places collide, each message gets the number of its own queue."""
    count = 3000
    columns = {"topic": ["t"] * 2 * count, "queue_id": [*range(count)] * 2, "body": [b"b"] * 2 * count}
    types = {"topic": pa.large_string(), "queue_id": pa.int64(), "body": pa.large_binary()}
    table = pa.record_batch({name: pa.array(values, types[name]) for name, values in columns.items()})
    _, numbers = Batched(table).records()
    assert numbers == [0] * count + [1] * count


@pytest.mark.usefixtures("twin")
def test_a_batch_that_changes_meanwhile_is_refused() -> None:
    """Bodies that another thread makes longer after they were measured are not written."""
    table = table_of([Given(body=b"one"), Given(body=b"two")])
    place = table.schema.names.index("body")
    valid, offsets, data = table.column(place).buffers()
    bent = np.frombuffer(offsets, np.int64)[:3].copy()
    batch = Batched(
        table.set_column(place, "body", pa.Array.from_buffers(pa.large_binary(), 2, [valid, pa.py_buffer(bent), data]))
    )
    assert batch.lay_out() == (-1, BatchRefusal.NONE)
    bent[1] = 2
    with pytest.raises(MessageRefusedError):
        batch.batch.encode(lambda *_: None, 7, PHYSICAL, NOW_MS)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("column", ["tags", "keys", "unique_key"])
def test_what_lies_under_a_null_may_be_anything(column: str) -> None:
    """Bytes under a null are no text's: the batch is stored."""
    batch = [Given(), Given(**{column: (b"a",) if column == "keys" else b"a"})] * 3
    ends = np.cumsum([0, *(6, 1) * 3]).astype(np.int64)
    buffers = [pa.py_buffer(part) for part in (bytes([0b101010]), ends, b"\x01gap\x02 a" * 3)]
    table = table_of(batch)
    spread = pa.Array.from_buffers(pa.large_binary(), len(batch), buffers)
    table = table.set_column(table.schema.names.index(column), column, spread)

    assert Batched(table, are_joined=False).records()[0] == expected(batch, V4, V4, False)


BAD = (
    (Given(body=bytes(4001)), BatchRefusal.BODY_TOO_LONG),
    (Given(tags=b"a\x01"), BatchRefusal.BAD_TAGS),
    (Given(tags=b"eight by\x02"), BatchRefusal.BAD_TAGS),
    (Given(keys=(b"",)), BatchRefusal.BAD_KEY),
    (Given(keys=(b"k 1",)), BatchRefusal.BAD_KEY),
    (Given(keys=(b"12345678 ",)), BatchRefusal.BAD_KEY),
    (Given(keys=(b"\x011234567",)), BatchRefusal.BAD_KEY),
    (Given(unique_key=b"1234567\x02"), BatchRefusal.BAD_UNIQUE_KEY),
    (Given(tags=b"t" * 32768), BatchRefusal.PROPERTIES_TOO_LONG),
)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(("bad", "why"), BAD)
def test_the_first_bad_message_is_named(bad: Given, why: BatchRefusal) -> None:
    """A message that no reader could give back is refused by its row, whatever comes after it."""
    batch = Batched(table_of([Given(), bad, Given(tags=b"\x01")]), are_joined=False)
    assert batch.lay_out() == (1, why)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("queue_id", [-1, 1 << 31, -(1 << 63)])
def test_a_bad_queue_id_is_named(queue_id: int) -> None:
    """A queue id that no record can hold is refused by its row."""
    table = table_of([Given()] * 2)
    ids = pa.array([0, queue_id], pa.int64())
    bent = table.set_column(table.schema.names.index("queue_id"), "queue_id", ids)
    assert Batched(bent).lay_out() == (1, BatchRefusal.BAD_QUEUE_ID)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(("append_crc", "limit"), [(False, 32767), (True, 32747)])
def test_properties_limit(append_crc: bool, limit: int) -> None:
    """32767 bytes of properties fit, the CRC's 20 included."""
    for size, answer in ((limit - 6, (-1, BatchRefusal.NONE)), (limit - 5, (0, BatchRefusal.PROPERTIES_TOO_LONG))):
        assert Batched(table_of([Given(tags=b"t" * size)]), append_crc=append_crc).lay_out() == answer


HOSTILE = ("topic", "body", "tags", "keys", "unique_key", "properties")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(HOSTILE), st.integers(0, 3), st.integers(-3, 12) | st.sampled_from((-(1 << 63), (1 << 63) - 1)))
def test_hostile_offsets_are_refused(column: str, row: int, offset: int) -> None:
    """Wild offsets are rejected before a byte is looked at, alike by both twins."""
    batch = [Given(tags=b"t", keys=(b"a",), unique_key=b"u", pairs=((b"n", b"v"),))] * 3
    table = table_of(batch)
    place = table.schema.names.index(column)
    valid, offsets, data = table.column(place).buffers()
    bent = np.frombuffer(offsets, np.int64)[:4].copy()
    hostile = pa.Array.from_buffers(table.column(place).type, 3, [valid, pa.py_buffer(bent), data])
    # Only now: Arrow itself has looked at them.
    bent[row] = offset
    seen = []
    for kind in TWINS:
        with pytest.MonkeyPatch.context() as patch:
            for module in (laid_out, queue_directory):
                patch.setattr(module, "encode_kernels", lambda kind=kind: kernels.encode_kernels(kind))
            seen.append(Batched(table.set_column(place, column, hostile), are_joined=False).lay_out())
    assert seen[0] == seen[1]


def test_fields_of_a_batch() -> None:
    """Each field of the record takes a word; a column of texts takes as many as its own layout."""
    assert BATCH_LAYOUT.size == 8 * BATCH_LAYOUT.word_count
    assert BatchAt.body - BatchAt.topic == TEXTS_LAYOUT.word_count == len(TextsAt)
    assert BatchAt.stamp_at == BATCH_LAYOUT.word_count - 1
