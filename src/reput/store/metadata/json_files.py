"""Topics, groups and committed offsets in JSON files, as brokers with `storeType=default` keep them.

A missing or damaged file is read from its .bak, as the broker does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import consumer_offset
from reput.formats.consumer_offset import ConsumerOffsets, DataVersion
from reput.formats.fastjson import parse_fastjson
from reput.store.metadata.tables import Content, MetadataSource, Table

_SIZE_LIMIT = 256 << 20
_FILES = {Table.TOPICS: "topics.json", Table.GROUPS: "subscriptionGroup.json"}
_MEMBERS = {Table.TOPICS: "topicConfigTable", Table.GROUPS: "subscriptionGroupTable"}
_WITHOUT = {
    Table.TOPICS: "so topics and their queue.type come from folders and records alone",
    Table.GROUPS: "so subscription groups are unknown",
}


def backup_of(path: Path) -> Path:
    """Return the path of a file's backup."""
    return path.with_name(f"{path.name}.bak")


class JsonFiles(MetadataSource):
    """The JSON files.

    Args:
        folder: the store's `config`.
        light: `enableLmq`: offsets are in lmqConsumerOffset.json. None: in the file that was written last.
    """

    name = "json"
    words = "JSON"
    is_database = False

    def __init__(self, folder: Path, light: bool | None) -> None:
        self._folder = folder
        self.light = light

    def place(self, table: Table) -> Path:
        """Return the file of a table; of offsets the other file if only that one is there."""
        return self._folder / (self._offsets_name() if table is Table.OFFSETS else _FILES[table])

    def _offsets_name(self) -> str:
        names = (consumer_offset.FILE_NAME, consumer_offset.LMQ_FILE_NAME)
        times = {name: self._written(self._folder / name) for name in names}
        if self.light is not None and (times[names[self.light]] or not any(times.values())):
            return names[self.light]
        return max(names, key=lambda name: times[name])

    @property
    def offsets_target(self) -> Path:
        """The file that offsets are written to; `place` differs from it if only the other file is there."""
        if self.light is None:
            return self.place(Table.OFFSETS)
        return self._folder / (consumer_offset.LMQ_FILE_NAME if self.light else consumer_offset.FILE_NAME)

    def is_present(self, table: Table) -> bool:
        """Return True if the file or its backup has bytes."""
        return self.written_ms(table) > 0

    def written_ms(self, table: Table) -> int:
        """Return when the file was last written; 0 if it is not there."""
        return self._written(self.place(table))

    def _written(self, path: Path) -> int:
        return fs.modified_ms(path) or fs.modified_ms(backup_of(path)) or 0

    def is_held(self, table: Table) -> bool:  # noqa: ARG002
        """Return False: each write replaces the file."""
        return False

    def read(self, table: Table) -> Content:
        """Return a table's content; of topics and groups a file that cannot be read gives a note.

        Raises:
            DamagedStoreError: the offsets' file is damaged, and its backup is missing or damaged too.
        """
        path = self.place(table)
        if table is Table.OFFSETS:
            found = load_offsets(path)
            return Content(path, found.offsets.whole_table, found.offsets.data_version, tuple(found.notes))
        place = None
        for named, value in _values(path):
            place = place or named
            if isinstance(value, dict):
                values = value.get(_MEMBERS[table])
                version = consumer_offset.version_of(value.get("dataVersion"))
                return Content(path, values if isinstance(values, dict) else {}, version)
        return Content(path, {}, None, () if place is None else (f"{place}: cannot be read, {_WITHOUT[table]}",))

    def version_at_start(self, table: Table) -> DataVersion | None:
        """Return the data version that a broker compares with a database's: that of the file, without its backup.

        Source: `ConfigManager.loadDataVersion` of the managers of JSON, which `merge` calls.
        """
        name = consumer_offset.FILE_NAME if table is Table.OFFSETS else _FILES[table]
        data = fs.read_bytes(self._folder / name, _SIZE_LIMIT)
        value = parse_fastjson(data.decode("utf-8", "replace")) if data else None
        return consumer_offset.version_of(value.get("dataVersion")) if isinstance(value, dict) else None


def _values(path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a file and of its .bak, unless missing or empty; None for a file that is not JSON.

    The .bak is read only if the caller asks for a second value.
    """
    for named in (path, backup_of(path)):
        data = fs.read_bytes(named, _SIZE_LIMIT)
        if data:
            yield named, parse_fastjson(data.decode("utf-8", "replace"))


class LoadedOffsets(NamedTuple):
    """Offsets as they were read. `data`: the bytes of the file itself if they are good; `is_damaged`: it has others.

    `is_of_backup`: the offsets come from the backup.
    """

    offsets: ConsumerOffsets
    data: bytes | None
    is_damaged: bool
    is_of_backup: bool
    notes: list[str]


def load_offsets(path: Path) -> LoadedOffsets:
    """Read a file of offsets, or its .bak if it is missing or damaged.

    Raises:
        DamagedStoreError: the file is damaged, and its .bak is missing or damaged too.
    """
    nothing = ConsumerOffsets({})
    offsets, data, wrong = _taken(path)
    if offsets is not None:
        return LoadedOffsets(offsets, data, False, False, [])
    backup = backup_of(path)
    older, older_data, wrong_too = _taken(backup)
    if older is not None:
        note = f"{wrong}. Consumer progress was read from {backup}, which is older: messages may be consumed again"
        return LoadedOffsets(older, None, bool(data), True, [note])
    if data or older_data:
        raise DamagedStoreError(
            f"{wrong}; {wrong_too}. Put a good copy in their place, or move them away: every group begins again"
        )
    # A broker that was killed, or lost power, in its first write leaves an empty file.
    notes = [] if data is None else [f"{wrong}; {wrong_too}: every group begins again"]
    return LoadedOffsets(nothing, None, False, False, notes)


def _taken(path: Path) -> tuple[ConsumerOffsets | None, bytes | None, str]:
    """Return the offsets in a file, its bytes, and the problem if there are no offsets."""
    data = fs.read_bytes(path, consumer_offset.SIZE_LIMIT + 1)
    if not data:
        return None, data, f"{path}: {'is missing' if data is None else 'is empty'}"
    try:
        return consumer_offset.decode(data, str(path)), data, ""
    except DamagedStoreError as error:
        return None, data, str(error)
