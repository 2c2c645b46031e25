"""The encode kernels: a batch becomes the bytes of `encode_record`, or its first bad message is named."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.properties import encode_properties
from reput.formats.record import FLAG_BORN_HOST_V6, FLAG_STORE_HOST_V6, Host, Record, encode_record, magic_for_topic
from reput.kernels import encode_kernels
from reput.kernels.message_columns import Frame, Groups, MessageColumns, QueueTable, Refusal, Texts, frozen
from support.twins import TWINS

pytestmark = pytest.mark.parametrize("twin", TWINS)

V4, V6 = Host(b"\x7f\0\0\1", 10911), Host(bytes(range(16)), -1)
CANARY = 0xEE


class Given(NamedTuple):
    """One message of a batch; `queue` is one of `QUEUES`."""

    body: bytes = b"body"
    queue: int = 0
    tags: bytes = b""
    keys: tuple[bytes, ...] = ()
    unique_key: bytes = b""
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    flag: int = 0
    born: int = 0


QUEUES = ((b"orders", 0), (b"orders", 7), ("订单".encode() * 42, 0x7FFFFFFF), (b"t" * 255, 1))


def texts(values: list[bytes], gap: bytes = b"") -> Texts:
    """Texts laid end to end, with other bytes between them if asked."""
    data, begin, end = b"", [], []
    for value in values:
        begin.append(len(data))
        data += value
        end.append(len(data))
        data += gap
    return Texts(np.array(begin, np.int64), np.array(end, np.int64), np.frombuffer(data, np.uint8))


def groups(sizes: list[int]) -> Groups:
    """Rows of a table, message after message."""
    last = np.cumsum(np.array(sizes, np.int64))
    return Groups(last - np.array(sizes, np.int64), last)


def columns_of(batch: list[Given], sys_flag: int = 0, gap: bytes = b"") -> MessageColumns:
    """The columns of a batch, frozen as the writer passes them."""
    pairs = [pair for message in batch for pair in message.pairs]
    return frozen(
        MessageColumns(
            queue=np.array([message.queue for message in batch], np.int32),
            flag=np.array([message.flag for message in batch], np.int32),
            sys_flag=np.full(len(batch), sys_flag, np.int32),
            body=texts([message.body for message in batch], gap),
            tags=texts([message.tags for message in batch], gap),
            unique_key=texts([message.unique_key for message in batch], gap),
            key_rows=groups([len(message.keys) for message in batch]),
            keys=texts([key for message in batch for key in message.keys], gap),
            pair_rows=groups([len(message.pairs) for message in batch]),
            names=texts([name for name, _ in pairs], gap),
            values=texts([value for _, value in pairs], gap),
        )
    )


def queue_table() -> QueueTable:
    """The table of QUEUES."""
    parts = [len(topic).to_bytes(1 if len(topic) < 128 else 2, "big") + topic for topic, _ in QUEUES]
    magics = [magic_for_topic(topic) if len(topic) < 128 else magic_for_topic(b"t" * 200) for topic, _ in QUEUES]
    ids = [queue_id for _, queue_id in QUEUES]
    return frozen(QueueTable(np.array(ids, np.int32), np.array(magics, np.int32), texts(parts)))


def frame_of(born: Host, store: Host, tries: int = 0) -> Frame:
    """The frame of these hosts."""
    tail = store.encode() + tries.to_bytes(4, "big") + (99).to_bytes(8, "big")
    return Frame(np.frombuffer(born.encode(), np.uint8), np.frombuffer(tail, np.uint8))


def measure(twin: str, batch: list[Given] | MessageColumns, max_body: int = 4000, append_crc: bool = False) -> Any:
    """What measuring says, and the sizes."""
    columns = batch if isinstance(batch, MessageColumns) else columns_of(batch)
    sizes = np.full(len(columns.queue), -1, np.int32)
    kernels = encode_kernels(twin)
    row, why = kernels.measure_records(columns, queue_table(), frame_of(V4, V4), max_body, append_crc, sizes)
    return (int(row), Refusal(int(why))), sizes


def expected(batch: list[Given], born: Host, store: Host, physical: int, first: list[int], append_crc: bool) -> bytes:
    """The batch's records by `encode_record`."""
    data, following = b"", list(first)
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
            physical_offset=physical + len(data),
            sys_flag=1,
            born_timestamp=message.born,
            born_host=born,
            store_timestamp=1_700_000_000_123,
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
    born=st.integers(-(1 << 63), (1 << 63) - 1),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(givens, max_size=12),
    st.sampled_from((V4, V6)),
    st.sampled_from((V4, V6)),
    st.booleans(),
    st.sampled_from((b"", b"\x01gap\x02 ")),
)
def test_bytes_are_the_encoders(
    twin: str, batch: list[Given], born: Host, store: Host, append_crc: bool, gap: bytes
) -> None:
    """Any batch gives the bytes of `encode_record`, numbered queue by queue, and not one byte beside its place."""
    bits = (FLAG_BORN_HOST_V6 if born is V6 else 0) | (FLAG_STORE_HOST_V6 if store is V6 else 0)
    columns, queues, frame = columns_of(batch, 1 | bits, gap), queue_table(), frame_of(born, store, 3)
    sizes = np.empty(len(batch), np.int32)
    run = encode_kernels(twin)
    assert run.measure_records(columns, queues, frame, 4000, append_crc, sizes)[0] == -1
    first = [5, 0, 1 << 40, 0]
    following, numbers = np.array(first, np.int64), np.empty(len(batch), np.int64)
    buffer = np.full(int(sizes.sum()) + 14, CANARY, np.uint8)
    times = np.array([message.born for message in batch], np.int64)
    end = run.encode_records(
        columns, queues, frame, sizes, append_crc, times, 1_700_000_000_123, 1 << 35, following, numbers, buffer, 7
    )
    data = expected(batch, born, store, 1 << 35, first, append_crc)

    assert buffer.tobytes() == bytes([CANARY] * 7) + data + bytes([CANARY] * 7)
    assert end == 7 + len(data)
    rows = [message.queue for message in batch]
    assert numbers.tolist() == [first[row] + rows[:n].count(row) for n, row in enumerate(rows)]
    assert following.tolist() == [first[row] + rows.count(row) for row in range(len(QUEUES))]


