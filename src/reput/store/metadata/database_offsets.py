"""Committed offsets in RocksDB: each write changes what differs, as one batch, and is synced.

The database is opened at the first write and stays open until `close`, so a broker cannot open it meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reput.files import fs
from reput.formats import consumer_offset, metadata_v1, metadata_v2
from reput.formats.consumer_offset import DataVersion
from reput.formats.metadata_v2 import CommittedKey, TableId
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.offsets_home import HomeOffsets, OffsetsHome, OffsetTable
from reput.store.metadata.tables import MetadataSource, Table
from reput.store.metadata.v1 import REMEDY, V1Databases, families_to_open

if TYPE_CHECKING:
    from reput.files.database import Batch, DatabaseOwner


class DatabaseOffsets(OffsetsHome):
    """Committed offsets in a database.

    Args:
        metadata: the store's metadata, of which the offsets are loaded.
        source: the source that has the database.
        families: the families that are written.
        logs: the folder for RocksDB's text logs.
        clock_ms: returns the time, in milliseconds since 1970.
    """

    def __init__(
        self,
        metadata: Metadata,
        source: MetadataSource,
        families: Sequence[str],
        logs: Path,
        clock_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._source = source
        self._families = families
        self._logs = logs
        self._clock_ms = clock_ms
        self._owner: DatabaseOwner | None = None
        self._stored: dict[str, dict[int, int]] = {}
        self._version = DataVersion(0, 0, 0)

    def load(self) -> HomeOffsets:
        """Return the offsets as a broker that starts would have them."""
        held, counting = self._source.read(Table.OFFSETS), self._metadata.read(Table.OFFSETS)
        self._stored = {key: dict(queues) for key, queues in held.values.items()}
        self._version = held.version or self._version
        return HomeOffsets(counting.values, counting.version, False, list(counting.notes))

    def write(self, table: OffsetTable, version: DataVersion) -> DataVersion:
        """Write what differs from the database, and the data version."""
        from reput.files.database import DatabaseOwner

        place = self._source.place(Table.OFFSETS)
        if self._owner is None:
            self._owner = DatabaseOwner(place, self._families, self._logs, fs.owner_of(place), remedy=REMEDY)
        batch = self._owner.batch()
        version = self._fill(batch, table, version)
        self._owner.write(batch)
        self._owner.sync()
        self._stored = {key: dict(queues) for key, queues in table.items()}
        self._version = version
        return version

    @abstractmethod
    def _fill(self, batch: Batch, table: OffsetTable, version: DataVersion) -> DataVersion:
        """Put into the batch what differs; return the data version that it sets."""

    def _changed_keys(self, table: OffsetTable) -> list[str]:
        return [key for key in sorted({*table, *self._stored}) if table.get(key) != self._stored.get(key)]

    def close(self) -> None:
        """Close the database."""
        if self._owner is not None:
            self._owner.close()
            self._owner = None


class V1Offsets(DatabaseOffsets):
    """Committed offsets in a database of version 1: all queues of a topic and a group are one value."""

    def __init__(self, metadata: Metadata, source: V1Databases, logs: Path, clock_ms: Callable[[], int]) -> None:
        names = source.families(Table.OFFSETS)
        super().__init__(metadata, source, [metadata_v1.DEFAULT_FAMILY, *families_to_open(names)], logs, clock_ms)
        self._names = names

    def _fill(self, batch: Batch, table: OffsetTable, version: DataVersion) -> DataVersion:
        for key in self._changed_keys(table):
            if key in table:
                batch.put(self._names.data, key.encode(), metadata_v1.encode_offsets(table[key]))
            else:
                batch.delete(self._names.data, key.encode())
        if version.counter > self._version.counter:
            # The broker that takes JSON in leaves the database with a version of its own.
            if version.counter == self._metadata.read(Table.OFFSETS).counter:
                version = DataVersion(version.counter + 1, version.state_version, self._clock_ms())
            batch.put(self._names.version, metadata_v1.VERSION_KEY, metadata_v1.encode_version(version))
        return version


class V2Offsets(DatabaseOffsets):
    """Committed offsets in a database of version 2: a record each, and each change counts as one in the version."""

    def __init__(self, metadata: Metadata, source: MetadataSource, logs: Path, clock_ms: Callable[[], int]) -> None:
        super().__init__(metadata, source, [metadata_v2.FAMILY], logs, clock_ms)

    def _fill(self, batch: Batch, table: OffsetTable, version: DataVersion) -> DataVersion:
        changes = 0
        for key in self._changed_keys(table):
            topic, _, group = key.partition(consumer_offset.SEPARATOR)
            queues, stored = table.get(key), self._stored.get(key, {})
            if queues is None:
                begin, end = metadata_v2.topic_range(TableId.OFFSETS, group.encode(), topic.encode())
                batch.delete_range(metadata_v2.FAMILY, begin, end)
                changes += 1
                continue
            for queue in sorted({*queues, *stored}):
                if queues.get(queue) != stored.get(queue):
                    _put(batch, CommittedKey(group.encode(), topic.encode(), queue), queues.get(queue))
                    changes += 1
        version = DataVersion(self._version.counter + changes, self._version.state_version, self._clock_ms())
        batch.put(metadata_v2.FAMILY, metadata_v2.version_key(TableId.OFFSETS), metadata_v2.encode_version(version))
        return version


def _put(batch: Batch, key: CommittedKey, offset: int | None) -> None:
    raw = metadata_v2.offset_key(TableId.OFFSETS, key)
    if offset is None:
        batch.delete(metadata_v2.FAMILY, raw)
    else:
        batch.put(metadata_v2.FAMILY, raw, metadata_v2.encode_offset(offset))
