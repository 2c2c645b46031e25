"""The kinds of index by key that a store has, those that are extended with its log, and the one that answers.

The settings decide where they are given. Else the store's files do: IndexFiles are extended if there are any, or if
there is no index at all, and the index database if it has ever indexed a message. IndexFiles answer if there are any: a
database that was turned on later may begin later.

Source: `DefaultMessageStore.queryMessage`, `CommitLogDispatcherBuildIndex.dispatch`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import DamagedStoreError, StoreLockedError
from reput.files import locks
from reput.formats.index_database import IndexMarks
from reput.formats.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.index.database import has_data, open_index_database, read_marks
from reput.store.disk.layout import StoreLayout


class IndexDatabaseOnDisk(NamedTuple):
    """The index database of a store: its marks (None: it indexes no message), or why it cannot be read."""

    marks: IndexMarks | None = None
    damage: str = ""

    @property
    def is_present(self) -> bool:
        """True if it indexes messages, or may do so."""
        return self.marks is not None or bool(self.damage)


class IndexKinds(NamedTuple):
    """The kinds of index of a store: IndexFiles and the database are extended or not; one of them answers queries."""

    builds_files: bool = True
    builds_database: bool = False
    reads_database: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds that are extended."""
        return (INDEX_FILES,) * self.builds_files + (INDEX_DATABASE,) * self.builds_database


def look_at_index_database(layout: StoreLayout) -> IndexDatabaseOnDisk:
    """Look at the index database; RocksDB is loaded only if there is one with data."""
    if not has_data(layout.index_database):
        return IndexDatabaseOnDisk()
    try:
        with open_index_database(layout.index_database) as reader:
            (family,) = reader.families.values()
            return IndexDatabaseOnDisk(read_marks(family))
    except DamagedStoreError as error:
        return IndexDatabaseOnDisk(damage=str(error))


def refuse_held_index_database(layout: StoreLayout) -> None:
    """Refuse to replace a database that a process has open.

    Raises:
        StoreLockedError: a process has it open to write.
    """
    if locks.is_database_held(layout.index_database):
        raise StoreLockedError(
            f"{layout.index_database}: another process has this database open. Stop the broker, or wait for it"
        )


def index_kinds(config: StoreConfig, has_files: bool, database: IndexDatabaseOnDisk) -> IndexKinds:
    """Decide which kinds of index of a store are extended, and which one answers."""
    on, writes_files, reads_files = (
        config.index_rocksdb_enable, config.index_file_write_enable, config.index_file_read_enable
    )  # fmt: skip
    reads_database = database.is_present and on is not False and not (has_files if reads_files is None else reads_files)
    if config.message_index_enable is False:
        return IndexKinds(builds_files=False, reads_database=reads_database)
    by_default = has_files or not database.is_present or on is not None
    return IndexKinds(
        by_default if writes_files is None else writes_files,
        database.marks is not None or (database.is_present and not has_files) if on is None else on,
        reads_database,
    )
