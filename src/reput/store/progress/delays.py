"""Progress of the delay levels: config/delayOffset.json says how far each has been delivered; it has a backup.

Source: `ScheduleMessageService`, `ConfigManager`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import delay_offset
from reput.formats.data_version import NO_VERSION, DataVersion
from reput.formats.delay_offset import DelayOffsets, decode_delay_offsets, encode_delay_offsets
from reput.store.progress.progress import wall_clock_ms


class DelayProgress:
    """The queue offset of the next message of each delay level. Changes are in memory only until `persist`.

    A file that is damaged is read from its backup. If that is damaged, too, nothing is known: the broker then delivers
    what its queues still have. `notes` names both.

    Args:
        folder: the store's `config`.
        clock_ms: returns the time, in milliseconds since 1970.
    """

    def __init__(self, folder: Path, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.notes: list[str] = []
        self._path = folder / delay_offset.FILE_NAME
        self._backup = folder / delay_offset.BACKUP_NAME
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._written: bytes | None = None
        self._table: dict[int, int] = {}
        self._version: DataVersion | None = None
        self._is_changed = False

    @classmethod
    def load(cls, folder: Path, clock_ms: Callable[[], int] = wall_clock_ms) -> Self:
        """Read the file, or its backup; nothing is known without either."""
        progress = cls(folder, clock_ms)
        for path in (progress._path, progress._backup):
            data = fs.read_bytes(path, delay_offset.SIZE_LIMIT)
            if data is None:
                continue
            try:
                found = decode_delay_offsets(data, str(path))
            except DamagedStoreError as error:
                progress.notes.append(str(error))
                continue
            progress._table, progress._version = dict(found.offset_table), found.data_version
            if path == progress._path:
                progress._written = data
            break
        return progress

    @property
    def table(self) -> Mapping[int, int]:
        """The queue offset of each level, level 1 first."""
        return self._table

    def advance(self, level: int, offset: int) -> None:
        """Set the next message of a level."""
        with self._lock:
            if self._table.get(level) != offset:
                self._table[level] = offset
                self._is_changed = True

    def persist(self, make_durable: Callable[[], object]) -> None:
        """Write the file if something has changed; the version before becomes its backup.

        Args:
            make_durable: makes the messages durable that have been delivered. An offset that outlives them in a power
                failure would lose them.

        Raises:
            ReputError: the system refuses a call, or the disk is full; the next call tries again.
        """
        with self._lock:
            if not self._is_changed:
                return
            self._version = (self._version or NO_VERSION).next(self._clock_ms())
            data = encode_delay_offsets(DelayOffsets(dict(self._table), self._version))
            self._is_changed = False
        try:
            make_durable()
            self._replace(data)
        except BaseException:
            self._is_changed = True
            raise

    def _replace(self, data: bytes) -> None:
        folder = self._path.parent
        if not fs.exists(folder):
            fs.make_dirs(folder, fs.owner_of(folder.parent))
        owner = fs.owner_of(folder)
        if self._written is not None:
            fs.write_whole(self._backup, self._written, owner)
        fs.write_whole(self._path, data, owner)
        self._written = data
