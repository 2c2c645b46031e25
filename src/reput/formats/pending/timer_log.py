"""timerlog: a unit for each timer message that the timer wheel has taken in, in files of one size.

A file is named by the position of its first byte. Units are back to back. One that would leave less than 16 bytes in
its file begins the next file, and a blank unit fills this one.

Source: `TimerLog`, `TimerMessageStore.doEnqueue`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reput.formats.layout import Field, Layout

FOLDER = "timerlog"
UNIT = Layout(
    "Unit of the timer log",
    "TimerLog.UNIT_SIZE, TimerMessageStore.doEnqueue",
    [
        Field("size", "i", "52"),
        Field("previous_position", "q", "place of the unit before it in the same slot; -1: there is none"),
        Field("magic", "i", "bits: 1 always, 2 the message is rolled, 4 it marks another one as deleted"),
        Field("write_time", "q", "when the wheel took the message in (ms)"),
        Field("delay", "i", "when the wheel gives it out, in ms after `write_time`"),
        Field("physical_offset", "q", "where the record starts in the CommitLog"),
        Field("record_size", "i", "length of the record in bytes"),
        Field("topic_hash", "i", "hash of the real topic, for metrics"),
        Field("reserved", "q", "0"),
    ],
)
UNIT_SIZE = UNIT.size
assert UNIT_SIZE == 52

BLANK_UNIT = Layout(
    "Blank unit (end of a file of the timer log)",
    "TimerLog.append",
    [
        Field("size", "i", "all bytes that are left in this file"),
        Field("previous_position", "q", "0"),
        Field("magic", "i", "0xCBD43194, as in the CommitLog"),
    ],
)
assert BLANK_UNIT.size == 16

ROLL = 2
"""The message is due later than the wheel reaches: it is put to the timer topic again then."""
DELETE = 4
"""The message marks another one as deleted: TIMER_DEL_UNIQKEY names it."""
_KNOWN_BITS = 0xF


class TimerUnit(NamedTuple):
    """A unit of the timer log; times in ms."""

    size: int
    previous_position: int
    magic: int
    write_time: int
    delay: int
    physical_offset: int
    record_size: int
    topic_hash: int
    reserved: int = 0

    @property
    def time(self) -> int:
        """The time (ms) at which the wheel gives the message out."""
        return self.write_time + self.delay

    @property
    def is_rolled(self) -> bool:
        """True if the message goes back to the timer topic then, as it is due later."""
        return bool(self.magic & ROLL)

    @property
    def is_delete_mark(self) -> bool:
        """True if this unit marks another message as deleted (`TimerMessageStore.dequeue`)."""
        return bool(self.magic & DELETE) and not self.is_rolled


def is_unit(size: Any, magic: Any) -> Any:
    """Return True where size and magic are those of a unit (`TimerMessageStore.isMagicOK`); also for whole columns."""
    return (size == UNIT_SIZE) & (magic | _KNOWN_BITS == _KNOWN_BITS)


def encode_timer_unit(unit: TimerUnit) -> bytes:
    """Return the bytes of a unit."""
    return UNIT.struct.pack(*unit)


def decode_unit(data: bytes | memoryview, position: int) -> TimerUnit | None:
    """Return the unit at a position of `data`; None if there is none."""
    if position < 0 or position + UNIT_SIZE > len(data):
        return None
    unit = TimerUnit(*UNIT.struct.unpack_from(data, position))
    return unit if is_unit(unit.size, unit.magic) else None
