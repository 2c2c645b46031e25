"""RocksDB as its one owner writes it, and tables and copies for it. `reput.files.database` reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import rocksdict

from reput.files import forks, fs, links
from reput.files.closing import Closing
from reput.files.database import (
    CACHE_BYTES,
    REBUILD_QUEUES,
    SETTINGS_FILE,
    Family,
    began,
    errors_named,
    families_of,
    options_of,
    refuse_in_fork,
)
from reput.files.names import is_database, refuse_other_types
from reput.formats.queue.rocksdb_consume_queue import is_database_file

_NOT_COPIED = ("LOCK", "LOG")


class DatabaseOwner(Closing):
    """The owner of a database, which writes it; a missing database is created.

    Written data is in the database's own log (WAL) when the call returns, and so survives this process. After `sync` it
    survives a crash of the system.

    Args:
        logs: Folder for RocksDB's text logs.
        remedy: What helps if it is damaged, the last sentence of such an error.

    Raises:
        StoreLockedError: Another owner has it open for writing.
        ForkedStoreError: A parent process has opened a RocksDB.
        AccessError: A file of the database is a link.
    """

    def __init__(
        self, folder: Path, families: Sequence[str], logs: Path, owner: fs.Owner, *, remedy: str = REBUILD_QUEUES
    ) -> None:
        refuse_in_fork(folder)
        began(self)
        self.folder = folder
        self._remedy = remedy
        self._owner = owner
        fs.make_dirs(folder, owner)
        refuse_other_types(folder, remedy)
        # RocksDB opens its files by itself, and follows links.
        links.refuse_links(*(folder / entry.name for entry in fs.list_dir(folder) if entry.is_link))
        fs.make_dirs(logs, owner)
        cache = rocksdict.Cache(CACHE_BYTES)
        options = options_of(cache, create=True)
        options.set_db_log_dir(str(logs))
        options.set_keep_log_file_num(2)
        names = list(families)
        with errors_named(folder, "open", remedy):
            if fs.exists(folder / "CURRENT"):
                # A writer must open all families.
                names += [name for name in rocksdict.Rdict.list_cf(str(folder), options_of(cache)) if name not in names]
            self._handle = rocksdict.Rdict(str(folder), options, families_of(names, cache))
        self._logs = logs
        # At once: if root is killed, the store's owner must be able to continue.
        self._give_names()
        self.families = {name: Family(folder, self._handle.get_column_family(name), remedy) for name in names}
        self._handles = {name: self._handle.get_column_family_handle(name) for name in names}

    def batch(self) -> Batch:
        """Return a batch of changes that become visible together."""
        return Batch(self._handles)

    def write(self, batch: Batch) -> None:
        """Apply a batch."""
        with errors_named(self.folder, "write", self._remedy):
            self._handle.write(batch.changes)

    def ingest(self, family: str, tables: Sequence[str]) -> None:
        """Add tables (`reput.files.rocksdb_table`) whose keys are in no other of them; they are moved, not copied."""
        if not tables:
            return
        options = rocksdict.IngestExternalFileOptions()
        options.set_move_files(True)
        with errors_named(self.folder, "take in tables", self._remedy):
            self.families[family].handle.ingest_external_file(list(tables), options)
        self._give_names()

    def compact(self, family: str) -> None:
        """Free the space of deleted entries."""
        with errors_named(self.folder, "compact", self._remedy):
            self.families[family].handle.compact_range(None, None)
        self._give_names()

    def count(self) -> int:
        """Return the number of entries in the tables of all families, as the tables say it."""
        with errors_named(self.folder, "read", self._remedy):
            return sum(int(table["num_entries"]) for table in self._handle.live_files())

    def flush(self) -> None:
        """Write all that is in memory into tables."""
        with errors_named(self.folder, "flush", self._remedy):
            for family in self.families.values():
                family.handle.flush()
        self._give_names()

    def sync(self) -> None:
        """Make all that was written durable."""
        with errors_named(self.folder, "sync", self._remedy):
            self._handle.flush_wal(True)

    def close(self) -> None:
        """Flush and close, so that the next owner has nothing to recover."""
        try:
            self.flush()
        finally:
            for family in self.families.values():
                family.handle.close()
            # A batch that a caller still holds must not keep the database open.
            self._handles.clear()
            self._handle.close()
            forks.released(self)
            fs.remove_file(self.folder / SETTINGS_FILE)
            for entry in fs.list_dir(self.folder):
                if entry.is_file:
                    fs.give_to(self.folder / entry.name, self._owner)
            fs.give_tree(self._logs, self._owner)

    def _give_names(self) -> None:
        """Give the files that RocksDB has created so far to the store's owner."""
        # The folder may also hold folders of queue files, which are not RocksDB's.
        fs.give_tree(self.folder, self._owner, deep=False)
        fs.give_tree(self._logs, self._owner)


class Batch:
    """Changes to several families, applied at once."""

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


def write_table(path: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Write keys and values, which ascend, into a table that a database can take in (`DatabaseOwner.ingest`)."""
    with errors_named(path, "write a table"):
        writer = rocksdict.SstFileWriter(options_of(rocksdict.Cache(0)))
        writer.open(path)
        for key, value in rows:
            writer[key] = value
        writer.finish()


def copy_database(source: Path, target: Path, owner: fs.Owner) -> None:
    """Make a copy of a database, which nobody has open; a folder without one gives an empty folder.

    Tables, which never change, are shared, the rest is copied.
    """
    fs.make_dirs(target, owner)
    for entry in fs.list_dir(source) if is_database(source) else ():
        if not entry.is_file or not is_database_file(entry.name) or entry.name in _NOT_COPIED:
            continue
        if entry.name.endswith(".sst"):
            fs.link(source / entry.name, target / entry.name)
        else:
            fs.copy_file(source / entry.name, target / entry.name, owner)
