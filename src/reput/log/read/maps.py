"""Random reads of a log through maps of its files, for callers that look up records by their offsets."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.errors import ReputError
from reput.files import fs
from reput.files.closing import Closing
from reput.files.gone import is_gone
from reput.files.holes import Holes
from reput.files.maps import MapCache, MapTable
from reput.formats import paths
from reput.formats.log.record import (
    BEFORE_BODY_V4,
    CHECK_BODY,
    FLAG_BORN_HOST_V6,
    HEAD,
    MIN_RECORD_SIZE,
    PHYSICAL_OFFSET_AT,
    STORE_TIMESTAMP_AT_V4,
    STORE_TIMESTAMP_AT_V6,
    SYS_FLAG_AT,
    Verdict,
    examine,
)
from reput.formats.own.files import Fingerprint
from reput.formats.queue.consume_queue import is_blank
from reput.log.read.files import LogFile

_MOST_MAPS = 64
_MOST_FILES = 1 << 16
_LONG_PASS = 1 << 20
_SIZE, _SYS_FLAG = HEAD.struct_of("total_size"), HEAD.struct_of("sys_flag")
_PHYSICAL_OFFSET, _STORE_TIME = HEAD.struct_of("physical_offset"), BEFORE_BODY_V4.struct_of("store_timestamp")


class LogMaps(Closing):
    """The files of a log, mapped on demand. Safe for threads.

    `file_size`: bytes of each file. The file names are read again if an offset lies after the last known file, and by
    `refresh` after files were removed. Bytes that are written after a file was mapped are visible for sure only after
    `follow_writes`.
    """

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size
        self._maps = MapCache(_MOST_MAPS, Holes.ZEROS)
        self._starts: list[int] = []
        self._table: MapTable | None = None
        self._refreshing = threading.Lock()
        self.refresh()

    def follow_writes(self) -> None:
        """Show from now on all that is written. Callers then read only places that hold records."""
        self._maps = MapCache(_MOST_MAPS, Holes.LIVE)
        self._table = None

    def refresh(self) -> None:
        """Read the file names again."""
        # One thread at a time: names that were read earlier must not replace later ones, which may have a new file.
        with self._refreshing:
            starts = []
            for entry in fs.list_dir(self.folder):
                start = paths.parse_offset_name(entry.name) if entry.is_file else None
                if start is not None and fs.size_in(self.folder, entry) == self.file_size:
                    starts.append(start)
            if starts != self._starts:
                self._starts, self._table = starts, None
                self._maps.keep(starts)

    @property
    def table(self) -> MapTable | None:
        """The files as kernels find them, by start // file_size; None without files, or if they are too far apart."""
        starts, size = self._starts, self.file_size
        if self._table is None and starts:
            numbers = [start // size for start in starts if start % size == 0]
            if not numbers or numbers[-1] - numbers[0] >= _MOST_FILES:
                return None
            table = MapTable(numbers[0], numbers[-1] - numbers[0] + 1, _MOST_MAPS)
            for number in set(range(numbers[0], numbers[-1])).difference(numbers):
                table.put(number, None)
            with self._refreshing:
                # Another thread may have found new files meanwhile; the next caller makes a table of these.
                if self._starts is starts:
                    self._table = table
            return table
        return self._table

    def drop_table(self) -> None:
        """Begin a new table; users of the old one keep its maps."""
        self._table = None

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte kept, 0 without files."""
        starts = self._starts
        return starts[0] if starts else 0

    def has_record(self, of: Fingerprint) -> bool:
        """Return True if the record of a fingerprint is in its place."""
        record = self.record(of.offset, of.size)
        return record is not None and of.is_of(record)

    def fingerprint(self, offset: int, size: int) -> Fingerprint | None:
        """Return the fingerprint of the record at a log offset; None if there is none of this size."""
        record = self.record(offset, size)
        return None if record is None else Fingerprint.of(offset, record, self.store_time(offset))

    def has_lost_files(self) -> bool:
        """Return True if the first file is not there any more: a writer has deleted it since the files were listed."""
        return not fs.exists(self.folder / paths.offset_name(self.min_offset))

    @property
    def starts(self) -> list[int]:
        """Start offsets of the files, in order."""
        return self._starts

    @property
    def files(self) -> Sequence[LogFile]:
        """The files in order. Each counts as full of data."""
        size = self.file_size
        return [LogFile(self.folder / paths.offset_name(start), start, size, start + size) for start in self._starts]

    @property
    def end_offset(self) -> int:
        """Log offset after the last file."""
        starts = self._starts
        return starts[-1] + self.file_size if starts else 0

    def file_at(self, offset: int) -> int | None:
        """Return the start of the file that holds a log offset; None if there is none."""
        starts = self._starts
        if not starts or offset >= starts[-1] + self.file_size:
            self.refresh()
            starts = self._starts
        number = bisect_right(starts, offset) - 1
        if number < 0 or offset >= starts[number] + self.file_size:
            return None
        return starts[number]

    def array(self, start: int) -> NDArray[np.uint8]:
        """Return the map of the file that starts at `start`.

        Raises:
            ReputError: The file was removed.
        """
        found = self._maps.get(start)
        if found is None:
            found = self._maps.open(start, str(self.folder / paths.offset_name(start)), self.file_size)
        return found

    def kept(self, start: int) -> NDArray[np.uint8] | None:
        """Return the map of the file that starts at `start`; None if it was deleted with those before it.

        Raises:
            ReputError: It was removed, and files before it were not.
        """
        try:
            return self.array(start)
        except ReputError as error:
            if not is_gone(error):
                raise
            self.refresh()
            if start >= self.min_offset:
                raise
            return None

    def arrays(self, first: int, last: int) -> Sequence[tuple[int, NDArray[np.uint8]]]:
        """Return where the files begin that hold log offsets `first` to `last`, each with its bytes."""
        begin = first // self.file_size * self.file_size
        if last < begin + self.file_size:
            return ((begin, self.array(begin)),)
        return [(start, self.array(start)) for start in self.starts if begin <= start <= last]

    def holds(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64], end: int) -> NDArray[np.bool_]:
        """Return which entries, with these places and sizes, name a record below log offset `end`; a blank has none."""
        found: NDArray[np.bool_] = (offsets >= self.min_offset) & (sizes > 0) & (offsets <= end - sizes)
        found &= ~is_blank(offsets, sizes)
        return found

    def by_file(
        self, offsets: NDArray[np.int64], *, strict: bool = False
    ) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], int]]:
        """Yield each file that holds some of these log offsets: its map, their row numbers, and the file's start.

        A file that is shorter than the rest is mapped as it is. Unless `strict`, offsets in missing files are left out.

        Raises:
            ReputError: A file is missing, and `strict` is set.
        """
        starts = offsets // self.file_size * self.file_size
        for start in np.unique(starts[offsets >= 0]).tolist():
            array = self._any_array(start, strict)
            if array is not None:
                yield array, np.flatnonzero(starts == start), start

    def _any_array(self, start: int, strict: bool) -> NDArray[np.uint8] | None:
        """Return the map of a file of any length; None if it is missing."""
        found = self._maps.get(start)
        if found is not None:
            return found
        path = self.folder / paths.offset_name(start)
        if not strict and not fs.exists(path):
            return None
        size = min(self.file_size, fs.size_of(path))
        # A short map has a key of its own: every other caller expects a whole file.
        key = start if size == self.file_size else (start, size)
        found = self._maps.get(key)
        return self._maps.open(key, str(path), size) if found is None else found

    @contextlib.contextmanager
    def for_one_pass(self, start: int, size: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the map of a file of which `size` bytes are read once: many bytes do not stay in this process's memory.

        Raises:
            ReputError: The file was removed.
        """
        if size < _LONG_PASS:
            yield self.array(start)
        else:
            with fs.mapped(self.folder / paths.offset_name(start), 0, self.file_size) as array:
                yield array

    def record(self, offset: int, size: int) -> memoryview | None:
        """Return the bytes of the record that an index names, by log offset and size; None if it is not there.

        The lengths must fit the file, and the record must hold this size and offset. Its CRC is not checked.
        """
        start = self.file_at(offset) if offset >= 0 else None
        if start is None or size < MIN_RECORD_SIZE or offset + size > start + self.file_size:
            return None
        data, position = self.array(start).data, offset - start
        if _SIZE.unpack_from(data, position)[0] != size:
            return None
        if _PHYSICAL_OFFSET.unpack_from(data, position + PHYSICAL_OFFSET_AT)[0] != offset:
            return None
        return data[position : position + size]

    def examined(self, offset: int, crc_check: int) -> memoryview | Verdict:
        """Return the good record at a log offset, or the verdict on the bytes there; outside the log none are written.

        `reader.record_at` does the same with the bytes of files that are not mapped.
        """
        start = self.file_at(offset) if offset >= 0 else None
        if start is None:
            return Verdict.ZERO
        data, position = self.array(start).data, offset - start
        verdict, size = examine(data, position, len(data), offset, crc_check)
        return data[position : position + size] if verdict is Verdict.GOOD else verdict

    def record_end(self, offset: int, crc_check: int = CHECK_BODY) -> int:
        """Return the log offset after the good record at a log offset, -1 if there is none."""
        found = self.examined(offset, crc_check)
        return -1 if isinstance(found, Verdict) else offset + len(found)

    def store_time(self, offset: int) -> int:
        """Return the store time (ms) of the record at a log offset; -1 if none can be read there."""
        start: int | None = offset // self.file_size * self.file_size
        array = self._maps.get(start)
        if array is None:
            start = self.file_at(offset) if offset >= 0 else None
            if start is None:
                return -1
            array = self.array(start)
        position = offset - (start or 0)
        if position + MIN_RECORD_SIZE > self.file_size:
            return -1
        return store_time_in(array.data, position)

    def forget_pages(self) -> None:
        """Let the system have the memory of what was read; the next read takes a page fault for each 64 KiB."""
        self._maps.forget_pages()

    def close(self) -> None:
        """Forget the maps; results in use keep theirs."""
        self._maps.clear()
        self._table = None


def store_time_in(data: bytes | memoryview, position: int) -> int:
    """Return the store time (ms) of the record at a position of a buffer that has MIN_RECORD_SIZE bytes from there."""
    (sys_flag,) = _SYS_FLAG.unpack_from(data, position + SYS_FLAG_AT)
    at = STORE_TIMESTAMP_AT_V6 if sys_flag & FLAG_BORN_HOST_V6 else STORE_TIMESTAMP_AT_V4
    return int(_STORE_TIME.unpack_from(data, position + at)[0])
