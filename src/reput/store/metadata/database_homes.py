"""Databases as homes of tables: each write changes what differs, as one batch, and is synced.

A database is opened at the first write and stays open until `OpenDatabases.close`, so a broker cannot open it
meanwhile.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.errors import UnsupportedStoreError
from reput.files import fs
from reput.formats.config import consumer_offset, data_version, metadata_v1, metadata_v2
from reput.formats.config.data_version import NO_VERSION, DataVersion
from reput.formats.config.metadata_v2 import CommittedKey, TableId
from reput.store.metadata.home import HomeContent, TableHome, Values
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.tables import MetadataSource, Table
from reput.store.metadata.v1 import REMEDY, V1Databases
from reput.store.metadata.v2 import TABLE_IDS

if TYPE_CHECKING:
    from reput.files.database_owner import Batch, DatabaseOwner


class OpenDatabases:
    """The databases of metadata that this process has open to write: each once, however many tables it has.

    Args:
        logs: the folder for RocksDB's text logs.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._open: dict[Path, DatabaseOwner] = {}

    def open(self, place: Path, families: Sequence[str]) -> DatabaseOwner:
        """Return a database, opened at the first call.

        Raises:
            StoreLockedError: another process has it open.
            ReputError: it cannot be opened.
        """
        from reput.files.database_owner import DatabaseOwner

        if place not in self._open:
            there = next(folder for folder in (place, *place.parents) if fs.exists(folder))
            self._open[place] = DatabaseOwner(place, families, self._logs, fs.owner_of(there), remedy=REMEDY)
        return self._open[place]

    def close(self) -> None:
        """Close all databases."""
        with contextlib.ExitStack() as closing:
            for owner in self._open.values():
                closing.callback(owner.close)
        self._open.clear()


class DatabaseHome(TableHome):
    """A table in a database.

    Args:
        metadata: the store's metadata, of which the table is loaded.
        source: the source that has the database.
        databases: opens it.
        clock_ms: returns the time, in milliseconds since 1970.
    """

    def __init__(
        self,
        metadata: Metadata,
        source: MetadataSource,
        table: Table,
        databases: OpenDatabases,
        clock_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._source = source
        self._table = table
        self._databases = databases
        self._clock_ms = clock_ms
        self._stored: dict[str, Any] = {}
        self._version = NO_VERSION
        self._newer = ""

    @property
    def place(self) -> Path:
        """The database."""
        return self._source.place(self._table)

    @property
    @abstractmethod
    def _families(self) -> Sequence[str]:
        """The families of the database."""

    def load(self) -> HomeContent:
        """Return the table as a broker that starts would have it."""
        counting = self._metadata.read(self._table)
        if self._source.is_present(self._table):
            held = self._source.read(self._table)
            self._stored = _copied(held.values)
            self._version = held.version or self._version
            self._newer = held.newer
        return HomeContent(counting.values, counting.version, False, list(counting.notes), counting.damage)

    def write(self, values: Values, version: DataVersion) -> DataVersion:
        """Write what differs from the database, and the data version.

        Raises:
            UnsupportedStoreError: The database has keys of a newer layout, which may say the same in another form.
            ReputError: See `TableHome`.
        """
        if self._newer:
            raise UnsupportedStoreError(
                f"{self._newer}: they may have {self._table.value} in another form. Nothing was changed. Change them "
                "with a newer reput, or ask the broker that wrote them (mqadmin)"
            )
        owner = self._databases.open(self.place, self._families)
        batch = owner.batch()
        version = self._fill(batch, values, version)
        owner.write(batch)
        owner.sync()
        self._stored = _copied(values)
        self._version = version
        return version

    @abstractmethod
    def _fill(self, batch: Batch, values: Values, version: DataVersion) -> DataVersion:
        """Put into the batch what differs; return the data version that it sets."""

    def _changed_keys(self, values: Values) -> list[str]:
        return [key for key in sorted({*values, *self._stored}) if values.get(key) != self._stored.get(key)]


class V1Home(DatabaseHome):
    """A table in a database of version 1: a name, or a topic and a group, is the key of one value."""

    _source: V1Databases

    @property
    def _families(self) -> Sequence[str]:
        return self._source.all_families

    def _fill(self, batch: Batch, values: Values, version: DataVersion) -> DataVersion:
        families = self._source.families(self._table)
        encode = metadata_v1.encode_offsets if self._table is Table.OFFSETS else metadata_v1.encode_configuration
        for key in self._changed_keys(values):
            if key in values:
                batch.put(families.data, key.encode(), encode(values[key]))
            else:
                batch.delete(families.data, key.encode())
        if version.counter > self._version.counter:
            # The broker that takes JSON in leaves the database with a version of its own.
            if version.counter == self._metadata.read(self._table).counter:
                version = version.next(self._clock_ms())
            batch.put(families.version, metadata_v1.VERSION_KEY, data_version.encode_version(version))
        return version


class V2Home(DatabaseHome):
    """A table in a database of version 2. Each change counts as one in the data version, and an offset is a record."""

    @property
    def _families(self) -> Sequence[str]:
        return [metadata_v2.FAMILY]

    def _fill(self, batch: Batch, values: Values, version: DataVersion) -> DataVersion:
        put = self._put_offsets if self._table is Table.OFFSETS else self._put_named
        changes = sum(put(batch, key, values.get(key)) for key in self._changed_keys(values))
        counter, state_version, _ = self._version
        version = DataVersion(counter + changes, state_version, self._clock_ms())
        key = metadata_v2.version_key(TABLE_IDS[self._table])
        batch.put(metadata_v2.FAMILY, key, metadata_v2.encode_version(version))
        return version

    def _put_named(self, batch: Batch, name: str, value: Any) -> int:
        key = metadata_v2.name_key(TABLE_IDS[self._table], name.encode())
        if value is None:
            batch.delete(metadata_v2.FAMILY, key)
        else:
            batch.put(metadata_v2.FAMILY, key, metadata_v2.encode_value(value))
        return 1

    def _put_offsets(self, batch: Batch, name: str, queues: Any) -> int:
        topic, _, group = name.partition(consumer_offset.SEPARATOR)
        stored = self._stored.get(name, {})
        if queues is None:
            begin, end = metadata_v2.topic_range(TableId.OFFSETS, group.encode(), topic.encode())
            batch.delete_range(metadata_v2.FAMILY, begin, end)
            return 1
        changed = [queue for queue in sorted({*queues, *stored}) if queues.get(queue) != stored.get(queue)]
        for queue in changed:
            key = metadata_v2.offset_key(TableId.OFFSETS, CommittedKey(group.encode(), topic.encode(), queue))
            if queue in queues:
                batch.put(metadata_v2.FAMILY, key, metadata_v2.encode_offset(queues[queue]))
            else:
                batch.delete(metadata_v2.FAMILY, key)
        return len(changed)


def _copied(values: Values) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
