"""The source of a broker's metadata that counts: JSON, or RocksDB of version 1 or 2.

The settings decide where they are given, as in a broker (`BrokerController`):

    configManagerVersion=v2                 config/rdb
    else storeType=defaultRocksDB           config/topics and others, or config/metadata (useSingleRocksDBForAllConfigs)
    else                                    JSON; with enableLmq offsets in lmqConsumerOffset.json

Without them the queues show the storeType: all in RocksDB, or not. Among the sources that fit that, or else all, the
one that was written last counts, by its files' times. Copies may have lost these: within a minute the later data
version counts, and with none a database.

A broker that starts on databases of version 1 takes JSON in if its data version counts more changes than the
database's (`merge` of the managers). With one database for all it then takes in those of a table each by the same rule
(`migrateFromSeparateRocksDBs`). A stopped store is read as such a start would leave it. Version 2 takes nothing in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import names as folder_names
from reput.formats import metadata_v1, paths
from reput.formats.consumer_offset import DataVersion
from reput.store.metadata.json_files import JsonFiles
from reput.store.metadata.tables import Content, MetadataSource, Table
from reput.store.metadata.v1 import V1Databases
from reput.store.metadata.v2 import V2Database

V2 = "v2"
_ALIKE_MS = 60_000


class Metadata:
    """The metadata of a store. Each table is read when it is first asked for, and only once.

    Args:
        root: the store's folder.
        config: the settings that may name a source.
    """

    def __init__(self, root: Path, config: StoreConfig | None = None) -> None:
        self.folder = root / paths.CONFIG
        self.config = config or StoreConfig()
        self._read: dict[Table, Content] = {}
        self.json = JsonFiles(self.folder, self.config.enable_lmq)
        self._all: tuple[MetadataSource, ...] = (
            V2Database(self.folder),
            V1Databases(self.folder, True),
            V1Databases(self.folder, False),
            self.json,
        )

    @cached_property
    def present(self) -> tuple[MetadataSource, ...]:
        """The sources that have something, those of the newest form first."""
        return tuple(source for source in self._all if any(source.is_present(table) for table in Table))

    @cached_property
    def chosen(self) -> MetadataSource:
        """The source that counts."""
        found = [source for source in self.present if self._fits(source)] or self.present or (self.json,)
        likely = [source for source in found if isinstance(source, V2Database) or source.is_database == self._likely]
        return _written_last(likely or found)

    @property
    def _likely(self) -> bool | None:
        """True if the queues show `storeType=defaultRocksDB`, None if they show nothing: asked if no setting is given.

        With double write the storeType is `default`.
        """
        if self.config.store_type is not None or len(self.present) < 2:
            return None
        queues = self.folder.parent / paths.CONSUME_QUEUE
        if next(folder_names.sub_folders(queues), None) is not None:
            return False
        return (
            True
            if any(folder_names.is_database(place) for place in (queues, queues.with_name(paths.CONSUME_QUEUE_ROCKSDB)))
            else None
        )

    @property
    def is_as_configured(self) -> bool:
        """True if the source that counts is one that the settings allow."""
        return not self.present or self._fits(self.chosen)

    def _fits(self, source: MetadataSource) -> bool:
        config = self.config
        version = config.config_manager_version
        if version is not None and (version == V2) != isinstance(source, V2Database):
            return False
        if isinstance(source, V2Database):
            return True
        if config.store_type is not None and metadata_v1.is_used_with(config.store_type) != source.is_database:
            return False
        single = config.use_single_rocksdb_for_all_configs
        return single is None or not isinstance(source, V1Databases) or source.is_single == single

    def read(self, table: Table) -> Content:
        """Return a table as a broker that starts would have it.

        Raises:
            DamagedStoreError: the source that counts is damaged.
        """
        if table not in self._read:
            self._read[table] = self._merged(table)
        return self._read[table]

    def readable(self, table: Table) -> Content:
        """Return the same, with a note in place of a damaged source."""
        try:
            return self.read(table)
        except DamagedStoreError as error:
            return Content(self.place(table), {}, None, (f"{error}. Until then {table.value} are unknown",))

    def source(self, table: Table) -> MetadataSource:
        """Return the source of a table: another one if the one that counts has nothing in the table's place."""
        if self.chosen.is_present(table):
            return self.chosen
        return next((source for source in self.present if source.is_present(table)), self.chosen)

    def place(self, table: Table) -> Path:
        """Return the file or database of a table."""
        return self.source(table).place(table)

    def _merged(self, table: Table) -> Content:
        source = self.source(table)
        content = source.read(table)
        if source.place(table) != self.wanted(table):
            return content._replace(notes=(*content.notes, self._elsewhere(table, content)))
        if isinstance(source, V1Databases):
            for newer in self._newer(source, table, content):
                # A broker replaces its offsets by those of JSON, and adds all others.
                replaces = table is Table.OFFSETS and newer.place == self.json.place(table)
                note = (
                    f"{newer.place}: its data version {newer.counter} is above that of {content.place} "
                    f"({content.counter}), so a broker takes it in at its start, and it counts here"
                )
                values = newer.values if replaces else {**content.values, **newer.values}
                content = Content(content.place, values, newer.version, (*content.notes, *newer.notes, note))
        return content

    def _newer(self, source: V1Databases, table: Table, content: Content) -> Iterator[Content]:
        """Yield what a broker takes in when it starts, in its order."""
        version = self.json.version_at_start(table) if self.json.is_present(table) else None
        counter = content.counter
        if version is not None and version.counter > counter:
            yield self.json.read(table)._replace(version=version)
            counter = version.counter
        separate = V1Databases(self.folder, False)
        if source.is_single and separate.is_present(table):
            other = separate.read(table)
            if other.counter > counter:
                yield other

    def wanted(self, table: Table) -> Path:
        """Return the place of a table in which a broker looks, by the settings, or else by the source that counts."""
        source = self.chosen if self.is_as_configured else [one for one in self._all if self._fits(one)][-1]
        return self.json.offsets_target if source is self.json and table is Table.OFFSETS else source.place(table)

    def takes_json_in(self, table: Table) -> bool:
        """Return True if a table is in JSON, and a broker with these settings makes a database that takes JSON in."""
        databases = [one.place(table) for one in self._all if isinstance(one, V1Databases)]
        return self.source(table) is self.json and self.wanted(table) in databases

    def _elsewhere(self, table: Table, content: Content) -> str:
        """Say what a broker with these settings does with a table that is not in the place that they name."""
        wanted, what = self.wanted(table), table.value
        text = f"{content.place}: {what} are read here, since there is no {wanted}"
        if not self.takes_json_in(table):
            return f"{text}. A broker takes nothing in there, and begins without them"
        counter = (self.json.version_at_start(table) or DataVersion(0, 0, 0)).counter
        if counter > 0:
            return f"{text}. A broker makes that at its start and takes these in (data version {counter})"
        lost = f"{text}. A broker makes that at its start, and does not take these in: their data version is 0"
        return f"{lost}. A change by `reput progress` with these settings raises it" if table is Table.OFFSETS else lost


def _written_last(found: Sequence[MetadataSource]) -> MetadataSource:
    """Return the source that was written last; see the module."""
    times = {source: max(source.written_ms(table) for table in Table) for source in found}
    latest = max(times.values())
    alike = [source for source in found if times[source] > latest - _ALIKE_MS]
    if len(alike) == 1:
        return alike[0]
    return max(alike, key=_version_ms)


def _version_ms(source: MetadataSource) -> int:
    """Return the latest time of a source's data versions; 0 if it has none, or cannot be read."""
    found = 0
    for table in Table:
        if source.is_present(table):
            try:
                version = source.read(table).version
            except DamagedStoreError:
                continue
            found = max(found, 0 if version is None else version.timestamp)
    return found
