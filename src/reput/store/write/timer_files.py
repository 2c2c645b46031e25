"""The timer wheel and the timer log of a store that delivers timer messages: `timerwheel`, `timerlog/`, timercheck.

Units are written before the slots that refer to them, and both before the checkpoint. So an open after a kill finds
slots that lack the last units, and mends them from the log, as RocketMQ does. After a failed sync the checkpoint stays
where it is: a later sync reports no error, though the disk lacks what was written. The next open writes it once more.

Source: `TimerMessageStore.doEnqueue`, `recover`, `prepareTimerCheckPoint`, `TimerWheel`, `TimerLog`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from reput.errors import ReputError, UnsupportedStoreError
from reput.files import fs
from reput.files.again import write_bytes_again
from reput.files.folders import make_durable_dir
from reput.formats import paths
from reput.formats.log.record import MAGIC_BLANK
from reput.formats.pending import timer_checkpoint, timer_log, timer_wheel
from reput.formats.pending.timer_checkpoint import TimerCheckpoint, encode_timer_checkpoint
from reput.formats.pending.timer_log import BLANK_UNIT, DELETE, ROLL, UNIT_SIZE, TimerUnit, encode_timer_unit
from reput.formats.pending.timer_wheel import NO_POSITION, SLOT, SLOT_SIZE, SLOTS, WHEEL_SIZE
from reput.store.pending.timer_log import TimerLogReader
from reput.store.pending.timer_wheel import PRECISION_MS, WheelReader, find_wheel, read_timer_checkpoint
from reput.times import HOUR_MS, now_ms

LOG_FILE_SIZE = 100 << 20
"""Size of a file of the timer log in RocketMQ (mappedFileSizeTimerLog)."""
ROLL_WINDOW_MS = 2 * 24 * HOUR_MS
"""A message that is due later is put to the timer topic again (timerRollWindowSlot)."""
_DEFAULT = 1
_SLOTS_AT_ONCE = 1 << 14
_MARGIN_MS = 60_000
"""Slots in which the wheel puts nothing (TIMER_BLANK_SLOTS): between the latest and the earliest time."""


class WheelSlot(NamedTuple):
    """A slot of the wheel; `time` is in units of the precision, `balance` its messages less its marks of deletion."""

    time: int
    first_position: int
    last_position: int
    balance: int
    magic: int


class DueUnits(NamedTuple):
    """The units of a time, the oldest first; `damage` says why there may be others, which are lost."""

    units: list[TimerUnit]
    damage: str | None


class TimerState(NamedTuple):
    """Progress of timers: the next message to take in, and the time before which all are delivered (ms)."""

    queue_offset: int
    read_time_ms: int


class TimerFiles:
    """The files of the timer wheel, open to write. One thread calls all methods but `persist`.

    Args:
        root: the store's folder.
        log_file_size: size of a file of a new timer log.

    Raises:
        DamagedStoreError: the wheel or the checkpoint has a wrong length.
        UnsupportedStoreError: the wheel has another precision than a second.
    """

    def __init__(self, root: Path, log_file_size: int = LOG_FILE_SIZE) -> None:
        self._owner = fs.owner_of(root)
        self._folder = root / timer_log.FOLDER
        self._checkpoint_path = root / paths.CONFIG / timer_checkpoint.FILE_NAME
        found = read_timer_checkpoint(root)
        make_durable_dir(self._folder, self._owner)
        make_durable_dir(self._checkpoint_path.parent, self._owner)
        self._reader = TimerLogReader(root)
        files = self._reader.files
        self._log_size = files.file_size if files.files else log_file_size
        self._wheel_path = root / timer_wheel.FILE_NAME
        newest = find_wheel(root)
        # Without a checkpoint a broker was killed in its first second, and all in its wheel is still due.
        begun_ms = 0 if newest is not None or files.files else now_ms() // PRECISION_MS * PRECISION_MS
        self.checkpoint = found or TimerCheckpoint(last_read_time_ms=begun_ms)
        if newest is not None and newest != self._wheel_path:
            fs.copy_file(newest, self._wheel_path, self._owner)
        wheel = WheelReader(newest or self._wheel_path, self._reader, self.checkpoint)
        if wheel.precision_ms != PRECISION_MS:
            raise UnsupportedStoreError(
                f"{wheel.path}: its slots are not of a second (timerPrecisionMs). "
                "Let RocketMQ deliver its timer messages"
            )
        self._full: list[int] = []
        self._has_durable_names = False
        """True once the names of the first files are durable; later a new file comes only with a full one."""
        self._has_failed = False
        self.last_unit: TimerUnit | None = None
        self.end = files.min_offset
        with contextlib.ExitStack() as opened:
            self._wheel = fs.open_sized(str(self._wheel_path), WHEEL_SIZE, self._owner)
            opened.callback(fs.close, self._wheel)
            self._recover(wheel)
            self._log = self._open_log(self.end)
            opened.pop_all()

    def _recover(self, wheel: WheelReader) -> None:
        """Find the log's end, remove files after it, and mend slots that lack the last units."""
        files, begin = self._reader.files, self.checkpoint.last_timer_log_flush_pos - self._log_size
        begin = max(begin, 0)
        kept = [file for file in files.files if file.end > begin]
        for file, (positions, _) in zip(kept, self._reader.units_from(begin), strict=False):
            self.end = file.start + len(positions) * UNIT_SIZE
            if len(positions):
                self.last_unit = self._reader.unit_at(int(positions[-1]))
        for slot_time, position in wheel.lacking:
            slot = self._slot(slot_time)
            first = slot.first_position if slot.time == slot_time else position
            self._put_slot(WheelSlot(slot_time, first, position, slot.balance, slot.magic))
        for file in files.files:
            if file.start > self.end:
                fs.remove_file(file.path)
        begin = max(self.checkpoint.last_timer_log_flush_pos, files.min_offset)
        if begin < self.end:
            # What the process before has written since its checkpoint may be in memory alone.
            for file in files.files:
                at, end = max(begin, file.start) - file.start, min(self.end, file.end) - file.start
                write_bytes_again(file.path, files.file_size, self._owner, at, end)
            used = fs.end_of_data(self._wheel_path, WHEEL_SIZE)
            write_bytes_again(self._wheel_path, WHEEL_SIZE, self._owner, 0, used)

    def _open_log(self, position: int) -> int:
        """Open the file of the log that takes a position."""
        start = position // self._log_size * self._log_size
        return fs.open_sized(str(self._folder / paths.offset_name(start)), self._log_size, self._owner)

    def _slot(self, slot_time: int) -> WheelSlot:
        return WheelSlot(*SLOT.struct.unpack(self._read_slots(slot_time % SLOTS, 1)))

    def _read_slots(self, first: int, count: int) -> bytes:
        """Return slots of the wheel, which has holes where none was written."""
        with fs.errors_named(self._wheel_path, "read slots"):
            return fs.pread(self._wheel, count * SLOT_SIZE, first * SLOT_SIZE)

    def _put_slot(self, slot: WheelSlot) -> None:
        with fs.errors_named(self._wheel_path, "write a slot"):
            fs.pwrite(self._wheel, SLOT.struct.pack(*slot), slot.time % SLOTS * SLOT_SIZE)

    def add(self, due_ms: int, write_time_ms: int, unit: TimerUnit) -> None:
        """Take in a message that is due at a time that has not been delivered.

        Args:
            due_ms: when it is due. Beyond the wheel's window the wheel gives it out earlier, to be put again.
            write_time_ms: the time now, in whole seconds.
            unit: place and size of the record and the hash of its topic, and DELETE if it marks another message.

        Raises:
            ReputError: the disk is full, or the system refuses a call. Nothing was taken in.
        """
        magic, ahead_ms = unit.magic | _DEFAULT, due_ms - write_time_ms
        if ahead_ms >= ROLL_WINDOW_MS:
            magic |= ROLL
            # One that is due a little later is given out halfway: so the next time has room.
            is_near = ahead_ms - ROLL_WINDOW_MS < ROLL_WINDOW_MS // 3
            ahead_ms = ROLL_WINDOW_MS // 2 if is_near else ROLL_WINDOW_MS
        slot_time = (write_time_ms + ahead_ms) // PRECISION_MS
        slot = self._slot(slot_time)
        if slot.time != slot_time:
            slot = WheelSlot(slot_time, NO_POSITION, NO_POSITION, 0, 0)
        unit = unit._replace(
            size=UNIT_SIZE,
            previous_position=slot.last_position,
            magic=magic,
            write_time=write_time_ms,
            delay=ahead_ms,
        )
        position = self._append(unit)
        first = position if slot.first_position == NO_POSITION else slot.first_position
        balance = slot.balance + (-1 if magic & DELETE else 1)
        self._put_slot(slot._replace(first_position=first, last_position=position, balance=balance))
        self.last_unit = unit

    def _append(self, unit: TimerUnit) -> int:
        left = self._log_size - self.end % self._log_size
        if left < UNIT_SIZE + BLANK_UNIT.size:
            blank = BLANK_UNIT.struct.pack(left, 0, MAGIC_BLANK)
            with fs.errors_named(self._folder, "write a blank unit"):
                fs.pwrite(self._log, blank, self.end % self._log_size)
            following = self._open_log(self.end + left)
            self.end += left
            self._full, self._log = [*self._full, self._log], following
        position = self.end
        with fs.errors_named(self._folder, "write a unit"):
            fs.pwrite(self._log, encode_timer_unit(unit), position % self._log_size)
        self.end = position + UNIT_SIZE
        return position

    def first_used(self, begin_ms: int, end_ms: int) -> int | None:
        """Return the first time with messages from a time on and before another one (ms); None if there is none."""
        at, end = begin_ms // PRECISION_MS, end_ms // PRECISION_MS
        while at < end:
            first = at % SLOTS
            count = min(end - at, _SLOTS_AT_ONCE, SLOTS - first)
            times = np.frombuffer(self._read_slots(first, count), dtype=SLOT.dtype)["time"]
            used = np.flatnonzero(times == np.arange(at, at + count))
            if len(used):
                return (at + int(used[0])) * PRECISION_MS
            at += count
        return None

    def units_of(self, time_ms: int) -> DueUnits:
        """Return the units of a time."""
        units: list[TimerUnit] = []
        damage, slot = None, self._slot(time_ms // PRECISION_MS)
        position = slot.last_position if slot.time == time_ms // PRECISION_MS else NO_POSITION
        if position >= self._reader.data_end:
            self._reader.close()
            self._reader = TimerLogReader(self._folder.parent)
        for link in self._reader.chain(position, slot.time, PRECISION_MS):
            if link.unit is not None:
                units.append(link.unit)
            damage = link.damage
        if damage is not None:
            damage = f"{self._wheel_path}: slot at {slot.time % SLOTS * SLOT_SIZE}: {damage}"
        return DueUnits(units[::-1], damage)

    def persist(self, state: TimerState) -> None:
        """Make the files durable, and note how far timers are; one other thread may call it meanwhile.

        Raises:
            ReputError: the system refuses a call, or the disk is full; the next call tries again. After a failed sync
                each call raises it.
        """
        if self._has_failed:
            raise ReputError(
                f"{self._folder}: an earlier sync has failed, so a later one proves nothing, and the checkpoint of "
                "timers stays as it is. Stop the broker and start it again: that writes the timers to the disk again"
            )
        end, full = self.end, self._full
        try:
            for log in (*full, self._log, self._wheel):
                with fs.errors_named(self._folder, "sync"):
                    fs.sync_data(log)
            if full or not self._has_durable_names:
                fs.sync_path(self._folder)
                fs.sync_path(self._wheel_path.parent)
                self._has_durable_names = True
        except ReputError:
            self._has_failed = True
            raise
        before = self.checkpoint
        self.checkpoint = TimerCheckpoint(
            state.read_time_ms,
            end,
            state.queue_offset,
            state.queue_offset,
            before.state_version,
            now_ms(),
            before.counter + 1,
        )
        fs.write_whole(self._checkpoint_path, encode_timer_checkpoint(self.checkpoint), self._owner)
        self._full = self._full[len(full) :]
        for log in full:
            fs.close(log)

    def close(self) -> None:
        """Release the files."""
        self._reader.close()
        for file in (*self._full, self._log, self._wheel):
            fs.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def earliest_read_time(at_ms: int) -> int:
    """Return the earliest time that a wheel can still have: earlier slots are used again."""
    return at_ms // PRECISION_MS * PRECISION_MS - SLOTS // 2 * PRECISION_MS + _MARGIN_MS
