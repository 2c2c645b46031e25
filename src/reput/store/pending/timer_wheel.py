"""The timer wheel of a store, as a broker that starts now would have it: its file, and the newer units of its log."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.pending import timer_checkpoint, timer_wheel
from reput.formats.pending import timer_log as log_format
from reput.formats.pending.timer_checkpoint import TIMER_CHECKPOINT, TimerCheckpoint, decode_timer_checkpoint
from reput.formats.pending.timer_log import TimerUnit
from reput.formats.pending.timer_wheel import SLOT, SLOTS, WHEEL_SIZE
from reput.store.pending.timer_log import TimerLogReader

PRECISION_MS = 1000
"""RocketMQ's default of timerPrecisionMs."""
_MOST_MS = 60_000
_ASKED = 64
_MOST_TIME_MS, _MOST_PLACE = 1 << 44, 1 << 56
"""A time and a place above those of any store: the year 2527, and 64 PiB of timer log."""
_CHECKPOINT_REMEDY = (
    "Restore it from a copy. A broker without it delivers once more all timer messages that rmq_sys_wheel_timer has"
)


class SlotDamage(NamedTuple):
    """The first unit of a slot that cannot be read. `file`: of the timer log; `where`: the slot, with its wheel."""

    file: Path
    where: str
    what: str

    def text(self, slots: int) -> str:
        """Return the damage in words; `slots`: the number of slots that have damage in this file."""
        if slots == 1:
            about = f"{self.where}: {self.what}. Its"
        else:
            about = f"{self.file}: units of {slots} slots cannot be read. The first is {self.where}: {self.what}. Their"
        return (
            f"{about} other messages are unknown: RocketMQ will not deliver them. "
            "`reput get -t rmq_sys_wheel_timer` shows all timer messages of the log"
        )


class SlotUnits(NamedTuple):
    """The units of a slot, oldest first: positions in the timer log; `damage` says what could not be read.

    `marks` are the positions of the units that mark another message as deleted; `positions` lacks them.
    """

    time_ms: int
    positions: array[int]
    marks: array[int]
    damage: SlotDamage | None


def read_timer_checkpoint(root: Path) -> TimerCheckpoint | None:
    """Return the timer checkpoint of a store; None without one.

    Raises:
        DamagedStoreError: The file is too short, or has values that no broker writes.
    """
    path = root / paths.CONFIG / timer_checkpoint.FILE_NAME
    data = fs.read_bytes(path, TIMER_CHECKPOINT.size)
    if data is None:
        return None
    try:
        found = decode_timer_checkpoint(data)
    except struct.error:
        raise DamagedStoreError(
            f"{path}: {len(data)} bytes, at least {TIMER_CHECKPOINT.size} expected. {_CHECKPOINT_REMEDY}"
        ) from None
    if not is_plausible(found):
        raise DamagedStoreError(
            f"{path}: no checkpoint of timers has time {found.last_read_time_ms}, place "
            f"{found.last_timer_log_flush_pos} and queue offset {found.last_timer_queue_offset}. {_CHECKPOINT_REMEDY}"
        )
    return found


def is_plausible(checkpoint: TimerCheckpoint) -> bool:
    """Return True for values that a broker may have written: the file has no checksum.

    Bytes of another place are most often far above or below these bounds.
    """
    return (
        0 <= checkpoint.last_read_time_ms < _MOST_TIME_MS
        and 0 <= checkpoint.last_timer_log_flush_pos < _MOST_PLACE
        and 0 <= checkpoint.last_timer_queue_offset < _MOST_PLACE
    )


def find_wheel(root: Path) -> Path | None:
    """Return the file of the wheel that counts; None without one.

    That is `timerwheel`, or the snapshot with the highest position if it is newer.
    """
    path = root / timer_wheel.FILE_NAME
    snapshots = [
        (position, entry.name)
        for entry in fs.list_dir(root)
        if entry.is_file and (position := timer_wheel.snapshot_position(entry.name)) is not None
    ]
    plain_ms = fs.modified_ms(path)
    if snapshots:
        newest = root / max(snapshots)[1]
        if plain_ms is None or (fs.modified_ms(newest) or 0) >= plain_ms:
            return newest
    return None if plain_ms is None else path


