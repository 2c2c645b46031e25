"""Progress of the delay levels: config/delayOffset.json says how far each has been delivered; it has a backup.

Source: `ScheduleMessageService`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from reput.errors import DamagedStoreError
from reput.files.backed_up import BackedUpFile, BackedUpKind
from reput.formats.config import delay_offset
from reput.formats.config.data_version import NO_VERSION, DataVersion
from reput.formats.config.delay_offset import DelayOffsets, decode_delay_offsets, encode_delay_offsets
from reput.times import now_ms

_KIND = BackedUpKind(
    decode_delay_offsets,
    DelayOffsets({}),
    delay_offset.SIZE_LIMIT,
    "Offsets of delay levels were read from {}, which is older: delayed messages may be delivered again",
    "delayed messages that are still there are delivered again",
)


class DelayProgress:
    """The queue offset of the next message of each delay level. Changes are in memory only until `persist`.

    A file that is damaged is read from its backup. If that is damaged, too, nothing is known: the broker then delivers
    what its queues still have. `notes` names both.

    Args:
        folder: the store's `config`.
        clock_ms: returns the time, in milliseconds since 1970.
    """

    def __init__(self, folder: Path, clock_ms: Callable[[], int] = now_ms) -> None:
        self.notes: list[str] = []
        self._file = BackedUpFile(folder / delay_offset.FILE_NAME, _KIND)
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._table: dict[int, int] = {}
        self._version: DataVersion | None = None
        self._is_changed = False

    @classmethod
    def load(cls, folder: Path, clock_ms: Callable[[], int] = now_ms) -> Self:
        """Read the file, or its backup; nothing is known without either."""
        progress = cls(folder, clock_ms)
        try:
            found = progress._file.load()
        except DamagedStoreError as error:
            progress.notes.append(f"{error}. Until then each level goes on from its first message")
            return progress
        progress.notes += found.notes
        progress._table, progress._version = dict(found.content.offset_table), found.content.data_version
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
            at_ms = self._clock_ms()
            self._version = (self._version or NO_VERSION).next(at_ms)
            data = encode_delay_offsets(DelayOffsets(dict(self._table), self._version))
            self._is_changed = False
        try:
            make_durable()
            self._file.replace(data, at_ms)
        except BaseException:
            self._is_changed = True
            raise
