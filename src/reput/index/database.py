"""The index in RocksDB as a kind of index: on disk, and opened to search by key and time, the newest hour first.

RocketMQ looks through the hours from the first to the last, and takes the first entries that it finds
(`_first`). An exact search goes from the last hour to the first, so that the newest messages come first as they do
from IndexFiles. Within an hour the newest by place in the log comes first.

The database is opened when it is first searched, and RocksDB is loaded only then.

Source: `IndexRocksDBStore.queryOffset`, `MessageRocksDBStorage.queryOffsetForIndex`.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from reput.errors import DamagedStoreError
from reput.files import fs, locks
from reput.formats.database.rocksdb_manifest import manifest_name, never_had_a_table
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexMarks
from reput.formats.index.index_kinds import INDEX_DATABASE
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import Record
from reput.index.database_cut import cut_entries
from reput.index.database_marks import newest_entry, odd_marks, read_marks, wrong_marks
from reput.index.kinds import IndexQuestion, IndexSizes, MappedIndexFiles, WrongMarks

if TYPE_CHECKING:
    from reput.files.database import DatabaseReader, Family

REMEDY = (
    "`reput rebuild --only index` makes the database anew, with the pending timers and transactions that can be read, "
    "and keeps a damaged one beside it"
)
_WORDS = "the index in RocksDB"
_AT_ONCE = 1 << 14
_DATA = (".sst", ".log", ".blob")
_MOST_MANIFEST_BYTES = 64 << 10


def has_record(family: Family, record: Record) -> bool:
    """Return True if an open database has all entries of a record."""
    value = fmt.encode_value(record.store_timestamp)
    return all(family.get(key) == value for key in fmt.entry_keys(record))


def open_index_database(folder: Path) -> DatabaseReader:
    """Open the database in a folder to read, beside its owner.

    Raises:
        DamagedStoreError: it cannot be read, or is no database of RocketMQ.
    """
    from reput.files.database import DatabaseReader

    return DatabaseReader(folder, [fmt.FAMILY], remedy=REMEDY)


def has_data(folder: Path) -> bool:
    """Return True if a folder has a database with any data, or a damaged one; RocksDB is not loaded.

    Every broker since 5.4 makes the database, and leaves it empty unless a setting uses it. Then its MANIFEST names no
    table. RocksDB makes a new database where there is no CURRENT, and no data.
    """
    files = [entry for entry in fs.list_dir(folder) if entry.is_file]
    if any(entry.size and entry.name.endswith(_DATA) for entry in files):
        return True
    if not any(entry.name == "CURRENT" for entry in files):
        return False
    name = manifest_name(fs.read_bytes(folder / "CURRENT", _MOST_MANIFEST_BYTES) or b"")
    manifest = fs.read_bytes(folder / name, _MOST_MANIFEST_BYTES) if name else None
    return not never_had_a_table(manifest or b"")


class _Looked(NamedTuple):
    """The marks (None: it indexes no message) and what is `odd` about them, or why the database cannot be read."""

    marks: IndexMarks | None = None
    odd: str = ""
    damage: str = ""


class DatabaseIndex:
    """The index database of a store; see `AnyIndex`. RocksDB is loaded only if there is one with data."""

    name: ClassVar[str] = INDEX_DATABASE
    words: ClassVar[str] = _WORDS
    has_every_message: ClassVar[bool] = False

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder = folder
        self._logs = logs

    @cached_property
    def _looked(self) -> _Looked:
        if not has_data(self.folder):
            return _Looked()
        try:
            with open_index_database(self.folder) as reader:
                family = reader.families[fmt.FAMILY]
                return _Looked(read_marks(family), odd_marks(family))
        except DamagedStoreError as error:
            return _Looked(damage=str(error))

    @property
    def is_present(self) -> bool:
        """See `AnyIndex`."""
        return self.marks is not None or bool(self.damage)

    @property
    def damage(self) -> str:
        """See `AnyIndex`."""
        return self._looked.damage

    @property
    def marks(self) -> IndexMarks | None:
        """See `AnyIndex`."""
        return self._looked.marks

    def wrong_marks(self, log_end: int | None) -> WrongMarks | None:
        """See `AnyIndex`."""
        return wrong_marks(self.folder, self._looked.odd, self.marks, log_end)

    def reaches(self, later: Record | None) -> IndexMarks | None:
        """See `AnyIndex`."""
        if self.marks is None or (later is None and self.marks.offset >= 0):
            return self.marks
        with open_index_database(self.folder) as reader:
            family = reader.families[fmt.FAMILY]
            if self.marks.offset >= 0 and later is not None and not has_record(family, later):
                return self.marks
            return max(self.marks, newest_entry(family) or self.marks)

    def cut(self, end: int, last_ms: int, owner: fs.Owner) -> int:
        """See `AnyIndex`. RocketMQ leaves such entries."""
        if self.marks is None:
            return 0
        with open_index_database(self.folder) as reader:
            return cut_entries(reader, self._logs, owner, end, last_ms, REMEDY)

    @property
    def is_held(self) -> bool:
        """See `AnyIndex`."""
        return locks.is_database_held(self.folder)

    def open(self, sizes: IndexSizes) -> DatabaseIndexSearch:  # noqa: ARG002 - an AnyIndex
        """See `AnyIndex`."""
        return DatabaseIndexSearch(self.folder)


class DatabaseIndexSearch:
    """The index database of a store, to search; safe for threads. See `OpenIndex`."""

    words: ClassVar[str] = _WORDS

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

    def find(self, asked: IndexQuestion, tail: Iterable[int] = ()) -> Iterator[int]:
        """See `OpenIndex`. An entry may be for a longer key.

        RocketMQ takes the first entries, not the last, and looks into the database before the tail.
        """
        prefixes = [fmt.prefix(asked.topic, kind, asked.key) for kind in _kinds(asked)]
        if asked.exact:
            yield from tail
            yield from self._newest_first(asked, prefixes)
            return
        found = self._first(asked, prefixes, asked.most + 1)
        yield from sorted(found[: asked.most])
        # One more shows that there are more.
        yield from found[asked.most :] or reversed([*tail])

    def has(self, record: Record) -> bool:
        """See `OpenIndex`."""
        with self._lock:
            return has_record(self._family(), record)

    def place(self, below: int) -> tuple[int, int]:  # noqa: ARG002 - an OpenIndex
        """See `OpenIndex`; there are no IndexFiles."""
        return 0, 0

    def mapped(self, most: int) -> MappedIndexFiles | None:  # noqa: ARG002 - an OpenIndex
        """See `OpenIndex`; no kernel searches in RocksDB."""
        return None

    def lacks(self) -> str:
        """See `OpenIndex`."""
        return ""

    def _newest_first(self, asked: IndexQuestion, prefixes: Sequence[bytes]) -> Iterator[int]:
        """Yield the log offsets of the entries with one of these prefixes, the newest hour first."""
        low, bound = fmt.hour_bytes(fmt.hour_of(max(0, asked.begin_ms))), _end_of(asked.end_ms)
        while True:
            with self._lock:
                bound = self._last_hour(low, bound)
            if not bound:
                return
            yield from self._newest_of(bound, prefixes, asked)

    def _first(self, asked: IndexQuestion, prefixes: Sequence[bytes], most: int) -> list[int]:
        """Return the log offsets of the first `most` entries, as RocketMQ goes through them.

        They are those of the earliest hours, with the first of these prefixes that has any.
        """
        for prefix in prefixes:
            found: list[int] = []
            low, end = fmt.hour_bytes(fmt.hour_of(max(0, asked.begin_ms))), _end_of(asked.end_ms)
            with self._lock:
                while len(found) < most and (hour := self._first_hour(low, end)):
                    found += islice(self._matches(hour, prefix, asked, asked.below), most - len(found))
                    low = hour + b"\xff"
            if found:
                return found
        return []

    def _family(self) -> Family:
        if self._has_grown and self._reader is not None:
            (family,) = self._reader.families.values()
            self._reader.refresh(lambda: read_marks(family) != self._marks)
        self._has_grown = False
        if self._reader is None:
            self._reader = open_index_database(self.folder)
        family = self._reader.families[fmt.FAMILY]
        self._marks = read_marks(family)
        return family

    def _last_hour(self, low: bytes, bound: bytes) -> bytes:
        """Return the last hour below a bound, as the first bytes of its keys; empty without one."""
        for key, _ in self._family().walk_back(low, bound):
            return key[: fmt.HOUR.size]
        return b""

    def _first_hour(self, low: bytes, end: bytes) -> bytes:
        for key, _ in self._family().walk(low, end):
            return key[: fmt.HOUR.size]
        return b""

    def _newest_of(self, hour: bytes, prefixes: Sequence[bytes], asked: IndexQuestion) -> Iterator[int]:
        """Yield the entries of one hour, newest first; a bounded number of them is in memory."""
        below = asked.below
        while True:
            with self._lock:
                every = chain.from_iterable(self._matches(hour, prefix, asked, below) for prefix in prefixes)
                offsets = heapq.nlargest(_AT_ONCE, every)
            yield from offsets
            if len(offsets) < _AT_ONCE:
                return
            below = offsets[-1]

    def _matches(self, hour: bytes, prefix: bytes, asked: IndexQuestion, below: int) -> Iterator[int]:
        """Yield the log offsets of the entries of one hour with a prefix; others than entries are skipped."""
        if len(hour) < fmt.HOUR.size:
            return
        for key, value in self._family().walk(*fmt.prefix_bounds(fmt.HOUR.unpack(hour)[0], prefix)):
            if len(value) != fmt.VALUE_SIZE or len(key) < fmt.ENTRY_KEY_EXTRA:
                continue
            offset, time = fmt.offset_of(key), fmt.decode_value(value)
            if 0 <= offset < below and asked.begin_ms <= time <= asked.end_ms:
                yield offset


def _kinds(asked: IndexQuestion) -> Sequence[bytes]:
    return (fmt.TAG,) if asked.by_tag else (fmt.KEY, fmt.UNIQUE)


def _end_of(end_ms: int) -> bytes:
    """Return the end of the keys of the hours up to a time; the marks come after all real hours."""
    after = fmt.hour_of(max(0, end_ms)) + fmt.HOUR_MS
    return min(fmt.hour_bytes(min(after, INT64_MAX)), fmt.LAST_OFFSET)