BAD = (
    (Given(body=bytes(4001)), Refusal.BODY_TOO_LONG),
    (Given(tags=b"a\x01"), Refusal.BAD_TAGS),
    (Given(tags=b"eight by\x02"), Refusal.BAD_TAGS),
    (Given(keys=(b"k", b"")), Refusal.BAD_KEY),
    (Given(keys=(b"k 1",)), Refusal.BAD_KEY),
    (Given(keys=(b"12345678 ",)), Refusal.BAD_KEY),
    (Given(keys=(b"\x011234567",)), Refusal.BAD_KEY),
    (Given(unique_key=b"1234567\x02"), Refusal.BAD_UNIQUE_KEY),
    (Given(pairs=((b"", b"v"),)), Refusal.BAD_PROPERTY),
    (Given(pairs=((b"n", b""),)), Refusal.BAD_PROPERTY),
    (Given(pairs=((b"n\x01", b"v"),)), Refusal.BAD_PROPERTY),
    (Given(pairs=((b"n", b"v\x02"),)), Refusal.BAD_PROPERTY),
    (Given(tags=b"t" * 32768), Refusal.PROPERTIES_TOO_LONG),
)


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_the_first_bad_message_is_named(twin: str, bad: Given, why: Refusal) -> None:
    """A message that no reader could give back is refused by its row, whatever stands behind it."""
    assert measure(twin, [Given(), bad, Given(tags=b"\x01")])[0] == (1, why)


@pytest.mark.parametrize(("append_crc", "limit"), [(False, 32767), (True, 32747)])
def test_properties_limit(twin: str, append_crc: bool, limit: int) -> None:
    """32767 bytes of properties fit, the CRC's 20 included."""
    assert measure(twin, [Given(tags=b"t" * (limit - 6))], append_crc=append_crc)[0] == (-1, Refusal.NONE)
    assert measure(twin, [Given(tags=b"t" * (limit - 5))], append_crc=append_crc)[0] == (0, Refusal.PROPERTIES_TOO_LONG)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hostile_offsets_are_refused(twin: str, data: st.DataObject) -> None:
    """Offsets that point anywhere are told from good ones before a byte is looked at, alike by both twins."""
    batch = [Given(tags=b"t", keys=(b"a", b"b"), unique_key=b"u", pairs=((b"n", b"v"),))] * 3
    columns = columns_of(batch)
    field = data.draw(
        st.sampled_from(("body", "tags", "unique_key", "keys", "names", "values", "key_rows", "pair_rows"))
    )
    old = getattr(columns, field)
    which = data.draw(st.integers(0, 1))
    spoiled = [array.copy() for array in old]
    row = data.draw(st.integers(0, len(spoiled[which]) - 1))
    spoiled[which][row] = data.draw(st.integers(-3, 12) | st.sampled_from((-(1 << 63), (1 << 63) - 1)))
    hostile = frozen(columns._replace(**{field: type(old)(*spoiled)}))

    assert measure(twin, hostile)[0] == measure("reference", hostile)[0]
