"""The kinds of index by key that a store has, those that are extended with its log, and the one that answers.

The settings decide where they are given. Else the store's files do: IndexFiles are extended if there are any, or if
there is no index at all, and the index database if it has ever indexed a message. IndexFiles answer if there are any: a
database that was turned on later may begin later.

Source: `DefaultMessageStore.queryMessage`, `CommitLogDispatcherBuildIndex.dispatch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import StoreLockedError
from reput.formats.index.index_kinds import DEFAULT_INDEXES, INDEX_DATABASE, INDEX_FILES
from reput.formats.own import files as own
from reput.index.database import DatabaseIndex
from reput.index.files import IndexFileOnDisk
from reput.index.kinds import AnyIndex
from reput.index.search import FileIndex
from reput.store.disk.layout import StoreLayout

NO_INDEX_KEPT = "no index by key is kept with these settings: indexFileWriteEnable=false, and there is none in RocksDB"


class IndexChoice(NamedTuple):
    """The kinds of index of a store, by name: those that are extended with the log, and the one that answers."""

    built: tuple[str, ...] = DEFAULT_INDEXES
    read: str = INDEX_FILES


def all_indexes(layout: StoreLayout, files: Sequence[IndexFileOnDisk] | None = None) -> dict[str, AnyIndex]:
    """Return every kind of index that reput knows, by name, present or not; `files`: its IndexFiles, if listed."""
    database = DatabaseIndex(layout.index_database, layout.own(own.ROCKSDB_LOGS))
    kinds: tuple[AnyIndex, ...] = (FileIndex(layout.index, files), database)
    return {kind.name: kind for kind in kinds}


def choose_indexes(config: StoreConfig, indexes: Mapping[str, AnyIndex]) -> IndexChoice:
    """Decide which kinds of index of a store are extended, and which one answers."""
    files, database = indexes[INDEX_FILES], indexes[INDEX_DATABASE]
    on, writes_files, reads_files = (
        config.index_rocksdb_enable, config.index_file_write_enable, config.index_file_read_enable
    )  # fmt: skip
    has_database = database.is_present
    prefers_files = files.is_present if reads_files is None else reads_files
    read = INDEX_DATABASE if has_database and on is not False and not prefers_files else INDEX_FILES
    if config.message_index_enable is False:
        return IndexChoice((), read)
    by_default = files.is_present or not has_database or on is not None
    has_indexed = database.marks is not None or (has_database and not files.is_present)
    wanted = {
        INDEX_FILES: by_default if writes_files is None else writes_files,
        INDEX_DATABASE: has_indexed if on is None else on,
    }
    return IndexChoice(tuple(name for name, is_wanted in wanted.items() if is_wanted), read)


def refuse_held_index(index: AnyIndex) -> None:
    """Refuse to replace an index that another process writes.

    Raises:
        StoreLockedError: a process has it open to write.
    """
    if index.is_held:
        raise StoreLockedError(
            f"{index.folder}: another process has this database open. Stop the broker, or wait for it"
        )
