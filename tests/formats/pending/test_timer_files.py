"""The files of the timer wheel: wheel, log and checkpoint."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.log.record import MAGIC_BLANK
from reput.formats.pending import timer_log, timer_wheel
from reput.formats.pending.timer_checkpoint import (
    TIMER_CHECKPOINT,
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from reput.formats.pending.timer_log import BLANK_UNIT, UNIT, UNIT_SIZE, TimerUnit, decode_unit, encode_timer_unit
from reput.formats.pending.timer_wheel import SLOT, snapshot_position
from reput.formats.pending.transactions import encode_ended_offsets, ended_offsets

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)


def test_layouts() -> None:
    """The offsets are those that RocketMQ's code writes."""
    assert list(SLOT.offsets.values()) == [0, 8, 16, 24, 28]
    assert list(UNIT.offsets.values()) == [0, 4, 12, 16, 24, 28, 36, 40, 44]
    assert list(TIMER_CHECKPOINT.offsets.values()) == [0, 8, 16, 24, 32, 40, 48]


def test_the_blank_unit_has_the_magic_of_the_logs_blank_record() -> None:
    """RocketMQ's expression for it, `0xBBCCDDEE ^ 1880681586 + 8`, adds first."""
    assert MAGIC_BLANK == (0xBBCCDDEE ^ (1880681586 + 8)) - (1 << 32)
    assert decode_unit(BLANK_UNIT.struct.pack(UNIT_SIZE, 0, MAGIC_BLANK).ljust(UNIT_SIZE, b"\0"), 0) is None


@given(int64s, st.integers(0, 15), int64s, int32s, int64s, int32s, int32s)
def test_unit_round_trip(previous: int, magic: int, time: int, delay: int, offset: int, size: int, topic: int) -> None:
    """A unit decodes to what was encoded."""
    unit = TimerUnit(UNIT_SIZE, previous, magic, time, delay, offset, size, topic)

    assert decode_unit(encode_timer_unit(unit), 0) == unit
    assert decode_unit(b"x" + encode_timer_unit(unit), 1) == unit


@given(st.binary(max_size=120), st.integers(-10, 130))
def test_garbage_is_no_unit(data: bytes, position: int) -> None:
    """Bytes are a unit only if they have its size and one of its marks; no byte outside is read."""
    unit = decode_unit(data, position)

    assert unit is None or (unit.size == UNIT_SIZE and 0 <= unit.magic <= 15)


def test_a_rolled_delete_mark_is_no_mark() -> None:
    """A mark that is rolled goes back to the queue, and marks nothing yet, as in RocketMQ."""
    marks = [
        TimerUnit(UNIT_SIZE, -1, 1 | magic, 0, 0, 0, 0, 0).is_delete_mark
        for magic in (0, timer_log.ROLL, timer_log.DELETE, timer_log.ROLL | timer_log.DELETE)
    ]

    assert marks == [False, False, True, False]


@pytest.mark.behaviour("TimerCheckPointTest.testNewEncodeDecode")
@given(st.builds(TimerCheckpoint, *[int64s] * 7))
def test_checkpoint_round_trip(checkpoint: TimerCheckpoint) -> None:
    """A timer checkpoint decodes to what was encoded, and its file is a page."""
    data = encode_timer_checkpoint(checkpoint)

    assert len(data) == 4096
    assert decode_timer_checkpoint(data) == checkpoint


def test_a_short_checkpoint_is_an_error() -> None:
    """Fewer than 56 bytes raise struct.error."""
    with pytest.raises(struct.error):
        decode_timer_checkpoint(bytes(55))


def test_snapshots_are_named_by_their_position() -> None:
    """Other names are no snapshots."""
    assert snapshot_position(f"{timer_wheel.FILE_NAME}.104000") == 104000
    for name in ("timerwheel", "timerwheel.", "timerwheel.1.tmp", "timerwheel.-1", "atimerwheel.1"):
        assert snapshot_position(name) is None


@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_ended_offsets_round_trip(offsets: list[int]) -> None:
    """The body of an op message gives the offsets that it was made of."""
    assert ended_offsets(encode_ended_offsets(offsets)) == offsets


@given(st.binary())
def test_garbage_in_an_op_message_is_left_out(body: bytes) -> None:
    """Pieces that are no number are left out, and so are numbers that no queue has."""
    assert all(0 <= offset < 1 << 63 for offset in ended_offsets(body))
    assert ended_offsets(b"7,x,, 8,9999999999999999999,-1,9") == [7, 9]
