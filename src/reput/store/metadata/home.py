"""The home of a table of metadata, from which it is read to be changed, and to which it is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reput.formats.config.data_version import DataVersion

Values = Mapping[str, Any]
"""The values of a table: configurations by name, or offsets by "topic@group" and queue."""


class HomeContent(NamedTuple):
    """A table as it was loaded. `must_write`: the home holds less than it is, so it is written once more.

    `damage`: those of the notes that name values which are not the broker's, and were left out.
    """

    values: Values
    version: DataVersion | None
    must_write: bool
    notes: list[str]
    damage: tuple[str, ...] = ()


class TableHome(ABC):
    """The home of a table. One thread at a time calls it; `load` comes first."""

    has_light_groups = False
    """A group whose name is a light queue's has one offset in a topic, that of queue 0."""

    @property
    @abstractmethod
    def place(self) -> Path:
        """The file or the database that is written."""

    @abstractmethod
    def load(self) -> HomeContent:
        """Return what the home has.

        Raises:
            DamagedStoreError: it is damaged.
            ReputError: the system does not let us read.
        """

    @abstractmethod
    def write(self, values: Values, version: DataVersion) -> DataVersion:
        """Make a table durable in place of what the home has; return its data version, which may be higher.

        Raises:
            ReputError: the system refuses a call, the disk is full, or the home is in use. It then has what it had.
        """
