"""Keys and values of the RocksDB ConsumeQueue."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import LAST_BLANK, PRE_BLANK, Entry, QueueKey, decode_entry
from reput.formats.queue.rocksdb_consume_queue import OffsetValue

topics = st.binary(min_size=1, max_size=60)
queues = st.builds(QueueKey, topics, st.integers(0, (1 << 31) - 1))
longs = st.integers(-(1 << 63), (1 << 63) - 1)
offsets = st.integers(0, (1 << 63) - 1)


def test_layouts() -> None:
    """Keys and values have the bytes that RocketMQ wrote into the golden store."""
    queue = QueueKey(b"audit", 0)
    assert fmt.entry_key(queue, 1) == bytes.fromhex("00000005 01 6175646974 01 00000000 01 0000000000000001")
    assert fmt.offset_key(queue, fmt.MAX) == b"\0\0\0\5\1audit\1max\1\0\0\0\0"
    assert fmt.RESTART_KEY == b"\0\0\0\x10\1CHECKPOINT_TOPIC\1max\1\0\0\0\0"
    assert fmt.encode_value(Entry(1, 2, -3), 4) == struct.pack(">qiqq", 1, 2, -3, 4)
    assert fmt.encode_offset_value(OffsetValue(5, 6)) == struct.pack(">qq", 5, 6)
    assert len(fmt.entry_key(queue, 0)) == fmt.ENTRY_KEY_EXTRA + 5
    assert len(fmt.offset_key(queue, fmt.MIN)) == fmt.OFFSET_KEY_EXTRA + 5


@given(queues, offsets)
def test_entry_key_round_trip(queue: QueueKey, offset: int) -> None:
    """An entry's key decodes to its queue and offset, and is no key of the other family."""
    key = fmt.entry_key(queue, offset)
    assert fmt.decode_entry_key(key) == (queue, offset)
    assert fmt.decode_offset_key(key) is None


@given(queues, st.sampled_from([fmt.MAX, fmt.MIN]))
def test_offset_key_round_trip(queue: QueueKey, kind: bytes) -> None:
    """A key of the offset family decodes to its queue and kind, and is no entry's key."""
    key = fmt.offset_key(queue, kind)
    assert fmt.decode_offset_key(key) == (queue, kind)
    assert fmt.decode_entry_key(key) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read(data: bytes) -> None:
    """Bytes that are no key are reported as such; bytes that are one encode to the same bytes."""
    entry, offset = fmt.decode_entry_key(data), fmt.decode_offset_key(data)
    assert entry is None or fmt.entry_key(*entry) == data
    assert offset is None or fmt.offset_key(*offset) == data


@given(queues, st.integers(0, (1 << 63) - 10), st.integers(0, 9))
def test_keys_of_many_entries(queue: QueueKey, first: int, count: int) -> None:
    """The keys of a stretch of entries are those of each of them."""
    offsets = range(first, first + count)
    assert list(fmt.entry_keys(queue, first, first + count)) == [fmt.entry_key(queue, offset) for offset in offsets]


@given(st.lists(longs, min_size=1, max_size=4), longs)
def test_values(places: list[int], time: int) -> None:
    """The outer places of values are their first and last physical offsets; a blank one decodes to a blank entry."""
    values = b"".join(fmt.encode_value(Entry(place, 1, 2), time) for place in places)
    assert fmt.outer_places(values) == fmt.outer_places(memoryview(values)) == (places[0], places[-1])
    assert fmt.decode_value(fmt.blank_value(time)) == (decode_entry(PRE_BLANK), time)
    assert fmt.decode_value(fmt.blank_value(blank=LAST_BLANK)) == (decode_entry(LAST_BLANK), 0)


@given(queues, queues, offsets, offsets)
def test_order(one: QueueKey, other: QueueKey, first: int, second: int) -> None:
    """A queue's entries lie together, in the order of their offsets, within the queue's bounds."""
    assert (fmt.entry_key(one, first) < fmt.entry_key(one, second)) == (first < second)
    begin, end = fmt.queue_bounds(one)
    assert begin < fmt.entry_key(one, first) < end
    assert one == other or not begin <= fmt.entry_key(other, second) < end


@given(st.builds(Entry, longs, st.integers(-(1 << 31), (1 << 31) - 1), longs), longs)
def test_value_round_trip(entry: Entry, time: int) -> None:
    """A value decodes to what was encoded."""
    assert fmt.decode_value(fmt.encode_value(entry, time)) == (entry, time)
    assert fmt.decode_offset_value(fmt.encode_offset_value(OffsetValue(time, 7))) == (time, 7)


@pytest.mark.parametrize("length", [0, 16, 27, 29])
def test_wrong_lengths(length: int) -> None:
    """A value of another length is refused."""
    with pytest.raises(struct.error):
        fmt.decode_value(bytes(length))
