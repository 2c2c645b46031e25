"""Keys and values of the databases that hold pending work, and config/delayOffset.json."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import DamagedStoreError
from reput.formats.config.data_version import DataVersion
from reput.formats.config.delay_offset import DelayOffsets, decode_delay_offsets, encode_delay_offsets
from reput.formats.pending import timer_database, transaction_database
from reput.formats.pending.timer_database import (
    TimerEntry,
    decode_checkpoint_value,
    decode_timer_entry,
    is_timer_checkpoint,
    timer_key,
)
from reput.formats.pending.transaction_database import HalfEntry, decode_half_entry, decode_last_offset
from support import golden
from support.databases import content_of
from support.encoders import encode_half_entry, encode_timer_mark, encode_timer_value

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
names = st.binary(min_size=1, max_size=40).filter(lambda name: b"@" not in name)


@given(int64s, st.binary(max_size=40), int32s, int64s)
def test_timer_round_trip(time: int, key: bytes, size: int, offset: int) -> None:
    """A timer message decodes to what was encoded."""
    found = decode_timer_entry(timer_key(time, key), encode_timer_value(size, offset))

    assert found == TimerEntry(time, key, size, offset)


@given(st.builds(HalfEntry, int64s, names, st.binary(min_size=1, max_size=40), int32s, int32s))
def test_half_round_trip(entry: HalfEntry) -> None:
    """A half message decodes to what was encoded; only its unique key may have the separator."""
    assert decode_half_entry(*encode_half_entry(entry)) == entry


@given(st.binary(max_size=60), st.binary(max_size=16))
def test_garbage_is_no_entry(key: bytes, value: bytes) -> None:
    """Other bytes are no entry, or one with a value of the right length; no number is invented."""
    assert decode_timer_entry(key, value) is None or (len(key) >= 8 and len(value) == 12)
    assert decode_half_entry(key, value) is None or len(value) == 8
    assert decode_checkpoint_value(value) is None or len(value) == 8
    assert decode_last_offset(value) == -1 or len(value) == 8


@given(st.integers(0, (1 << 47) - 1), st.binary(max_size=40))
def test_checkpoints_sort_after_all_timers(time: int, key: bytes) -> None:
    """A scan by time meets the checkpoints last, for all times of the next four thousand years."""
    for checkpoint in (timer_database.QUEUE_OFFSET_KEY, timer_database.TIMELINE_KEY):
        assert is_timer_checkpoint(checkpoint)
        assert timer_key(time, key) < checkpoint


@pytest.mark.golden
def test_every_key_that_rocketmq_wrote_is_known() -> None:
    """Each key of the family is a timer message or a checkpoint, and encodes to the same bytes again."""
    store = golden.shared("pending-rocksdb")
    families = content_of(store / "rocksdbstore", (timer_database.FAMILY, transaction_database.FAMILY))
    timers = 0
    for key, value in families[timer_database.FAMILY].items():
        if is_timer_checkpoint(key):
            assert encode_timer_mark(decode_checkpoint_value(value) or 0) == value
            continue
        entry = decode_timer_entry(key, value)
        assert entry is not None
        assert (timer_key(entry.deliver_timestamp, entry.unique_key), encode_timer_value(*entry[2:])) == (key, value)
        timers += 1
    assert timers > 0


def test_delay_offsets_are_read_as_the_broker_writes_them() -> None:
    """The levels are keys without quotes; a file that a human wrote has quotes."""
    text = b'{\n\t"dataVersion":{"counter":1,"timestamp":1},\n\t"offsetTable":{1:5,18:7\n\t}\n}'

    assert decode_delay_offsets(text, "here") == DelayOffsets({1: 5, 18: 7}, DataVersion(1, 0, 1))
    assert decode_delay_offsets(b'{"offsetTable":{"3":4}}', "here") == DelayOffsets({3: 4})
    assert decode_delay_offsets(b'{"offsetTable":{}}', "here") == DelayOffsets({})


@given(st.dictionaries(st.integers(1, 99), st.integers(0, 2**63 - 1)), st.integers(0, 2**63 - 1))
def test_delay_offsets_are_read_as_they_were_written(table: dict[int, int], number: int) -> None:
    """The file's text gives the same table and version back."""
    offsets = DelayOffsets(table, DataVersion(number, 0, number))

    assert decode_delay_offsets(encode_delay_offsets(offsets), "here") == offsets


@pytest.mark.golden
def test_delay_offsets_are_written_as_the_broker_writes_them() -> None:
    """The offsets of the broker's file are written as the same bytes."""
    data = (golden.shared("pending") / "config" / "delayOffset.json").read_bytes()

    assert encode_delay_offsets(decode_delay_offsets(data, "here")) == data


@given(st.binary(max_size=60))
def test_garbage_is_no_table_of_delays(data: bytes) -> None:
    """Other bytes are an error that names the file."""
    try:
        table = decode_delay_offsets(data, "the file")
    except DamagedStoreError as error:
        assert "the file" in str(error)  # noqa: PT017 - only if it is an error
    else:
        assert all(offset >= 0 for offset in table.offset_table.values())
