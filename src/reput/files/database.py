"""RocksDB as a store of bytes: readers follow the one owner that writes (`reput.files.database_owner`).

A reader never writes to the store's folder: it opens a folder of its own with links, as RocksDB's secondary instance.
It is first opened strictly, since a secondary ignores missing tables. Iterators of rocksdict end silently at a damaged
block, so a caller checks the status at the end (`Family.walk`), or knows how many keys must come.

All tables have format 5: RocketMQ's RocksDB (8.4) takes format 6 for damage.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import rocksdict

from reput.errors import (
    AccessError,
    ClosedError,
    DamagedStoreError,
    ForkedStoreError,
    NewerDatabaseError,
    NoSpaceError,
    ReputError,
    StoreLockedError,
)
from reput.files import forks, fs
from reput.files.closing import Closing
from reput.files.names import refuse_other_types
from reput.files.scratch import ScratchFolder
from reput.formats.database import rocksdb_table
from reput.formats.database.rocksdb_manifest import (
    BLOCK_SIZE,
    ends_within_a_change,
    manifest_name,
    never_had_a_table,
    tail_offset,
)

CACHE_BYTES = 64 << 20
"""The cache of blocks of an open database."""
_MEMTABLE_BYTES = 64 << 20
_TRIES = 20
_SHADOW_PREFIX = "reput-rocksdb-"
_LINKS = re.compile(rf"\S*/{_SHADOW_PREFIX}[^/\s]+/db/")
"""The path of a reader's folder of links in RocksDB's errors, which name files of the database."""
_REPEATED = re.compile(r"^(Corruption: )+| The file \S.* may be corrupted$")
"""RocksDB's prefix for every error while it reads a MANIFEST, which need not be at fault, and its suffix."""
_NAME_MOST = 100
_TABLE = re.compile(r" in (/.*\.sst)")
SETTINGS_FILE = "rocksdict-config.json"
"""A file that rocksdict writes beside RocksDB's."""
_OWN_LOGS = ("LOG", "LOG.old")
_started_in: list[int] = []
"""The process that first opened a RocksDB; it may be a parent of this one."""


REBUILD_QUEUES = "`reput rebuild --only queue` builds it anew from the log"
"""The remedy for a damaged database of queues."""
_IN_PART = (
    "Files of this database are missing, as in a copy that is not whole: copy the folder again, with all its files, "
    "while no program has it open"
)


@contextlib.contextmanager
def errors_named(place: Path | str, doing: str, remedy: str = REBUILD_QUEUES) -> Iterator[None]:
    """Turn RocksDB's errors of the block into ours; `remedy` is the last sentence of an error about damage.

    Raises:
        StoreLockedError: Another process, or this one, has the database open for writing.
        DamagedStoreError: Its files are damaged.
        NewerDatabaseError: A newer RocksDB wrote them.
        NoSpaceError, AccessError: The system refuses something.
    """
    try:
        yield
    except ReputError:
        raise
    except rocksdict.DbClosedError as error:
        raise ClosedError(f"{place}: this database has been closed") from error
    except Exception as error:
        # rocksdict raises a plain Exception. A subclass, such as TypeError, is a fault of ours.
        if type(error) is not Exception:
            raise
        reason = _LINKS.sub(lambda _: f"{place}/", " ".join(str(error).split()).rstrip(". "))
        raise _translated(f"{place}: cannot {doing}", reason, remedy) from error


def _in_part(doing: str, reason: str, remedy: str) -> DamagedStoreError:
    return DamagedStoreError(
        f"{doing}: {_REPEATED.sub('', reason)}", f"{_IN_PART}. If they are lost: {remedy[0].lower()}{remedy[1:]}"
    )


