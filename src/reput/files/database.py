"""RocksDB as a store of bytes: one owner that writes, readers that follow it.

A reader never touches the store's folder: it opens a folder of links of its own, as RocksDB's secondary instance, and
is first opened strictly once, since a secondary passes over missing tables. Iterators of rocksdict end silently where a
block is damaged, so whoever walks asks for the status at the end (`Family.walk`), or knows how many keys must come.

Everything uses table format 5: RocketMQ's RocksDB (8.4) takes format 6 for damage.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import rocksdict

from reput.errors import (
    AccessError,
    ClosedError,
    DamagedStoreError,
    ForkedStoreError,
    NoSpaceError,
    ReputError,
    StoreLockedError,
)
from reput.files import forks, fs
from reput.files.scratch import ScratchFolder
from reput.formats import rocksdb_table

_CACHE_BYTES = 64 << 20
_MEMTABLE_BYTES = 64 << 20
_TRIES = 20
_SHADOW_PREFIX = "reput-rocksdb-"
_SETTINGS_FILE = "rocksdict-config.json"
_OWN_LOGS = ("LOG", "LOG.old")
_started_in: list[int] = []
"""The process in which RocksDB began, which may be a parent of this one."""


@contextlib.contextmanager
def errors_named(place: Path | str, doing: str) -> Iterator[None]:
    """Turn RocksDB's errors of the block into ours.

    Raises:
        StoreLockedError: another process, or this one, has the database open for writing.
        DamagedStoreError: its files are not what they should be.
        NoSpaceError, AccessError: the system refuses something.
    """
    try:
        yield
    except ReputError:
        raise
    except rocksdict.DbClosedError as error:
        raise ClosedError(f"{place}: this database has been closed") from error
    except Exception as error:
        # rocksdict has no classes of its own; a TypeError and its like would be a fault of ours.
        if type(error) is not Exception:
            raise
        told = " ".join(str(error).split()).rstrip(". ")
        raise _translated(f"{place}: cannot {doing}: {told}", told) from error


def _translated(text: str, told: str) -> ReputError:
    lower = told.lower()
    if "lock" in lower and ("hold" in lower or "lock file" in lower):
        return StoreLockedError(f"{text}. A broker or another reput process has it open: stop it, or wait for it")
    if "no space" in lower:
        return NoSpaceError(text)
    if "permission denied" in lower or "read-only file system" in lower:
        return AccessError(text)
    if "column family not found" in lower:
        text += ". This is no RocksDB of RocketMQ's queues, or one of another version"
    return DamagedStoreError(f"{text}. `reput rebuild --only queue` builds it anew from the log")


def refuse_in_fork(folder: Path) -> None:
    """Refuse to write a database where RocksDB began in a parent process: it would wait for the parent's threads.

    To read works: a reader needs none of them.

    Raises:
        ForkedStoreError: it did.
    """
    if _started_in not in ([], [os.getpid()]):
        raise ForkedStoreError(
            f"{folder}: process {_started_in[0]} opened a RocksDB before it forked this one, {os.getpid()}. RocksDB "
            "writes with threads, which a forked process does not get. Fork before you open one, or start processes "
            'with "spawn" instead of "fork" (multiprocessing.get_context("spawn"))'
        )


def _began(user: object) -> None:
    """Note who has opened a database. A forked child never closes its copy: that would wait for threads, or write."""
    if not _started_in:
        _started_in.append(os.getpid())
    forks.in_child(user, forks.keep_for_ever)


class Family:
    """One column family of an open database."""

    # 32 warm keys in a row: 10 us by `some`, 26 us by a multi-get, 76 us by `get`. Scattered ones: 152, 55 and 119 us,
    # but nobody asks for such together. So entries are read by range, single ones by `get`.

    def __init__(self, place: Path, handle: Any) -> None:
        self.place = place
        self.handle = handle

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None without one."""
        with errors_named(self.place, "read"):
            value: bytes | None = self.handle.get(key)
            return value

    def some(self, begin: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """At most `count` keys from `begin` on, with their values; fewer at the end, and where a block is damaged."""
        with errors_named(self.place, "read"):
            return list(islice(self.handle.items(from_key=begin), count))

    def walk(self, begin: bytes | None = None, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """All keys in [begin, end) with their values.

        Raises:
            DamagedStoreError: a block is damaged.
        """
        with errors_named(self.place, "read"):
            walker = self.handle.iter()
            if begin is None:
                walker.seek_to_first()
            else:
                walker.seek(begin)
        while walker.valid():
            key = walker.key()
            if end is not None and key >= end:
                return
            yield key, walker.value()
            walker.next()
        with errors_named(self.place, "read"):
            walker.status()

    def walk_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The same keys, the last one first.

        Raises:
            DamagedStoreError: a block is damaged.
        """
        with errors_named(self.place, "read"):
            walker = self.handle.iter()
            walker.seek_for_prev(end)
        while walker.valid():
            key = walker.key()
            if key < begin:
                return
            if key < end:
                yield key, walker.value()
            walker.prev()
        with errors_named(self.place, "read"):
            walker.status()


class DatabaseReader:
    """A database that somebody else may be writing: what had been written at the last `refresh`.

    Raises:
        DamagedStoreError: files are missing or damaged, or there are other column families.
    """

    def __init__(self, folder: Path, families: Sequence[str]) -> None:
        self.folder = folder
        _began(self)
        self._shadow = ScratchFolder(_SHADOW_PREFIX)
        self._links = self._shadow.path / "db"
        fs.make_dirs(self._links)
        try:
            self._handle = self._open(families)
        except BaseException:
            self._shadow.remove()
            raise
        self.families = {name: Family(folder, self._handle.get_column_family(name)) for name in families}

    def _open(self, families: Sequence[str]) -> Any:
        for attempt in range(_TRIES):
            shown = self._link()
            try:
                handle = self._opened(families)
            except DamagedStoreError:
                # Beside a writer files come and go: look again before it is called damage.
                if attempt == _TRIES - 1:
                    raise
                continue
            if self._present() == shown:
                return handle
            # A table that came while we opened may have been passed over.
            handle.close()
        raise self._too_busy()

    def _opened(self, families: Sequence[str]) -> Any:
        with errors_named(self.folder, "open"):
            # A cache of its own: RocksDB tells blocks by the name their table was born with, and a copy of a
            # database would be answered from what its original holds.
            cache = rocksdict.Cache(_CACHE_BYTES)
            strict = rocksdict.AccessType.read_only(error_if_log_file_exist=False)
            rocksdict.Rdict(str(self._links), _options(cache), _families(families, cache), strict).close()
            follow = rocksdict.AccessType.secondary(str(self._shadow.path / "own"))
            return rocksdict.Rdict(str(self._links), _options(cache), _families(families, cache), follow)

    def _present(self) -> set[str]:
        names = {entry.name for entry in fs.list_dir(self.folder) if not entry.is_dir}
        return names - {_SETTINGS_FILE, *_OWN_LOGS}

    def _link(self) -> set[str]:
        """Let our folder show the files that the database has now; returns their names."""
        present = self._present()
        shown = {entry.name for entry in fs.list_dir(self._links)} - {_SETTINGS_FILE, *_OWN_LOGS}
        for name in sorted(shown - present):
            fs.remove_file(self._links / name)
        for name in sorted(present - shown):
            fs.symlink(self.folder.absolute() / name, self._links / name)
        return present

    def _too_busy(self) -> ReputError:
        return ReputError(f"{self.folder}: its files change faster than they can be read. Try again")

    def refresh(self) -> None:
        """See what has been written meanwhile.

        Raises:
            DamagedStoreError: files are missing or damaged.
        """
        shown = self._link()
        with contextlib.suppress(DamagedStoreError), errors_named(self.folder, "follow"):
            self._handle.try_catch_up_with_primary()
            if self._present() == shown:
                return
        # A file came or went meanwhile. A secondary passes over what it misses, and does not look for it again.
        for family in self.families.values():
            family.handle.close()
        self._handle.close()
        self._handle = self._open(list(self.families))
        for name, family in self.families.items():
            family.handle = self._handle.get_column_family(name)

    def close(self) -> None:
        """Let go of the files."""
        for family in self.families.values():
            family.handle.close()
        self._handle.close()
        self._shadow.remove()
        forks.released(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DatabaseOwner:
    """The one that writes a database; made where there is none.

    What is written is in the database's own log (WAL) when the call returns, and so survives this process; `sync` lets
    it survive the system.

    Args:
        logs: folder for RocksDB's text logs.

    Raises:
        StoreLockedError: somebody else has it open for writing.
        ForkedStoreError: a parent process has opened a RocksDB.
    """

    def __init__(self, folder: Path, families: Sequence[str], logs: Path, owner: fs.Owner) -> None:
        refuse_in_fork(folder)
        _began(self)
        self.folder = folder
        self._owner = owner
        fs.make_dirs(folder, owner)
        fs.make_dirs(logs, owner)
        cache = rocksdict.Cache(_CACHE_BYTES)
        options = _options(cache, create=True)
        options.set_db_log_dir(str(logs))
        options.set_keep_log_file_num(2)
        names = list(families)
        with errors_named(folder, "open"):
            if fs.exists(folder / "CURRENT"):
                # Whoever writes must open every family there is.
                names += [name for name in rocksdict.Rdict.list_cf(str(folder), _options(cache)) if name not in names]
            self._handle = rocksdict.Rdict(str(folder), options, _families(names, cache))
        self._logs = logs
        # At once: after a kill of root the owner must be able to go on.
        self._give_names()
        self.families = {name: Family(folder, self._handle.get_column_family(name)) for name in names}
        self._handles = {name: self._handle.get_column_family_handle(name) for name in names}

    def batch(self) -> Batch:
        """Changes that become visible together."""
        return Batch(self._handles)

    def write(self, batch: Batch) -> None:
        """Carry out a batch."""
        with errors_named(self.folder, "write"):
            self._handle.write(batch.changes)

    def ingest(self, family: str, tables: Sequence[str]) -> None:
        """Take in tables (`reput.files.rocksdb_table`) whose keys are in no other; they are moved, not copied."""
        if not tables:
            return
        options = rocksdict.IngestExternalFileOptions()
        options.set_move_files(True)
        with errors_named(self.folder, "take in tables"):
            self.families[family].handle.ingest_external_file(list(tables), options)
        self._give_names()

    def compact(self, family: str) -> None:
        """Let go of what has been deleted."""
        with errors_named(self.folder, "compact"):
            self.families[family].handle.compact_range(None, None)
        self._give_names()

    def flush(self) -> None:
        """Write all that is in memory into tables."""
        with errors_named(self.folder, "flush"):
            for family in self.families.values():
                family.handle.flush()
        self._give_names()

    def sync(self) -> None:
        """Make what was written durable."""
        with errors_named(self.folder, "sync"):
            self._handle.flush_wal(True)

    def close(self) -> None:
        """Flush, so that nothing is left for the next one to recover, and let go."""
        try:
            self.flush()
        finally:
            for family in self.families.values():
                family.handle.close()
            # Whoever still holds a batch must not keep the database open by it.
            self._handles.clear()
            self._handle.close()
            forks.released(self)
            fs.remove_file(self.folder / _SETTINGS_FILE)
            for entry in fs.list_dir(self.folder):
                if not entry.is_dir:
                    fs.give_to(self.folder / entry.name, self._owner)
            fs.give_tree(self._logs, self._owner)

    def _give_names(self) -> None:
        """Give what RocksDB has made so far to the store's owner."""
        # Folders of queue files may lie beside, which are not RocksDB's.
        fs.give_tree(self.folder, self._owner, deep=False)
        fs.give_tree(self._logs, self._owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Batch:
    """Changes to several families, made at once."""

    def __init__(self, handles: dict[str, Any]) -> None:
        self.changes: Any = rocksdict.WriteBatch(raw_mode=True)
        self._handles = handles

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """Set a value."""
        self.changes.put(key, value, self._handles[family])

    def put_all(self, family: str, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        """Set many values."""
        put, handle = self.changes.put, self._handles[family]
        for key, value in zip(keys, values, strict=True):
            put(key, value, handle)

    def delete(self, family: str, key: bytes) -> None:
        """Remove a key."""
        self.changes.delete(key, self._handles[family])

    def delete_range(self, family: str, begin: bytes, end: bytes) -> None:
        """Remove all keys in [begin, end)."""
        self.changes.delete_range(begin, end, self._handles[family])

    def __len__(self) -> int:
        return len(self.changes)


def _families(names: Sequence[str], cache: Any) -> dict[str, Any]:
    return {name: _options(cache) for name in names}


def _options(cache: Any, create: bool = False) -> Any:
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(rocksdb_table.FORMAT_VERSION)
    table.set_block_size(rocksdb_table.BLOCK_SIZE)
    table.set_block_cache(cache)
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_max_open_files(-1)
    options.set_atomic_flush(True)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    return options
