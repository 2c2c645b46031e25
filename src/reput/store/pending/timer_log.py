"""The timer log of a store: units by position, and the last ones, from which a wheel that is out of date is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.maps import MapCache
from reput.formats.log.record import MAGIC_BLANK
from reput.formats.pending import timer_log
from reput.formats.pending.timer_log import UNIT, UNIT_SIZE, TimerUnit, decode_unit, is_unit
from reput.formats.pending.timer_wheel import NO_POSITION
from reput.log.read.files import LogFile, list_log_files
from reput.log.read.reader import file_of, place

_MAPS_KEPT = 8


class ChainLink(NamedTuple):
    """A unit of a slot; `damage` says why the slot's older units are lost, `unit` is None if this one is lost, too."""

    position: int
    unit: TimerUnit | None
    damage: str | None


class TimerLogReader:
    """The files of a timer log, mapped as they are used."""

    def __init__(self, root: Path) -> None:
        self.files = list_log_files(root / timer_log.FOLDER, tolerant=True)
        self._maps = MapCache(_MAPS_KEPT)

    @property
    def min_position(self) -> int:
        """Position of the first unit that is kept."""
        return self.files.min_offset

    @property
    def data_end(self) -> int:
        """Position after the last data of the files when they were listed. Units before it are read fastest."""
        return self.files.files[-1].data_end if self.files.files else 0

    def _map(self, file: LogFile) -> NDArray[np.uint8]:
        found = self._maps.get(file.start)
        return self._maps.open(file.start, str(file.path), file.size) if found is None else found

    def unit_at(self, position: int) -> TimerUnit:
        """Return the unit at a position.

        Raises:
            DamagedStoreError: There is none.
        """
        file = file_of(self.files, position)
        unit = None if file is None else self._unit_in(file, position)
        if unit is None:
            raise DamagedStoreError(f"{place(self.files, position)}: no unit of the timer log is here")
        return unit

    def _unit_in(self, file: LogFile, position: int) -> TimerUnit | None:
        at = position - file.start
        if position + UNIT_SIZE <= file.data_end:
            return decode_unit(self._map(file).data, at)
        # The unit is newer than the listing, or there is none: a map would take memory of a tmpfs for the hole.
        return decode_unit(fs.read_bytes(file.path, UNIT_SIZE, at) or b"", 0)

    def chain(self, position: int, time: int, precision_ms: int) -> Iterator[ChainLink]:
        """Yield the units of a slot, newest first, up to the first that cannot be read or refers to a later one.

        Args:
            position: the slot's newest unit; NO_POSITION if it has none.
            time: the slot's time, in units of the precision.
            precision_ms: timerPrecisionMs.
        """
        while position != NO_POSITION:
            try:
                unit = self._unit_of(position, time, precision_ms)
            except DamagedStoreError as error:
                yield ChainLink(position, None, str(error))
                return
            if unit.previous_position >= position:
                what = f"the unit at {position} refers to a later one, {unit.previous_position}"
                yield ChainLink(position, unit, what)
                return
            yield ChainLink(position, unit, None)
            position = unit.previous_position

    def _unit_of(self, position: int, time: int, precision_ms: int) -> TimerUnit:
        if position < self.min_position:
            raise DamagedStoreError(f"the unit at {position} is gone: the timer log begins at {self.min_position}")
        unit = self.unit_at(position)
        if unit.time // precision_ms != time:
            raise DamagedStoreError(f"the unit at {position} of the timer log is of another time, {unit.time}")
        return unit

    def file_at(self, position: int) -> Path:
        """Return the file that has a position, or that should have: the one before it; the folder if none is."""
        before = [file.path for file in self.files.files if file.start <= position]
        return before[-1] if before else self.files.folder

    def units_from(self, position: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.void]]]:
        """Yield positions and units of each file, from the file that holds a position to the last unit.

        As when a broker starts, the first bytes that are no unit end the log (`TimerMessageStore.recoverAndRevise`).
        """
        for file in self.files.files:
            if file.end <= position:
                continue
            with fs.mapped(file.path, 0, file.size) as data:
                # One place after the data has zeros, which are no unit.
                count = min(file.size // UNIT_SIZE, (file.data_end - file.start) // UNIT_SIZE + 2)
                units = np.frombuffer(data, dtype=UNIT.dtype, count=count)
            good = is_unit(units["size"], units["magic"])
            count = len(units) if good.all() else int(np.argmin(good))
            yield file.start + np.arange(count, dtype=np.int64) * UNIT_SIZE, units[:count]
            if count < len(units) and units["magic"][count] != MAGIC_BLANK:
                return

    def close(self) -> None:
        """Release the files."""
        self._maps.clear()
