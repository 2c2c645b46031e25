"""Topics, groups and committed offsets in RocksDB, version 2: `formats.config.metadata_v2` has keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.errors import NewerDatabaseError
from reput.formats.config import metadata_v2 as v2
from reput.formats.config.consumer_offset import key_of
from reput.formats.config.metadata_v2 import TableId
from reput.store.metadata.left_out import LeftOut, utf8_name
from reput.store.metadata.tables import Content, MetadataSource, Table
from reput.store.metadata.v1 import REMEDY

if TYPE_CHECKING:
    from reput.files.database import Family

TABLE_IDS = {Table.TOPICS: TableId.TOPICS, Table.GROUPS: TableId.GROUPS, Table.OFFSETS: TableId.OFFSETS}
_CONSEQUENCE = "A broker skips such values, or does not start with them"


class V2Database(MetadataSource):
    """The database of version 2 in the store's folder `config`."""

    name = "v2"
    words = "RocksDB, version 2"
    settings = "configManagerVersion=v2"
    # `TopicConfigManagerV2` writes in `updateTopicConfig` alone. Topics that messages or retries make are put without.
    has_every_topic = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, table: Table) -> Path:  # noqa: ARG002
        """Return the database, which has all tables."""
        return self._folder / v2.FOLDER

    def read(self, table: Table) -> Content:
        """Return a table's content; a record that is not the broker's is left out with a note.

        Raises:
            DamagedStoreError: the database is damaged, or only half there.
            NewerDatabaseError: it has keys, and none of a layout that reput knows.
        """
        from reput.files.database import DatabaseReader

        place = self.place(table)
        with DatabaseReader(place, (v2.FAMILY,), remedy=REMEDY, is_logged=True) as database:
            family = database.families[v2.FAMILY]
            newer = _newer(family, place)
            values, left_out = _data(family, place, table)
            stored = family.get(v2.version_key(TABLE_IDS[table]))
        version = left_out.version(lambda: v2.decode_version(stored, str(place)))
        damage = tuple(left_out.notes())
        return Content(place, values, version, (*filter(None, [newer]), *damage), left_out.number, damage, newer)


def _newer(family: Family, place: Path) -> str:
    """Return a note if there are keys of another layout, and "" if there are none.

    Raises:
        NewerDatabaseError: there are no others.
    """
    number, first = 0, b""
    for begin, end in v2.unknown_ranges():
        for key, _ in family.walk(begin, end):
            first = first if number else key
            number += 1
    if not number:
        return ""
    text = (
        f"{place}: {number} keys of a layout that reput does not know, such as {first[:60]!r}; a newer broker may have "
        "written them"
    )
    if not any(True for table in TableId for _ in family.walk(*v2.table_range(table))):
        raise NewerDatabaseError(f"{text}. There are no others: read it with a newer reput")
    return f"{text}. They are left out, and changes beside them are refused"


def _data(family: Family, place: Path, table: Table) -> tuple[dict[str, Any], LeftOut]:
    values: dict[str, Any] = {}
    left_out, where = LeftOut(place, _CONSEQUENCE), str(place)

    def take_offset(key: bytes, value: bytes) -> None:
        found = v2.decode_offset_key(key, where)
        name = key_of(utf8_name(found.topic, where), utf8_name(found.group, where))
        values.setdefault(name, {})[found.queue_id] = v2.decode_offset(value, f"{where}: {name}/{found.queue_id}")

    def take_named(key: bytes, value: bytes) -> None:
        name = utf8_name(v2.decode_name_key(key, where), where)
        values[name] = v2.decode_value(value, f"{where}: {name}")

    take = take_offset if table is Table.OFFSETS else take_named
    for key, value in family.walk(*v2.data_range(TABLE_IDS[table])):
        left_out.passed(lambda key=key, value=value: take(key, value))  # type: ignore[misc]
    return values, left_out