def _translated(doing: str, reason: str, remedy: str) -> ReputError:
    lower = reason.lower()
    if "no such file" in lower or "does not exist" in lower:
        return _in_part(doing, reason, remedy)
    if ("unsupported format_version" in lower or "unknown footer" in lower) and _is_of_newer_format(reason):
        return NewerDatabaseError(
            f"{doing}: {_REPEATED.sub('', reason)}. It is written by a newer RocksDB than reput reads: read it with a "
            "newer reput"
        )
    text = f"{doing}: {reason}"
    if "lock" in lower and ("hold" in lower or "lock file" in lower):
        return StoreLockedError(f"{text}. A broker or another reput process has it open: stop it, or wait for it")
    if "no space" in lower:
        return NoSpaceError(text)
    if "permission denied" in lower or "read-only file system" in lower:
        return AccessError(text)
    if "column family not found" in lower:
        text += ". This is not the database that RocketMQ keeps here, or one of another version"
    return DamagedStoreError(text, remedy)


def _is_of_newer_format(reason: str) -> bool:
    """Return True unless an error names a table whose footer shows that it is damaged."""
    named = _TABLE.search(reason)
    if named is None:
        return True
    size = fs.size_of(named[1])
    footer = fs.read_bytes(named[1], rocksdb_table.FOOTER_SIZE, max(0, size - rocksdb_table.FOOTER_SIZE)) or b""
    return len(footer) < rocksdb_table.FOOTER_SIZE or rocksdb_table.is_of_newer_format(footer)


def refuse_in_fork(folder: Path) -> None:
    """Refuse to write a database if a parent process opened a RocksDB: it would wait for the parent's threads.

    Reading works: a reader needs none of these threads.

    Raises:
        ForkedStoreError: A parent process opened a RocksDB.
    """
    if _started_in not in ([], [os.getpid()]):
        raise ForkedStoreError(
            f"{folder}: process {_started_in[0]} opened a RocksDB before it forked this one, {os.getpid()}. RocksDB "
            "writes with threads, which a forked process does not get. Fork before you open one, or start processes "
            'with "spawn" instead of "fork" (multiprocessing.get_context("spawn"))'
        )


def began(user: object) -> None:
    """Note the process that opened a database.

    A forked child never closes its copy. Closing it would wait for the parent's threads, or write.
    """
    if not _started_in:
        _started_in.append(os.getpid())
    forks.in_child(user, forks.keep_for_ever)


