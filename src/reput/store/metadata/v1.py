"""Topics, groups and committed offsets in RocksDB, version 1: `formats.config.metadata_v1` has keys and values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reput.formats.config import metadata_v1 as v1
from reput.formats.config.data_version import decode_version
from reput.formats.config.metadata_v1 import TablePlace
from reput.formats.database.families import DEFAULT_FAMILY
from reput.store.metadata.left_out import LeftOut, utf8_name
from reput.store.metadata.tables import Content, MetadataSource, Table

PLACES = {Table.TOPICS: v1.TOPICS, Table.GROUPS: v1.GROUPS, Table.OFFSETS: v1.OFFSETS}
REMEDY = "Put a copy in its place, such as a replica's; the log and the queues are not in it, and can be read"
_CONSEQUENCE = "A broker does not start with such values"
_READERS: dict[Table, Callable[[bytes, str], Any]] = {
    Table.TOPICS: v1.decode_configuration,
    Table.GROUPS: v1.decode_configuration,
    Table.OFFSETS: v1.decode_offsets,
}


class Families(NamedTuple):
    """The column families of a table and of its data version."""

    data: str
    version: str


class V1Databases(MetadataSource):
    """Databases of version 1.

    Args:
        folder: the store's `config`.
        is_single: all tables are in one database (`useSingleRocksDBForAllConfigs`).
    """

    def __init__(self, folder: Path, is_single: bool) -> None:
        self._folder = folder
        self.is_single = is_single

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name in JSON."""
        return "v1-single" if self.is_single else "v1"

    @property
    def settings(self) -> str:  # type: ignore[override]
        """The settings with which a broker looks there."""
        single = str(self.is_single).lower()
        return f"{v1.store_type_with(in_database=True)}, useSingleRocksDBForAllConfigs={single}"

    words = "RocksDB, version 1"

    def place(self, table: Table) -> Path:
        """Return the database of a table."""
        return self._folder / (v1.SINGLE_FOLDER if self.is_single else PLACES[table].folder)

    def families(self, table: Table) -> Families:
        """Return the families of a table."""
        place: TablePlace = PLACES[table]
        if self.is_single:
            return Families(place.family, place.version_family)
        return Families(DEFAULT_FAMILY, v1.OWN_VERSION_FAMILY)

    @property
    def all_families(self) -> list[str]:
        """The families of a database that is written."""
        tables = Table if self.is_single else (Table.TOPICS,)
        return [*dict.fromkeys([DEFAULT_FAMILY, *(name for table in tables for name in self.families(table))])]

    def read(self, table: Table) -> Content:
        """Return a table's content; a key with a value that is not the broker's is left out with a note.

        Raises:
            DamagedStoreError: the database is damaged, or only half there.
        """
        from reput.files.database import DatabaseReader

        place, families, decode = self.place(table), self.families(table), _READERS[table]
        values: dict[str, Any] = {}
        left_out = LeftOut(place, _CONSEQUENCE)

        def take(key: bytes, value: bytes) -> None:
            name = utf8_name(key, str(place))
            values[name] = decode(value, f"{place}: {name}")

        optional = [name for name in families if name != DEFAULT_FAMILY]
        with DatabaseReader(place, (DEFAULT_FAMILY,), optional=optional, remedy=REMEDY, is_logged=True) as database:
            found = database.families
            for key, value in found[families.data].walk() if families.data in found else ():
                left_out.passed(lambda key=key, value=value: take(key, value))  # type: ignore[misc]
            stored = found[families.version].get(v1.VERSION_KEY) if families.version in found else None
        version = left_out.version(lambda: decode_version(stored, str(place)))
        damage = tuple(left_out.notes())
        return Content(place, values, version, damage, left_out.number, damage)
