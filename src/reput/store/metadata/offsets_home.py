"""The home of committed offsets, from which they are read and to which they are written; `homes` chooses it.

JSON is here, databases are in `database_offsets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from reput.files import fs
from reput.formats import consumer_offset
from reput.formats.consumer_offset import LMQ_QUEUE_ID, ConsumerOffsets, DataVersion
from reput.formats.lite_topics import is_light
from reput.store.metadata.json_files import backup_of, load_offsets

OffsetTable = Mapping[str, Mapping[int, int]]


class HomeOffsets(NamedTuple):
    """Offsets as they were loaded. `must_write`: the home holds less than they are, so they are written once more."""

    table: OffsetTable
    version: DataVersion | None
    must_write: bool
    notes: list[str]


class OffsetsHome(ABC):
    """The home of committed offsets. One thread at a time calls it; `load` comes first."""

    has_light_groups = False
    """A group whose name is a light queue's has one offset in a topic, that of queue 0."""

    @abstractmethod
    def load(self) -> HomeOffsets:
        """Return what the home has.

        Raises:
            DamagedStoreError: it is damaged.
            ReputError: the system does not let us read.
        """

    @abstractmethod
    def write(self, table: OffsetTable, version: DataVersion) -> DataVersion:
        """Make a table durable in place of what the home has; return its data version, which may be higher.

        Raises:
            ReputError: the system refuses a call, the disk is full, or the home is in use. It then has what it had.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of what writing holds."""


class JsonOffsets(OffsetsHome):
    """A JSON file with a backup.

    Each write replaces the file at once, and its backup before it, so each is whole at any instant. A damaged file is
    kept under another name.

    Args:
        path: the file.
        clock_ms: returns the time, in milliseconds since 1970.
        elsewhere: the offsets, if they are in another place as yet.
        least_counter: the lowest counter of a data version that is written.
    """

    def __init__(
        self, path: Path, *, clock_ms: Callable[[], int], elsewhere: HomeOffsets | None = None, least_counter: int = 0
    ) -> None:
        self._path = path
        self._clock_ms = clock_ms
        self._elsewhere = elsewhere
        self._least_counter = least_counter
        self.has_light_groups = path.name == consumer_offset.LMQ_FILE_NAME
        self._written: bytes | None = None
        self._damaged = False
        self._pull_offsets: OffsetTable | None = None

    def load(self) -> HomeOffsets:
        """Return the offsets of the file, or of its backup."""
        if self._elsewhere is not None:
            return self._elsewhere
        found = load_offsets(self._path)
        self._written, self._damaged = found.data, found.is_damaged
        self._pull_offsets = found.offsets.pull_offsets
        return HomeOffsets(found.offsets.whole_table, found.offsets.data_version, found.is_of_backup, found.notes)

    def write(self, table: OffsetTable, version: DataVersion) -> DataVersion:
        """Replace the file."""
        version = version._replace(counter=max(version.counter, self._least_counter))
        data = consumer_offset.encode(self._offsets(table, version))
        if not fs.exists(self._path.parent):
            fs.make_dirs(self._path.parent, fs.owner_of(self._path.parent.parent))
        owner = fs.owner_of(self._path.parent)
        if self._damaged and fs.exists(self._path):
            fs.rename(self._path, self._free_name())
        self._damaged = False
        if self._written is not None:
            fs.write_whole(backup_of(self._path), self._written, owner)
        fs.write_whole(self._path, data, owner)
        self._written = data
        return version

    def _offsets(self, table: OffsetTable, version: DataVersion) -> ConsumerOffsets:
        """Return the content of the file, sorted."""
        ordered = {key: dict(sorted(queues.items())) for key, queues in sorted(table.items())}
        plain = {
            key: queues for key, queues in ordered.items() if not (self.has_light_groups and is_of_light_group(key))
        }
        light = {
            key: queues[LMQ_QUEUE_ID] for key, queues in ordered.items() if key not in plain and LMQ_QUEUE_ID in queues
        }
        return ConsumerOffsets(
            plain,
            consumer_offset.group_topics(plain),
            version,
            light if self.has_light_groups else None,
            self._pull_offsets,
        )

    def close(self) -> None:
        """Do nothing: a write leaves nothing open."""

    def _free_name(self) -> Path:
        now_ms = self._clock_ms()
        while fs.exists(path := self._path.with_name(f"{self._path.name}.damaged-{now_ms}")):
            now_ms += 1
        return path


def is_of_light_group(key: str) -> bool:
    """Return True if a key's group is a light queue, which has one offset in a topic (`MixAll.isLmq`)."""
    parts = consumer_offset.split_key(key)
    return parts is not None and is_light(parts[1])
