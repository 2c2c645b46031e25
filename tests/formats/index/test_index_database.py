"""Keys and values of the index by key in RocksDB."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexKey

topics = st.binary(min_size=1, max_size=40).filter(lambda topic: b"@" not in topic)
texts = st.binary(min_size=1, max_size=60)
hours = st.integers(1, (1 << 63) // fmt.HOUR_MS - 1).map(lambda hour: hour * fmt.HOUR_MS)
offsets = st.integers(0, (1 << 63) - 1)
keys = st.builds(IndexKey, hours, topics, st.sampled_from(fmt.KINDS), texts, offsets)


def test_layouts() -> None:
    """Keys and values have the bytes that RocketMQ writes."""
    key = IndexKey(3_600_000, b"orders", fmt.KEY, b"k0@7F00", 0x186A2)
    assert fmt.entry_key(key) == bytes.fromhex("000000000036ee80") + b"@orders@K@k0@7F00@" + bytes.fromhex(
        "0186a2"
    ).rjust(8, b"\0")
    assert fmt.encode_value(5) == struct.pack(">q", 5)
    assert fmt.encode_mark(6) == struct.pack(">q", 6)
    assert len(fmt.entry_key(key)) == fmt.ENTRY_KEY_EXTRA + len(b"orders") + len(b"k0@7F00")


@given(keys)
def test_key_round_trip(key: IndexKey) -> None:
    """An entry's key decodes to what was encoded."""
    data = fmt.entry_key(key)
    assert fmt.decode_entry_key(data) == key
    assert fmt.offset_of(data) == key.physical_offset


@given(st.binary(max_size=80))
def test_any_bytes_are_read(data: bytes) -> None:
    """Bytes that are no key are refused; those that are taken for one encode to the same bytes."""
    key = fmt.decode_entry_key(data)
    assert key is None or fmt.entry_key(key) == data


@given(hours, topics, st.sampled_from(fmt.KINDS), texts, texts, offsets)
def test_entries_of_a_key_are_together(
    hour_ms: int, topic: bytes, kind: bytes, text: bytes, unique: bytes, offset: int
) -> None:
    """All entries of a key in an hour are within its bounds, and those of the next hour are not."""
    begin, end = fmt.prefix_bounds(hour_ms, fmt.prefix(topic, kind, text))
    assert begin < fmt.entry_key(IndexKey(hour_ms, topic, kind, text + b"@" + unique, offset)) < end
    assert not begin <= fmt.entry_key(IndexKey(hour_ms - fmt.HOUR_MS, topic, kind, text, offset)) < end


@given(st.integers(1, 1 << 50))
def test_hours(store_timestamp: int) -> None:
    """The hour of a time is the whole hour at or before it."""
    hour_ms = fmt.hour_of(store_timestamp)
    assert hour_ms % fmt.HOUR_MS == 0
    assert 0 <= store_timestamp - hour_ms < fmt.HOUR_MS


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_value_round_trip(number: int) -> None:
    """Values decode to what was encoded."""
    assert fmt.decode_value(fmt.encode_value(number)) == number
    assert fmt.decode_mark(fmt.encode_mark(number)) == number


@pytest.mark.parametrize("length", [0, 7, 9])
def test_wrong_lengths(length: int) -> None:
    """A value of another length is refused."""
    with pytest.raises(struct.error):
        fmt.decode_value(bytes(length))
    with pytest.raises(struct.error):
        fmt.decode_mark(bytes(length))