class WheelReader:
    """The slots of a wheel whose messages have not been delivered.

    Memory holds 16 bytes for each slot in use, of which there are at most 1.2 million, and 8 bytes for each message of
    one slot.

    Without a file the units of the log's last files make the slots, as when a broker starts.

    Args:
        path: the wheel's file, which may be missing.
        log: the timer log.
        checkpoint: see `read_timer_checkpoint`.

    Attributes:
        lacking: time (in units of the precision) and newest unit of each slot that lacks its last units in the file.

    Raises:
        DamagedStoreError: The file has another length than a wheel.
    """

    def __init__(self, path: Path, log: TimerLogReader, checkpoint: TimerCheckpoint) -> None:
        self.path = path
        self.log = log
        slots = _read_slots(path)
        self.precision_ms = _precision(slots, log)
        first = -(-checkpoint.last_read_time_ms // self.precision_ms)
        begin = max(0, checkpoint.last_timer_log_flush_pos - log.files.file_size)
        self._slots = _revised(slots, first, log.units_from(begin), self.precision_ms)
        self.lacking = list(_differing(self._slots, slots))

    def slots(self) -> Iterator[SlotUnits]:
        """Yield the slots that have not been delivered, by time."""
        for time, last in zip(*map(np.ndarray.tolist, self._slots), strict=True):
            yield self._units(time, last)

    def _units(self, time: int, position: int) -> SlotUnits:
        positions, marks, damage = array("q"), array("q"), None
        for link in self.log.chain(position, time, self.precision_ms):
            if link.unit is not None:
                (marks if link.unit.is_delete_mark else positions).append(link.position)
            if link.damage is not None:
                damage = self._damage(time, link.position, link.damage)
        positions.reverse()
        return SlotUnits(time * self.precision_ms, positions, marks, damage)

    def _damage(self, time: int, position: int, what: str) -> SlotDamage:
        where = f"{self.path}: slot at {time % SLOTS * SLOT.size}, time {time * self.precision_ms}"
        return SlotDamage(self.log.file_at(position), where, what)


class _WheelSlots(NamedTuple):
    """Slots by time: the time in units of the precision, and the position of the newest unit."""

    times: NDArray[np.int64]
    lasts: NDArray[np.int64]


def _read_slots(path: Path) -> _WheelSlots:
    if not fs.exists(path):
        return _WheelSlots(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    size = fs.size_of(path)
    if size != WHEEL_SIZE:
        raise DamagedStoreError(
            f"{path}: {size} bytes, a timer wheel has {WHEEL_SIZE}, and RocketMQ does not start with another length. "
            "Restore it from a copy. Or move it, timerlog and config/timercheck away: a broker then takes in all "
            "messages that rmq_sys_wheel_timer still has, and delivers once more what was delivered"
        )
    with fs.mapped(path, 0, size) as data:
        slots = data.view(SLOT.dtype)
        rows = np.flatnonzero(slots["time"] != 0)
        times = slots["time"][rows].astype(np.int64)
        lasts = slots["last_position"][rows].astype(np.int64)
    # RocketMQ does not find a slot at a place where its time does not belong.
    good = (times > 0) & (times % SLOTS == rows) & (lasts >= 0)
    order = np.argsort(times[good])
    return _WheelSlots(times[good][order], lasts[good][order])


def _precision(slots: _WheelSlots, log: TimerLogReader) -> int:
    """Return timerPrecisionMs: the units of the log have times in ms, the slots in units of it."""
    for time, last in zip(slots.times[-_ASKED:].tolist(), slots.lasts[-_ASKED:].tolist(), strict=True):
        try:
            precision = log.unit_at(last).time // int(time)
        except DamagedStoreError:
            continue
        if 1 <= precision <= _MOST_MS:
            return precision
    return PRECISION_MS


def _revised(
    slots: _WheelSlots, first: int, units: Iterator[tuple[NDArray[np.int64], NDArray[np.void]]], precision_ms: int
) -> _WheelSlots:
    """Return the slots from time `first` on, with the units that were written after the wheel was.

    A broker that starts does the same (`TimerMessageStore.recover`).
    """
    begin = int(np.searchsorted(slots.times, first))
    slots = _WheelSlots(slots.times[begin:], slots.lasts[begin:])
    for positions, found in units:
        times = (found["write_time"].astype(np.int64) + found["delay"]) // precision_ms
        rows = np.searchsorted(slots.times, times)
        known = np.zeros(len(times), dtype=bool)
        within = rows < len(slots.times)
        known[within] = (slots.times[rows[within]] == times[within]) & (slots.lasts[rows[within]] >= positions[within])
        newer = (times >= first) & ~known
        if newer.any():
            slots = _newest(
                np.concatenate([slots.times, times[newer]]), np.concatenate([slots.lasts, positions[newer]])
            )
    return slots


def _differing(slots: _WheelSlots, known: _WheelSlots) -> Iterator[tuple[int, int]]:
    """Yield the slots that `known` does not have in the same way."""
    is_same = np.zeros(len(slots.times), dtype=bool)
    if len(known.times):
        rows = np.minimum(np.searchsorted(known.times, slots.times), len(known.times) - 1)
        is_same = (known.times[rows] == slots.times) & (known.lasts[rows] == slots.lasts)
    yield from zip(slots.times[~is_same].tolist(), slots.lasts[~is_same].tolist(), strict=True)


def _newest(times: NDArray[np.int64], lasts: NDArray[np.int64]) -> _WheelSlots:
    """Return each time once, with its highest position."""
    order = np.lexsort((lasts, times))
    times, lasts = times[order], lasts[order]
    last_of_time = np.append(times[1:] != times[:-1], True)
    return _WheelSlots(times[last_of_time], lasts[last_of_time])


def last_unit(log: TimerLogReader) -> TimerUnit | None:
    """Return the last unit of the timer log; None if it has none."""
    found = None
    for positions, _ in log.units_from(max(0, log.files.end_offset - 2 * log.files.file_size)):
        if len(positions):
            found = int(positions[-1])
    return None if found is None else log.unit_at(found)


def has_timer_log(root: Path) -> bool:
    """Return True if a store has a timer log."""
    return fs.is_dir(root / log_format.FOLDER)


def refuse_slots_without_log(root: Path, wheel: Path, checkpoint: TimerCheckpoint) -> None:
    """Refuse a wheel whose timer log is missing, if it has slots that have not been delivered.

    Raises:
        DamagedStoreError: It has.
    """
    used = int((_read_slots(wheel).times * PRECISION_MS >= checkpoint.last_read_time_ms).sum())
    if used:
        raise DamagedStoreError(
            f"{root / log_format.FOLDER}: missing, and {used} slots of {wheel} refer to it. Restore it from a copy: "
            "RocketMQ will not deliver their messages. `reput get -t rmq_sys_wheel_timer` shows all timer messages of "
            "the log"
        )
