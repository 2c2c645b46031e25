"""The source of a broker's metadata that counts: JSON, or RocksDB of version 1 or 2.

The settings decide where they are given, as in a broker (`BrokerController`):

    configManagerVersion=v2                 config/rdb
    else storeType=defaultRocksDB           config/topics and others, or config/metadata (useSingleRocksDBForAllConfigs)
    else                                    JSON; with enableLmq offsets in lmqConsumerOffset.json

Without a storeType the queues show it: all in RocksDB, or not. Without the other settings all that is there is
considered. Among the sources that are left, the one that was written last counts, by its files' times. Copies may have
lost these: within a minute the later data version counts, and with none a database.

A broker that starts on databases of version 1 takes JSON in if its data version counts more changes than the
database's (`merge` of the managers). With one database for all it then takes in those of a table each by the same rule
(`migrateFromSeparateRocksDBs`); one that is not there yet counts no changes. A stopped store is read as such a start
would leave it. Version 2 takes nothing in, JSON neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.config import metadata_v1
from reput.formats.config.data_version import NO_VERSION
from reput.formats.queue.queue_kinds import kind_of_store_type
from reput.store.metadata.json_files import JsonFiles
from reput.store.metadata.tables import Content, MetadataSource, Table
from reput.store.metadata.v1 import V1Databases
from reput.store.metadata.v2 import V2Database

V2 = "v2"
_ALIKE_MS = 60_000


class MetadataPart(NamedTuple):
    """The content of a source that counts."""

    source: MetadataSource
    content: Content


class Metadata:
    """The metadata of a store. Each table is read when it is first asked for, and only once.

    `StoreOnDisk.metadata` makes it.

    Args:
        root: the store's folder.
        config: the settings that may name a source.
        queue_kinds: returns the names of the kinds of queues that the store has.
    """

    def __init__(self, root: Path, config: StoreConfig, queue_kinds: Callable[[], Sequence[str]]) -> None:
        self.folder = root / paths.CONFIG
        self.config = config
        self._queue_kinds = queue_kinds
        self._parts: dict[Table, tuple[MetadataPart, ...]] = {}
        self._found_at_start: dict[Table, bool] = {}
        self._there: dict[tuple[MetadataSource, Table], bool] = {}
        self.json = JsonFiles(self.folder, config.enable_lmq)
        # The managers of databases read no other file of offsets.
        self.json_at_start = JsonFiles(self.folder, False)
        self._separate = V1Databases(self.folder, False)
        single = V1Databases(self.folder, True)
        self._all: tuple[MetadataSource, ...] = (V2Database(self.folder), single, self._separate, self.json)

    def _has(self, source: MetadataSource, table: Table) -> bool:
        """Return True if a source had a table when it was first asked: a store has few answers, and many ask."""
        key = source, table
        if key not in self._there:
            self._there[key] = source.is_present(table)
        return self._there[key]

    @cached_property
    def present(self) -> tuple[MetadataSource, ...]:
        """The sources that have something, those of the newest form first."""
        return tuple(source for source in self._all if any(self._has(source, table) for table in Table))

    @cached_property
    def expected(self) -> MetadataSource:
        """The source in which a broker looks: by the settings, and where they say nothing by what is there."""
        allowed = [source for source in self._all if self._is_allowed(source)]
        here = [source for source in allowed if source in self.present]
        if here:
            return _written_last(here)
        in_database = self._in_database
        if in_database is None:
            in_database = any(isinstance(source, V1Databases) for source in self.present)
        return [source for source in allowed if isinstance(source, V2Database) or source.is_database == in_database][-1]

    @cached_property
    def chosen(self) -> MetadataSource:
        """The source that is read: the expected one, or if that has nothing the one that was written last."""
        return self.expected if self.expected in self.present or not self.present else _written_last(self.present)

    @cached_property
    def contradicting(self) -> MetadataSource | None:
        """A database that was written after the JSON that counts by the kind of the queues alone; None for none.

        Queues that were built in another kind than the broker has show the wrong place.
        """
        if self.config.store_type is not None or self.chosen is not self.json:
            return None
        last = _written_last(self.present or (self.json,))
        return last if isinstance(last, V1Databases) else None

    @cached_property
    def _in_database(self) -> bool | None:
        """True for a broker that keeps metadata in RocksDB with version 1; None if nothing shows it."""
        given = self.config.store_type
        kinds = self._queue_kinds() if given is None else [kind_of_store_type(given)]
        return metadata_v1.is_used_with(kinds) if kinds else None

    def _is_allowed(self, source: MetadataSource) -> bool:
        version = self.config.config_manager_version
        if isinstance(source, V2Database):
            return version == V2 or (version is None and source in self.present)
        if version == V2 or self._in_database not in {None, source.is_database}:
            return False
        single = self.config.use_single_rocksdb_for_all_configs
        return single is None or not isinstance(source, V1Databases) or source.is_single == single

    @property
    def is_as_expected(self) -> bool:
        """True if what is there is where a broker looks, or there is nothing."""
        return not self.present or self.chosen is self.expected

    def read(self, table: Table) -> Content:
        """Return a table as a broker that starts would have it.

        Raises:
            DamagedStoreError: a source that counts is damaged.
        """
        parts = [part.content for part in self.parts(table)]
        values = parts[0].values
        for part in self.parts(table)[1:]:
            values = part.content.values if replaces(part, table) else {**values, **part.content.values}
        notes = [*(note for part in parts for note in part.notes), *self._notes(table, parts)]
        left_out = sum(part.left_out for part in parts)
        damage = tuple(text for part in parts for text in part.damage)
        newer = next((part.newer for part in parts if part.newer), "")
        return Content(self.place(table), values, parts[-1].version, tuple(notes), left_out, damage, newer)

    def readable(self, table: Table) -> Content:
        """Return the same, with a note in place of a damaged source."""
        try:
            return self.read(table)
        except DamagedStoreError as error:
            note = f"{error}. Until then {table.value} are unknown"
            return Content(self.place(table), {}, None, (note,), damage=(str(error),))

    def parts(self, table: Table) -> tuple[MetadataPart, ...]:
        """Return the content of each source that counts, in the order in which a broker takes it in at its start.

        Raises:
            DamagedStoreError: a source that counts is damaged.
        """
        if table not in self._parts:
            found = tuple(self._at_start(table))
            self._parts[table] = found or (self._as_it_is(table),)
            self._found_at_start[table] = bool(found)
        return self._parts[table]

    def _at_start(self, table: Table) -> Iterator[MetadataPart]:
        """Yield what a broker has after its start, from the place where it looks and from where it takes more in."""
        expected = self.expected
        content = expected.read(table) if self._has(expected, table) else None
        if content is not None:
            yield MetadataPart(expected, content)
        if not isinstance(expected, V1Databases):
            return
        counter = 0 if content is None else content.counter
        version = self.json_at_start.version_at_start(table)
        if version is not None and version.counter > counter:
            counter = version.counter
            yield MetadataPart(self.json_at_start, self.json_at_start.read(table)._replace(version=version))
        if expected.is_single and self._has(self._separate, table):
            taken = self._separate.read(table)
            if taken.counter > counter:
                yield MetadataPart(self._separate, taken)

    def _as_it_is(self, table: Table) -> MetadataPart:
        source = self.source(table)
        return MetadataPart(
            source, source.read(table) if self._has(source, table) else Content(source.place(table), {})
        )

    def source(self, table: Table) -> MetadataSource:
        """Return the source of a table: another one if the expected one has nothing in the table's place."""
        candidates = (self.expected, self.chosen, *self.present)
        return next((source for source in candidates if self._has(source, table)), self.expected)

    def place(self, table: Table) -> Path:
        """Return the file or database of a table."""
        return self.source(table).place(table)

    def wanted(self, table: Table) -> Path:
        """Return the place of a table in which a broker looks."""
        return self.json.target(table) if self.expected is self.json else self.expected.place(table)

    def may_be_taken_in(self, table: Table) -> bool:
        """Return True if a broker makes a database where it looks, and takes this in if its data version is not 0."""
        source, expected = self.source(table), self.expected
        if not isinstance(expected, V1Databases) or expected.is_present(table):
            return False
        from_json = source is self.json and source.place(table) == self.json_at_start.target(table)
        return from_json or (expected.is_single and source is self._separate)

    def is_taken_in(self, part: MetadataPart, table: Table) -> bool:
        """Return True if a broker looks in another place, and takes this part of a table in at its start."""
        return self._found_at_start[table] and part.source is not self.expected

    # --- words -----------------------------------------------------------------------------------

    def _notes(self, table: Table, parts: Sequence[Content]) -> Iterator[str]:
        """Say what a broker takes in, and what it does not find."""
        first = parts[0]
        if first.place != self.wanted(table) and self.source(table).is_present(table):
            yield from self._elsewhere(table, first)
        for before, part in pairwise(parts):
            yield (
                f"{part.place}: its data version {part.counter} is above that of {before.place} ({before.counter}), so "
                "a broker takes it in at its start, and it counts here"
            )

    def _elsewhere(self, table: Table, content: Content) -> Iterator[str]:
        text = f"{content.place}: {table.value} are read here, since there is no {self.wanted(table)}"
        config = self.config
        if not self.may_be_taken_in(table):
            yield (
                f"{text}, where a broker with {self.deciding} looks. A broker takes nothing in there, and begins "
                "without them"
            )
        elif not self._found_at_start[table]:
            why = "a backup is not taken in" if content.counter else "their data version is 0"
            more = ". A change by `reput progress` makes it take them in" if table is Table.OFFSETS else ""
            yield f"{text}. A broker makes that at its start, and does not take these in: {why}{more}"
        elif config.store_type is not None or config.use_single_rocksdb_for_all_configs is not None:
            yield f"{text}. A broker makes that at its start and takes these in (data version {content.counter})"

    @property
    def deciding(self) -> str:
        """The given settings that rule out what is there, in words; without any what the queues show."""
        config, there = self.config, self.chosen
        version, single = config.config_manager_version, config.use_single_rocksdb_for_all_configs
        ruling = {
            "config_manager_version": version is not None and (version == V2) != isinstance(there, V2Database),
            "store_type": config.store_type is not None and self._in_database != there.is_database,
            metadata_v1.SINGLE_SETTING: single is not None
            and isinstance(there, V1Databases)
            and there.is_single != single,
            "enable_lmq": there is self.json and self.expected is self.json,
        }
        given = [config.given(name) for name, is_ruling in ruling.items() if is_ruling]
        return " and ".join(given) or f"{metadata_v1.store_type_with(self.expected.is_database)}, as the queues show,"


def replaces(part: MetadataPart, table: Table) -> bool:
    """Return True if a broker that takes a part in drops what it had before; otherwise it adds the part to that."""
    return table is Table.OFFSETS and isinstance(part.source, JsonFiles)


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
            found = max(found, (version or NO_VERSION).timestamp)
    return found