class Family:
    """One column family of an open database."""

    # 32 consecutive warm keys: 10 us by `some`, 26 us by a multi-get, 76 us by `get`. Scattered keys: 152, 55 and
    # 119 us, but no caller asks for these together. So entries are read by range, and single ones by `get`.

    def __init__(self, place: Path, handle: Any, remedy: str = REBUILD_QUEUES) -> None:
        self.place = place
        self.handle = handle
        self.remedy = remedy

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        with errors_named(self.place, "read", self.remedy):
            value: bytes | None = self.handle.get(key)
            return value

    def some(self, begin: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Return at most `count` keys from `begin` on, with their values; fewer at the end, and at a damaged block."""
        with errors_named(self.place, "read", self.remedy):
            return list(islice(self.handle.items(from_key=begin), count))

    def walk(self, begin: bytes | None = None, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys in [begin, end) with their values.

        Raises:
            DamagedStoreError: A block is damaged.
        """
        with errors_named(self.place, "read", self.remedy):
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
        with errors_named(self.place, "read", self.remedy):
            walker.status()

    def walk_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the same keys, the last one first.

        Raises:
            DamagedStoreError: A block is damaged.
        """
        with errors_named(self.place, "read", self.remedy):
            walker = self.handle.iter()
            walker.seek_for_prev(end)
        while walker.valid():
            key = walker.key()
            if key < begin:
                return
            if key < end:
                yield key, walker.value()
            walker.prev()
        with errors_named(self.place, "read", self.remedy):
            walker.status()


class DatabaseReader(Closing):
    """A database that another process may write, as it was at the last `refresh`.

    Args:
        folder: The database.
        families: Column families that it must have.
        optional: Families that it may have; `families` lacks those that it does not have.
        remedy: What helps if it is damaged, the last sentence of such an error.
        is_logged: Its writers put each change into the write-ahead log (WAL) before it is in a table.

    Raises:
        DamagedStoreError: Files are missing or damaged, or a family of `families` is missing.
        NewerDatabaseError: A newer RocksDB wrote it.
    """

    def __init__(
        self,
        folder: Path,
        families: Sequence[str],
        *,
        optional: Sequence[str] = (),
        remedy: str = REBUILD_QUEUES,
        is_logged: bool = False,
    ) -> None:
        self.folder = folder
        self._is_logged = is_logged
        self._optional = tuple(optional)
        self._remedy = remedy
        began(self)
        self._shadow = ScratchFolder(_SHADOW_PREFIX)
        self._links = self._shadow.path / "db"
        fs.make_dirs(self._links)
        try:
            self._handle, names = self._open(families)
        except BaseException:
            self._shadow.remove()
            raise
        self.families = {name: Family(folder, self._handle.get_column_family(name), remedy) for name in names}

    def _open(self, families: Sequence[str]) -> tuple[Any, list[str]]:
        refuse_other_types(self.folder, self._remedy)
        for attempt in range(_TRIES):
            shown = self._link()
            try:
                self._expect_a_log(shown)
                self._expect_whole_changes()
                self._expect_named_tables(shown)
                names = [*families, *self._found_optional()]
                handle = self._opened(names)
            except DamagedStoreError:
                # A concurrent writer adds and removes files: look again before reporting damage.
                if attempt == _TRIES - 1:
                    raise
                continue
            if self._present() == shown:
                return handle, names
            # The open may have missed a table that was added meanwhile.
            handle.close()
        raise self._too_busy()

    def _expect_a_log(self, names: set[str]) -> None:
        """Refuse a database without its write-ahead log (WAL), which RocksDB takes for whole.

        RocksDB makes a new log before it removes an old one, and leaves one when it closes (`DBImpl::Open`,
        `DBImpl::SwitchMemtable`).

        Raises:
            DamagedStoreError: There is no log.
        """
        if "CURRENT" in names and not any(name.endswith(".log") for name in names):
            raise _in_part(f"{self.folder}: cannot open", "there is no write-ahead log (*.log)", self._remedy)

    def _expect_whole_changes(self) -> None:
        """Refuse a database whose MANIFEST was cut: RocksDB takes it for an earlier state, without later tables.

        Raises:
            DamagedStoreError: The MANIFEST ends in the middle of a change.
        """
        name = manifest_name(fs.read_bytes(self.folder / "CURRENT", _NAME_MOST) or b"")
        path = self.folder / name
        if not name or not fs.exists(path):
            return
        tail = fs.read_bytes(path, BLOCK_SIZE, tail_offset(fs.size_of(path))) or b""
        if ends_within_a_change(tail):
            raise DamagedStoreError(
                f"{self.folder}: cannot open: {name} ends in the middle of a change, so what came after the changes "
                "before it is lost",
                self._remedy,
            )

    def _expect_named_tables(self, names: set[str]) -> None:
        """Refuse a database of tables whose MANIFEST, cut between two changes, names none: RocksDB takes it for empty.

        A writer that is killed while it writes its first table leaves the like, with the WAL of what is in the table.
        RocksDB removes that WAL when the MANIFEST names the table (`FlushJob::WriteLevel0Table`, then
        `DBImpl::PurgeObsoleteFiles`). A writer without a WAL leaves nothing else, so its database is not refused.

        Raises:
            DamagedStoreError: There are tables, the MANIFEST names none, and the WAL is empty.
        """
        tables = sorted(name for name in names if name.endswith(".sst"))
        manifest = manifest_name(fs.read_bytes(self.folder / "CURRENT", _NAME_MOST) or b"")
        if not self._is_logged or not tables or not manifest:
            return
        # One of more bytes names tables, or has changes for years of starts.
        content = fs.read_bytes(self.folder / manifest, BLOCK_SIZE) or b""
        logs = [self.folder / name for name in names if name.endswith(".log")]
        if never_had_a_table(content) and all(fs.exists(path) and not fs.size_of(path) for path in logs):
            raise DamagedStoreError(
                f"{self.folder}: cannot open: {manifest} names no table, the write-ahead log is empty, and there is "
                f"{tables[0]}: its last changes are lost",
                self._remedy,
            )

    def _found_optional(self) -> list[str]:
        if not self._optional:
            return []
        with errors_named(self.folder, "open", self._remedy):
            present = rocksdict.Rdict.list_cf(str(self._links), rocksdict.Options(raw_mode=True))
        return [name for name in self._optional if name in present]

    def _opened(self, families: Sequence[str]) -> Any:
        with errors_named(self.folder, "open", self._remedy):
            # A cache of its own: RocksDB identifies blocks by the original name of their table, so a copy of a
            # database would get answers from the blocks of its original.
            cache = rocksdict.Cache(CACHE_BYTES)
            strict = rocksdict.AccessType.read_only(error_if_log_file_exist=False)
            rocksdict.Rdict(str(self._links), options_of(cache), families_of(families, cache), strict).close()
            follow = rocksdict.AccessType.secondary(str(self._shadow.path / "own"))
            return rocksdict.Rdict(str(self._links), options_of(cache), families_of(families, cache), follow)

    def _present(self) -> set[str]:
        names = {entry.name for entry in fs.list_dir(self.folder) if entry.is_file}
        return names - {SETTINGS_FILE, *_OWN_LOGS}

    def _link(self) -> set[str]:
        """Link the files that the database has now into our folder; return their names."""
        present = self._present()
        shown = {entry.name for entry in fs.list_dir(self._links)} - {SETTINGS_FILE, *_OWN_LOGS}
        for name in sorted(shown - present):
            fs.remove_file(self._links / name)
        for name in sorted(present - shown):
            fs.symlink(self.folder.absolute() / name, self._links / name)
        return present

    def _too_busy(self) -> ReputError:
        return ReputError(f"{self.folder}: its files change faster than they can be read. Try again")

    def refresh(self, has_all: Callable[[], bool] | None = None) -> bool:
        """Make visible what was written meanwhile; return True if the database was opened again for that.

        A secondary may miss for good what the owner writes while it closes. So it is opened again unless `has_all`
        says that it shows what the caller knows to be written.

        Raises:
            DamagedStoreError: Files are missing or damaged.
        """
        shown = self._link()
        with contextlib.suppress(DamagedStoreError), errors_named(self.folder, "follow", self._remedy):
            self._handle.try_catch_up_with_primary()
            if self._present() == shown and (has_all is None or has_all()):
                return False
        # A file was added or removed meanwhile. A secondary ignores missing files, and does not look for them again.
        handle, _ = self._open([name for name in self.families if name not in self._optional])
        # Not earlier: if that fails, the one of before goes on.
        self._close_handles()
        self._handle = handle
        for name, family in self.families.items():
            family.handle = handle.get_column_family(name)
        return True

    def close(self) -> None:
        """Close the files."""
        self._close_handles()
        self._shadow.remove()
        forks.released(self)

    def _close_handles(self) -> None:
        for family in self.families.values():
            family.handle.close()
        self._handle.close()


def family_names(folder: Path, remedy: str = REBUILD_QUEUES) -> list[str]:
    """Return the names of the column families of a database; nothing is left in its folder.

    Raises:
        DamagedStoreError: They cannot be read.
    """
    with errors_named(folder, "list the column families", remedy):
        return list(rocksdict.Rdict.list_cf(str(folder), options_of(rocksdict.Cache(0))))


def families_of(names: Sequence[str], cache: Any) -> dict[str, Any]:
    """Return the options of each family, with a cache of blocks."""
    return {name: options_of(cache) for name in names}


def options_of(cache: Any, create: bool = False) -> Any:
    """Return the options of a database with a cache of blocks; `create` makes what is missing."""
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
