"""JSON files as homes of tables; `files.backed_up` has the rules. Members that reput does not know are kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reput.files.backed_up import BackedUpFile
from reput.formats.config import consumer_offset, data_version
from reput.formats.config.consumer_offset import LMQ_QUEUE_ID, ConsumerOffsets
from reput.formats.config.data_version import DataVersion
from reput.formats.java.fastjson import write_fastjson_file
from reput.formats.topics.lite_topics import is_light
from reput.store.metadata.home import HomeContent, TableHome, Values
from reput.store.metadata.json_files import (
    MEMBERS,
    Loaded,
    configurations_file,
    load_configurations,
    load_offsets,
    offsets_file,
)
from reput.store.metadata.tables import Table


class JsonHome(TableHome):
    """A JSON file with a backup.

    Args:
        path: the file.
        clock_ms: returns the time, in milliseconds since 1970.
        elsewhere: the table, if it is in another place as yet.
        least_counter: the lowest counter of a data version that is written.
    """

    def __init__(
        self, path: Path, *, clock_ms: Callable[[], int], elsewhere: HomeContent | None = None, least_counter: int = 0
    ) -> None:
        self._file = self._file_at(path)
        self._clock_ms = clock_ms
        self._elsewhere = elsewhere
        self._least_counter = least_counter

    @property
    def place(self) -> Path:
        """The file."""
        return self._file.path

    def load(self) -> HomeContent:
        """Return the table of the file, or of its backup."""
        if self._elsewhere is not None:
            return self._elsewhere
        found = self._load()
        return HomeContent(found.values, found.version, found.is_of_backup, found.notes)

    @abstractmethod
    def _file_at(self, path: Path) -> BackedUpFile[Any]:
        """Return the file."""

    @abstractmethod
    def _load(self) -> Loaded[Any]:
        """Read the file or its backup, and remember the other members."""

    @abstractmethod
    def _encoded(self, values: Values, version: DataVersion) -> bytes:
        """Return the content of the file."""

    def write(self, values: Values, version: DataVersion) -> DataVersion:
        """Replace the file."""
        version = version._replace(counter=max(version.counter, self._least_counter))
        self._file.replace(self._encoded(values, version), self._clock_ms())
        return version


class OffsetsFile(JsonHome):
    """Committed offsets in consumerOffset.json or lmqConsumerOffset.json."""

    _pull_offsets: Values | None = None

    def _file_at(self, path: Path) -> BackedUpFile[Any]:
        return offsets_file(path)

    @property
    def has_light_groups(self) -> bool:  # type: ignore[override]
        """True for the file of a broker with `enableLmq`."""
        return self.place.name == consumer_offset.LMQ_FILE_NAME

    def _load(self) -> Loaded[Any]:
        found = load_offsets(self._file)
        self._pull_offsets = found.content.pull_offsets
        return found

    def _encoded(self, values: Values, version: DataVersion) -> bytes:
        ordered = {key: dict(sorted(queues.items())) for key, queues in sorted(values.items())}
        plain = {
            key: queues for key, queues in ordered.items() if not (self.has_light_groups and is_of_light_group(key))
        }
        light = {
            key: queues[LMQ_QUEUE_ID] for key, queues in ordered.items() if key not in plain and LMQ_QUEUE_ID in queues
        }
        return consumer_offset.encode(
            ConsumerOffsets(
                plain,
                consumer_offset.group_topics(plain),
                version,
                light if self.has_light_groups else None,
                self._pull_offsets,
            )
        )


class ConfigurationsFile(JsonHome):
    """Topics or groups in topics.json or subscriptionGroup.json."""

    def __init__(
        self,
        path: Path,
        table: Table,
        *,
        clock_ms: Callable[[], int],
        elsewhere: HomeContent | None = None,
        least_counter: int = 0,
    ) -> None:
        self._table = table
        super().__init__(path, clock_ms=clock_ms, elsewhere=elsewhere, least_counter=least_counter)
        self._others: dict[str, Any] = {"forbiddenTable": {}} if table is Table.GROUPS else {}

    def _file_at(self, path: Path) -> BackedUpFile[Any]:
        return configurations_file(path, self._table)

    def _load(self) -> Loaded[Any]:
        found = load_configurations(self._file, self._table)
        self._others |= found.content
        return found

    def _encoded(self, values: Values, version: DataVersion) -> bytes:
        members = {data_version.MEMBER: version.members, **self._others, MEMBERS[self._table]: dict(values)}
        return write_fastjson_file(members)


def is_of_light_group(key: str) -> bool:
    """Return True if a key's group is a light queue, which has one offset in a topic (`MixAll.isLmq`)."""
    parts = consumer_offset.split_key(key)
    return parts is not None and is_light(parts[1])
