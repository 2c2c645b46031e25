"""ConsumeQueue entries."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue import consume_queue as fmt
from reput.formats.queue.consume_queue import Entry, decode_entry, encode_entry
from support import golden

STORES = ("basic", "crash", "double", "ext", "batch", "expired-rebuilt")

entries = st.builds(
    Entry,
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


def test_layout() -> None:
    """An entry is 20 bytes: physical offset, size, tags code."""
    assert fmt.ENTRY.offsets == {"physical_offset": 0, "size": 8, "tags_code": 12}
    assert encode_entry(Entry(1, 2, -3)) == struct.pack(">qiq", 1, 2, -3)
    assert fmt.ENTRY_SIZE == 20
    assert fmt.DEFAULT_FILE_SIZE == 6_000_000


@given(entries, st.binary(max_size=50))
def test_round_trip(entry: Entry, before: bytes) -> None:
    """An entry decodes to what was encoded, at any place."""
    assert decode_entry(before + encode_entry(entry), len(before)) == entry


def test_validity() -> None:
    """All zero is the end, a pre-blank counts as an entry, negative values do not."""
    assert not decode_entry(bytes(20)).is_valid
    assert decode_entry(fmt.PRE_BLANK).is_valid
    assert decode_entry(fmt.PRE_BLANK).is_pre_blank
    assert Entry(0, 100, 5).is_valid
    assert not Entry(0, 100, 5).is_pre_blank
    assert not Entry(-1, 100, 5).is_valid
    assert not Entry(0, -1, 5).is_valid


def test_a_short_entry_is_an_error() -> None:
    """Fewer than 20 bytes raise struct.error."""
    with pytest.raises(struct.error):
        decode_entry(bytes(19))


@pytest.mark.parametrize(("configured", "used"), [(6000, 6000), (6001, 6020), (1, 20), (20, 20), (5999, 6000)])
def test_file_size_is_rounded_up_to_entries(configured: int, used: int) -> None:
    """The peer rounds the configured size of a file up to whole entries."""
    assert fmt.file_size_in_use(configured) == used


@pytest.mark.golden
@pytest.mark.parametrize("store", STORES)
def test_golden_entries_encode_to_the_same_bytes(store: str) -> None:
    """Every entry that RocketMQ wrote decodes and encodes to the same bytes; zeros end a queue."""
    count = 0
    for topic, queue_id, start, data in golden.queue_files(golden.shared(store)):
        assert len(data) == fmt.file_size_in_use(golden.QUEUE_FILE_SIZE)
        read = [decode_entry(data, at) for at in range(0, len(data), fmt.ENTRY_SIZE)]
        assert b"".join(map(encode_entry, read)) == data
        valid = [entry.is_valid for entry in read]
        assert sorted(valid, reverse=True) == valid, f"{topic}/{queue_id}/{start}: an entry after the end"
        count += sum(valid)

    assert count > 1000
