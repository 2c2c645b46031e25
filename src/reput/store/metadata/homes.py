"""The homes of a store's metadata: where a broker that starts next reads what is written now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reput.errors import ConfigError
from reput.formats.config import metadata_v1
from reput.formats.config.data_version import DataVersion
from reput.store.metadata.configurations import Configurations
from reput.store.metadata.database_homes import OpenDatabases, V1Home, V2Home
from reput.store.metadata.home import HomeContent, TableHome, Values
from reput.store.metadata.json_homes import ConfigurationsFile, JsonHome, OffsetsFile
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.tables import Table
from reput.store.metadata.v1 import V1Databases
from reput.store.metadata.v2 import V2Database


class NoHome(TableHome):
    """A table in a place that a broker with these settings does not read, or may not read: it is not changed there."""

    def __init__(self, metadata: Metadata, table: Table) -> None:
        self._metadata = metadata
        self._table = table

    @property
    def place(self) -> Path:
        """The place in which the table is."""
        return self._metadata.place(self._table)

    def load(self) -> HomeContent:
        """Return what is there."""
        return _as_read(self._metadata, self._table)

    def write(self, values: Values, version: DataVersion) -> DataVersion:  # noqa: ARG002
        """Refuse.

        Raises:
            ConfigError: always.
        """
        metadata, what = self._metadata, self._table.value
        newer = metadata.contradicting
        if newer is not None:
            raise ConfigError(
                f"{metadata.place(self._table)}: {what} count here as the queues are in files, and "
                f"{newer.place(self._table)} ({newer.words}) was written later, so a broker may read that alone. "
                "Nothing was changed. Give the settings of the broker that has this store: --config broker.conf, or "
                f"--set {metadata_v1.store_type_with(True)} or --set {metadata_v1.store_type_with(False)}"
            )
        raise ConfigError(
            f"{metadata.place(self._table)}: {what} are here, and a broker with {metadata.deciding} looks in "
            f"{metadata.wanted(self._table)}, which is not there, and takes in none of these. Nothing was changed. "
            f"To change them here, give the settings of the broker that wrote them ({metadata.chosen.settings}), or "
            "start a broker with the new settings once"
        )


class MetadataHomes:
    """The homes of the tables of one store. They share the databases that are open to write.

    Args:
        metadata: the store's metadata.
        logs: the folder for RocksDB's text logs.
        clock_ms: returns the time, in milliseconds since 1970.
    """

    def __init__(self, metadata: Metadata, logs: Path, clock_ms: Callable[[], int]) -> None:
        self.metadata = metadata
        self.clock_ms = clock_ms
        self._databases = OpenDatabases(logs)

    def home(self, table: Table) -> TableHome:
        """Return the home of a table.

        A broker that makes a database of version 1 takes JSON in, so a new table is written as JSON there. It takes in
        the database of one table only if that has a version, so such a table goes to the new database at once.
        """
        metadata = self.metadata
        expected, source = metadata.expected, metadata.source(table)
        is_there, is_anywhere = expected.is_present(table), source.is_present(table)
        if expected is metadata.json:
            is_decided = metadata.config.store_type is not None or (
                source is metadata.json and metadata.contradicting is None
            )
            return self._json(table, metadata.wanted(table)) if is_decided else NoHome(metadata, table)
        if isinstance(expected, V2Database):
            may_write = is_there or not is_anywhere
            return (
                V2Home(metadata, expected, table, self._databases, self.clock_ms)
                if may_write
                else NoHome(metadata, table)
            )
        assert isinstance(expected, V1Databases)
        if is_there or (isinstance(source, V1Databases) and metadata.may_be_taken_in(table)):
            return V1Home(metadata, expected, table, self._databases, self.clock_ms)
        if source is metadata.json or not is_anywhere:
            # With the version 0 a broker would not take it in.
            return self._json(table, metadata.json_at_start.target(table), least_counter=1)
        return NoHome(metadata, table)

    def configurations(self, table: Table) -> Configurations:
        """Return topics or groups, to be changed; the caller persists them.

        Raises:
            DamagedStoreError: their file or database is damaged; a file, and its .bak is missing or damaged as well.
        """
        return Configurations.load(self.home(table), self.clock_ms)

    def close(self) -> None:
        """Close the databases; what is not written is lost."""
        self._databases.close()

    def _json(self, table: Table, path: Path, least_counter: int = 0) -> JsonHome:
        metadata = self.metadata
        is_elsewhere = metadata.place(table) != path and metadata.source(table).is_present(table)
        elsewhere = _as_read(metadata, table) if is_elsewhere else None
        if table is Table.OFFSETS:
            return OffsetsFile(path, clock_ms=self.clock_ms, elsewhere=elsewhere, least_counter=least_counter)
        return ConfigurationsFile(path, table, clock_ms=self.clock_ms, elsewhere=elsewhere, least_counter=least_counter)


def _as_read(metadata: Metadata, table: Table) -> HomeContent:
    content = metadata.read(table)
    return HomeContent(content.values, content.version, False, list(content.notes), content.damage)
