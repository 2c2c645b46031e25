"""Batch ConsumeQueue entries."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue import batch_consume_queue as fmt
from reput.formats.queue.batch_consume_queue import BatchEntry, decode_batch_entry, encode_batch_entry
from support import golden

longs, ints = st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
entries = st.builds(BatchEntry, longs, ints, longs, longs, longs, st.integers(-(1 << 15), (1 << 15) - 1), ints, ints)


def test_layout() -> None:
    """An entry is 46 bytes, each field where RocketMQ's constants say."""
    assert list(fmt.BATCH_ENTRY.offsets.values()) == [0, 8, 12, 20, 28, 36, 38, 42]
    assert encode_batch_entry(BatchEntry(1, 2, -3, 4, 5, 6)) == struct.pack(">qiqqqhii", 1, 2, -3, 4, 5, 6, -1, 0)
    assert fmt.BATCH_ENTRY_SIZE == 46
    assert fmt.DEFAULT_FILE_SIZE == 13_800_000


@given(entries, st.binary(max_size=50))
def test_round_trip(entry: BatchEntry, before: bytes) -> None:
    """An entry decodes to what was encoded, at any place, and numpy reads the same."""
    data = encode_batch_entry(entry)
    assert decode_batch_entry(before + data, len(before)) == entry
    assert np.frombuffer(data, dtype=fmt.BATCH_ENTRY.dtype)[0].tolist() == entry


def test_validity() -> None:
    """All zero is the end; a negative place, size or offset, or no message, is no entry."""
    good = BatchEntry(0, 100, 5, 6, 7, 8)
    assert good.is_valid
    assert good.next_offset == 15
    assert not decode_batch_entry(bytes(46)).is_valid
    for bad in ({"physical_offset": -1}, {"size": 0}, {"base_offset": -1}, {"messages": 0}, {"messages": -1}):
        assert not good._replace(**bad).is_valid


def test_a_short_entry_is_an_error() -> None:
    """Fewer than 46 bytes raise struct.error."""
    with pytest.raises(struct.error):
        decode_batch_entry(bytes(45))


@pytest.mark.golden
def test_golden_entries_encode_to_the_same_bytes() -> None:
    """Every entry that RocketMQ wrote decodes and encodes to the same bytes; zeros end a queue."""
    count = 0
    for topic, queue_id, start, data in golden.batch_queue_files(golden.shared("batch")):
        assert len(data) == golden.BATCH_QUEUE_FILE_SIZE
        read = [decode_batch_entry(data, at) for at in range(0, len(data), fmt.BATCH_ENTRY_SIZE)]
        assert b"".join(map(encode_batch_entry, read)) == data
        valid = [entry.is_valid for entry in read]
        assert sorted(valid, reverse=True) == valid, f"{topic}/{queue_id}/{start}: an entry after the end"
        assert all(entry.compacted_offset == -1 for entry in read if entry.is_valid)
        count += sum(valid)

    assert count > 900
