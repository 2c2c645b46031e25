"""Searching the index in RocksDB by key and time, the newest hour first.

RocketMQ looks through the hours from the first to the last, and takes the first entries that it finds
(`IndexDatabase.first`). `find` goes from the last hour to the first, so that the newest messages come first as they do
from IndexFiles. Within an hour the newest by place in the log comes first.

The database is opened when it is first searched, and RocksDB is loaded only then.

Source: `IndexRocksDBStore.queryOffset`, `MessageRocksDBStorage.queryOffsetForIndex`.
"""

from __future__ import annotations

import heapq
import struct
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from reput.files import fs
from reput.files.names import is_database
from reput.formats import index_database as fmt
from reput.formats.index_database import IndexMarks
from reput.formats.layout import INT64_MAX

if TYPE_CHECKING:
    from reput.files.database import DatabaseReader, Family

REMEDY = (
    "`reput rebuild --only index` builds the index in it anew from the log; it keeps the timers and transactions "
    "that are pending in it, if they can be read"
)
_AT_ONCE = 1 << 14
_DATA = (".sst", ".log", ".blob")


def open_index_database(folder: Path) -> DatabaseReader:
    """Open the database in a folder to read, beside its owner.

    Raises:
        DamagedStoreError: it cannot be read, or is no database of RocketMQ.
    """
    from reput.files.database import DatabaseReader

    return DatabaseReader(folder, [fmt.FAMILY], remedy=REMEDY)


def has_data(folder: Path) -> bool:
    """Return True if a folder has a database with any data; RocksDB is not loaded.

    Every broker since 5.4 makes the database, and leaves it empty unless a setting uses it.
    """
    return is_database(folder) and any(
        entry.size and entry.name.endswith(_DATA) for entry in fs.list_dir(folder) if not entry.is_dir
    )


def read_marks(family: Family) -> IndexMarks | None:
    """Return the marks of an open database; None if no message was ever indexed. A damaged mark counts as 0."""
    offset, time = family.get(fmt.LAST_OFFSET), family.get(fmt.LAST_TIME)
    return None if offset is None else IndexMarks(_number(offset), _number(time))


def _number(mark: bytes | None) -> int:
    try:
        return max(0, fmt.decode_mark(mark or b""))
    except struct.error:
        return 0


class IndexDatabase:
    """The index database of a store, to search; safe for threads.

    Methods raise DamagedStoreError if it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader: DatabaseReader | None = None
        self._marks: IndexMarks | None = None
        self._has_grown = False
        self._lock = threading.Lock()

    def load(self) -> None:
        """Forget the open database: a job may have replaced it."""
        self.close()

    def advance(self) -> None:
        """Let the next search read what its owner has written."""
        self._has_grown = True

    def close(self) -> None:
        """Close it; the next search opens it again."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def find(self, wanted: Sequence[bytes], begin_ms: int, end_ms: int, below: int) -> Iterator[tuple[int, int]]:
        """Yield log offset and store time (ms) of the entries with one of these prefixes, the newest hour first.

        An entry may be for a longer key. Entries of records at or above log offset `below` do not count.
        """
        low, bound = fmt.hour_bytes(fmt.hour_of(max(0, begin_ms))), _end_of(end_ms)
        while True:
            with self._lock:
                bound = self._last_hour(low, bound)
            if not bound:
                return
            yield from self._newest_of(bound, wanted, begin_ms, end_ms, below)

    def first(self, wanted: Sequence[bytes], begin_ms: int, end_ms: int, below: int, most: int) -> list[int]:
        """Return the log offsets of the first `most` entries, as RocketMQ goes through them.

        They are those of the earliest hours, with the first of these prefixes that has any.
        """
        for prefix in wanted:
            found: list[int] = []
            low, end = fmt.hour_bytes(fmt.hour_of(max(0, begin_ms))), _end_of(end_ms)
            with self._lock:
                while len(found) < most and (hour := self._first_hour(low, end)):
                    rows = self._matches(hour, prefix, begin_ms, end_ms, below)
                    found += [offset for offset, _ in islice(rows, most - len(found))]
                    low = hour + b"\xff"
            if found:
                return found
        return []

    def _family(self) -> Family:
        if self._has_grown and self._reader is not None:
            self._reader.refresh()
            # A reader may miss for good what the owner writes while it closes. Then the database is opened again.
            if read_marks(self._reader.families[fmt.FAMILY]) == self._marks:
                self._reader.close()
                self._reader = None
        self._has_grown = False
        if self._reader is None:
            self._reader = open_index_database(self.folder)
        family = self._reader.families[fmt.FAMILY]
        self._marks = read_marks(family)
        return family

    def _last_hour(self, low: bytes, bound: bytes) -> bytes:
        """Return the last hour below a bound, as the first bytes of its keys; empty without one."""
        for key, _ in self._family().walk_back(low, bound):
            return key[:8]
        return b""

    def _first_hour(self, low: bytes, end: bytes) -> bytes:
        for key, _ in self._family().walk(low, end):
            return key[:8]
        return b""

    def _newest_of(
        self, hour: bytes, wanted: Sequence[bytes], begin_ms: int, end_ms: int, below: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the entries of one hour, newest first; a bounded number of them is in memory."""
        while True:
            with self._lock:
                every = chain.from_iterable(self._matches(hour, prefix, begin_ms, end_ms, below) for prefix in wanted)
                rows = heapq.nlargest(_AT_ONCE, every)
            yield from rows
            if len(rows) < _AT_ONCE:
                return
            below = rows[-1][0]

    def _matches(self, hour: bytes, prefix: bytes, begin_ms: int, end_ms: int, below: int) -> Iterator[tuple[int, int]]:
        """Yield log offset and store time of the entries of one hour with a prefix; others than entries are skipped."""
        if len(hour) < len(fmt.hour_bytes(0)):
            return
        for key, value in self._family().walk(*fmt.prefix_bounds(int.from_bytes(hour, signed=True), prefix)):
            if len(value) != fmt.VALUE_SIZE or len(key) < fmt.ENTRY_KEY_EXTRA:
                continue
            offset, time = fmt.offset_of(key), fmt.decode_value(value)
            if 0 <= offset < below and begin_ms <= time <= end_ms:
                yield offset, time


def _end_of(end_ms: int) -> bytes:
    """Return the end of the keys of the hours up to a time; the marks come after all real hours."""
    after = fmt.hour_of(max(0, end_ms)) + fmt.HOUR_MS
    return min(fmt.hour_bytes(min(after, INT64_MAX)), fmt.LAST_OFFSET)
