"""The three tables of a broker's metadata, and what a source of them can do."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from reput.files import fs, locks
from reput.formats.config.data_version import NO_VERSION, DataVersion

_DATABASE_SETTINGS = ("OPTIONS", "LOG", "LOCK", "IDENTITY")
"""Names of a database's files that do not show when its content was written, or how these names begin."""


class Table(enum.Enum):
    """A table: topics and groups by name with their configurations, offsets by "topic@group" and queue."""

    TOPICS = "topics"
    GROUPS = "groups"
    OFFSETS = "offsets"


def absence(place: Path) -> str:
    """Return how a table is absent from its place, as the end of a sentence.

    RocksDB makes an empty folder and a missing one alike an empty database, so both have the same rules.
    """
    return "has no files" if fs.is_dir(place) else "is not there"


class Content(NamedTuple):
    """The content of a table in one source. `place` is its file or database; `notes` are about it.

    `left_out`: the number of values that are left out, since they are not the broker's. `damage` has those of the notes
    that name them, or why nothing can be read. `newer`: the note on keys of a newer layout, which are left out, too; ""
    without such keys.
    """

    place: Path
    values: Mapping[str, Any]
    version: DataVersion | None = None
    notes: tuple[str, ...] = ()
    left_out: int = 0
    damage: tuple[str, ...] = ()
    newer: str = ""

    @property
    def counter(self) -> int:
        """The number of changes that the data version counts; 0 without one, as the broker takes it."""
        return (self.version or NO_VERSION).counter


class MetadataSource(ABC):
    """A place where brokers keep the three tables."""

    name: ClassVar[str]
    """The name in JSON."""
    words: ClassVar[str]
    """The name for people."""
    settings: ClassVar[str]
    """The settings with which a broker looks there."""
    is_database: ClassVar[bool] = True
    has_every_topic: ClassVar[bool] = True
    """False if a broker also has topics that it does not keep there."""

    @abstractmethod
    def place(self, table: Table) -> Path:
        """Return the file or the database of a table."""

    @abstractmethod
    def read(self, table: Table) -> Content:
        """Return a table's content.

        Raises:
            DamagedStoreError: it cannot be read.
        """

    def is_present(self, table: Table) -> bool:
        """Return True if there is something in a table's place."""
        return any(entry.is_file for entry in fs.list_dir(self.place(table)))

    def written_ms(self, table: Table) -> int:
        """Return when a table was last written, by the time of its files; 0 if it is not there."""
        folder = self.place(table)
        names = [entry.name for entry in fs.list_dir(folder) if not entry.name.startswith(_DATABASE_SETTINGS)]
        return max((fs.modified_ms(folder / name) or 0 for name in names), default=0)

    def is_held(self, table: Table) -> bool:
        """Return True if another process has the table's database open to write."""
        return locks.is_database_held(self.place(table))
