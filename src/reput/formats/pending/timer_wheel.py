"""timerwheel: for each second the places of the timer messages that are due then, as chains in the timer log.

The file has a fixed number of slots, whatever the precision is. A time takes slot `time % SLOTS`, so a slot is used
again after 14 days. A slot stays as it is when its messages have been delivered: `config/timercheck` says how far that
is done. With timerWheelSnapshotFlush a broker writes `timerwheel.POSITION` instead, which is complete up to that
position of the timer log, and keeps the last two.

Source: `TimerWheel`, `Slot`, `TimerMessageStore`.
"""

from __future__ import annotations

import re

from reput.formats.layout import Field, Layout

FILE_NAME = "timerwheel"
SLOT = Layout(
    "Slot of the timer wheel",
    "TimerWheel.putSlot",
    [
        Field("time", "q", "when the messages are due, in units of timerPrecisionMs (1,000 ms); 0: never used"),
        Field("first_position", "q", "place of the oldest unit in the timer log"),
        Field("last_position", "q", "place of the newest unit; each unit has the place of the one before it"),
        Field("count", "i", "messages, less the marks of deletion"),
        Field("magic", "i", "not used"),
    ],
)
SLOT_SIZE = SLOT.size
assert SLOT_SIZE == 32
SLOTS = 7 * 24 * 3600 * 2
"""Twice the seconds of 7 days (TIMER_WHEEL_TTL_DAY)."""
WHEEL_SIZE = SLOTS * SLOT_SIZE
assert WHEEL_SIZE == 38_707_200
NO_POSITION = -1

_SNAPSHOT = re.compile(rf"{FILE_NAME}\.([0-9]{{1,19}})")


def snapshot_position(name: str) -> int | None:
    """Return the place in the timer log up to which a snapshot is complete; None for a file of another name."""
    found = _SNAPSHOT.fullmatch(name)
    return int(found[1]) if found else None
