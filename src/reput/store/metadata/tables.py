"""The three tables of a broker's metadata, and what a source of them can do."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from reput.errors import DamagedStoreError
from reput.files import fs, locks
from reput.formats.consumer_offset import DataVersion

_NAMED = 5
_DATABASE_SETTINGS = ("OPTIONS", "LOG", "LOCK", "IDENTITY")
"""Names of a database's files that do not show when its content was written, or how these names begin."""


class Table(enum.Enum):
    """A table: topics and groups by name with their configurations, offsets by "topic@group" and queue."""

    TOPICS = "topics"
    GROUPS = "groups"
    OFFSETS = "offsets"


class Content(NamedTuple):
    """The content of a table in one source. `place` is its file or database; `notes` say what is left out, and why."""

    place: Path
    values: Mapping[str, Any]
    version: DataVersion | None = None
    notes: tuple[str, ...] = ()

    @property
    def counter(self) -> int:
        """The number of changes that the data version counts; 0 without one, as the broker takes it."""
        return 0 if self.version is None else self.version.counter


class MetadataSource(ABC):
    """A place where brokers keep the three tables."""

    name: ClassVar[str]
    """The name in JSON."""
    words: ClassVar[str]
    """The name for people."""
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
        return any(not entry.is_dir for entry in fs.list_dir(self.place(table)))

    def written_ms(self, table: Table) -> int:
        """Return when a table was last written, by the time of its files; 0 if it is not there."""
        folder = self.place(table)
        names = [entry.name for entry in fs.list_dir(folder) if not entry.name.startswith(_DATABASE_SETTINGS)]
        return max((fs.modified_ms(folder / name) or 0 for name in names), default=0)

    def is_held(self, table: Table) -> bool:
        """Return True if another process has the table's database open to write."""
        return locks.is_database_held(self.place(table))


class LeftOut:
    """The keys of a database that are left out since their keys or values are not the broker's."""

    def __init__(self, place: Path, consequence: str) -> None:
        self._place = place
        self._consequence = consequence
        self._texts: list[str] = []
        self._number = 0

    def passed(self, read: Callable[[], None]) -> None:
        """Call `read`, and remember its DamagedStoreError."""
        try:
            read()
        except DamagedStoreError as error:
            self._number += 1
            if len(self._texts) < _NAMED:
                self._texts.append(str(error))

    def version(self, read: Callable[[], DataVersion | None]) -> DataVersion | None:
        """Return the data version that `read` gives; None if it raises DamagedStoreError, which is remembered."""
        found: list[DataVersion | None] = [None]
        self.passed(lambda: found.append(read()))
        return found[-1]

    def notes(self) -> Iterator[str]:
        """Yield the note, if something is left out."""
        if self._number:
            more = f" and {self._number - _NAMED} more" if self._number > _NAMED else ""
            yield f"{'; '.join(self._texts)}{more}: left out. {self._consequence}"


def text_of(name: bytes, where: str) -> str:
    """Return a name.

    Raises:
        DamagedStoreError: it is no UTF-8.
    """
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise DamagedStoreError(f"{where}: {name[:60]!r} is no name") from None
