"""Topics, groups and committed offsets in JSON files, as brokers with `storeType=default` keep them.

A missing or damaged file is read from its .bak, as the broker does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.backed_up import BackedUpFile, BackedUpKind, backup_of
from reput.formats.config import consumer_offset, data_version
from reput.formats.config import metadata_v1 as v1
from reput.formats.config.consumer_offset import ConsumerOffsets
from reput.formats.config.data_version import DataVersion, version_of
from reput.formats.java.fastjson import parse_fastjson
from reput.store.metadata.tables import Content, MetadataSource, Table

_SIZE_LIMIT = consumer_offset.SIZE_LIMIT
_EDGE = 256
CONFIGURATION_FILES = {Table.TOPICS: "topics.json", Table.GROUPS: "subscriptionGroup.json"}
MEMBERS = {Table.TOPICS: "topicConfigTable", Table.GROUPS: "subscriptionGroupTable"}
"""The member of the file that has the table."""
_OLDER = {
    Table.TOPICS: "Topics were read from {}, which is older",
    Table.GROUPS: "Groups were read from {}, which is older",
    Table.OFFSETS: "Consumer progress was read from {}, which is older: messages may be consumed again",
}
_WITHOUT = {
    Table.TOPICS: "topics and their queue.type then come from folders and records alone",
    Table.GROUPS: "subscription groups are then unknown",
    Table.OFFSETS: "every group begins again",
}
_Parsed = TypeVar("_Parsed")


class JsonFiles(MetadataSource):
    """The JSON files.

    Args:
        folder: the store's `config`.
        light: `enableLmq`: offsets are in lmqConsumerOffset.json. None: in the file that was written last.
    """

    name = "json"
    words = "JSON"
    settings = v1.store_type_with(in_database=False)
    is_database = False

    def __init__(self, folder: Path, light: bool | None) -> None:
        self._folder = folder
        self.light = light

    def place(self, table: Table) -> Path:
        """Return the file of a table; of offsets the other file if only that one is there."""
        return self._folder / (self._offsets_name() if table is Table.OFFSETS else CONFIGURATION_FILES[table])

    def _offsets_name(self) -> str:
        names = (consumer_offset.FILE_NAME, consumer_offset.LMQ_FILE_NAME)
        times = {name: self._written(self._folder / name) for name in names}
        if self.light is not None and (times[names[self.light]] or not any(times.values())):
            return names[self.light]
        return max(names, key=lambda name: times[name])

    def target(self, table: Table) -> Path:
        """Return the file that a table is written to; `place` differs from it if only the other file is there."""
        if table is not Table.OFFSETS or self.light is None:
            return self.place(table)
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
        """Return a table's content.

        Raises:
            DamagedStoreError: the file is damaged, and its backup is missing or damaged too.
        """
        path = self.place(table)
        found: Loaded[Any] = (
            load_offsets(offsets_file(path))
            if table is Table.OFFSETS
            else load_configurations(configurations_file(path, table), table)
        )
        return Content(path, found.values, found.version, tuple(found.notes))

    def looks_whole(self, table: Table) -> bool:
        """Return True if the file of a table begins and ends as a JSON object; no more of it is read."""
        path = self.place(table)
        begin = fs.read_bytes(path, _EDGE)
        if not begin:
            return False
        end = fs.read_bytes(path, _EDGE, max(0, fs.size_of(path) - _EDGE)) or b""
        return begin.lstrip().startswith(b"{") and end.rstrip().endswith(b"}")

    def version_at_start(self, table: Table) -> DataVersion | None:
        """Return the data version that a broker compares with a database's: that of the file, without its backup.

        Source: `ConfigManager.loadDataVersion` of the managers of JSON, which `merge` calls.
        """
        data = fs.read_bytes(self.target(table), _SIZE_LIMIT)
        value = parse_fastjson(data) if data else None
        return version_of(value.get(data_version.MEMBER)) if isinstance(value, dict) else None


class Loaded(NamedTuple, Generic[_Parsed]):
    """A table as it was read.

    `content` is the whole content, for topics and groups the members that reput does not know. `is_of_backup`: all that
    comes from the backup.
    """

    values: dict[str, Any]
    version: DataVersion | None
    content: _Parsed
    is_of_backup: bool
    notes: list[str]


def offsets_file(path: Path) -> BackedUpFile[ConsumerOffsets]:
    """Return a file of offsets."""
    return BackedUpFile(path, _kind(Table.OFFSETS, consumer_offset.decode, ConsumerOffsets({})))


def configurations_file(path: Path, table: Table) -> BackedUpFile[dict[str, Any]]:
    """Return a file of topics or groups."""
    return BackedUpFile(path, _kind(table, _decoded, {}))


def _kind(table: Table, decode: Callable[[bytes, str], _Parsed], nothing: _Parsed) -> BackedUpKind[_Parsed]:
    return BackedUpKind(decode, nothing, _SIZE_LIMIT, _OLDER[table], _WITHOUT[table])


def load_offsets(file: BackedUpFile[ConsumerOffsets]) -> Loaded[ConsumerOffsets]:
    """Read a file of offsets.

    Raises:
        DamagedStoreError: the file is damaged, and its .bak is missing or damaged too.
    """
    found = file.load()
    return Loaded(found.content.whole_table, found.content.data_version, *found)


def load_configurations(file: BackedUpFile[dict[str, Any]], table: Table) -> Loaded[dict[str, Any]]:
    """Read a file of topics or groups.

    Raises:
        DamagedStoreError: the file is damaged, and its .bak is missing or damaged too.
    """
    content, is_of_backup, notes = file.load()
    others = dict(content)
    values, version = others.pop(MEMBERS[table], None), version_of(others.pop(data_version.MEMBER, None))
    return Loaded(values if isinstance(values, dict) else {}, version, others, is_of_backup, notes)


def _decoded(data: bytes, where: str) -> dict[str, Any]:
    value = parse_fastjson(data)
    if not isinstance(value, dict):
        raise DamagedStoreError(f"{where}: damaged: {data[:40]!r} is not a JSON object")
    return value
