"""The topics, or the subscription groups, of a broker: their configurations in memory, and in their home."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from reput.formats.config.data_version import NO_VERSION, DataVersion
from reput.store.metadata.home import TableHome


class Configurations:
    """Configurations by name, as they are read, with members that reput does not know. `load` makes one.

    `notes`: the problems that loading found. A change is in memory only until `persist`.
    """

    def __init__(
        self, home: TableHome, values: dict[str, Any], version: DataVersion, clock_ms: Callable[[], int]
    ) -> None:
        self.values = values
        self.notes: list[str] = []
        self._home = home
        self._version = version
        self._clock_ms = clock_ms
        self._is_changed = False

    @classmethod
    def load(cls, home: TableHome, clock_ms: Callable[[], int]) -> Self:
        """Read the configurations from their home. Nothing changes there.

        Raises:
            DamagedStoreError: the home is damaged.
        """
        found = home.load()
        configurations = cls(home, dict(found.values), found.version or NO_VERSION, clock_ms)
        configurations.notes += found.notes
        configurations._is_changed = found.must_write
        return configurations

    @property
    def version(self) -> DataVersion:
        """The data version of the configurations that are in their home."""
        return self._version

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the configuration of a name; None if there is none."""
        found = self.values.get(name)
        return found if isinstance(found, dict) else None

    def put(self, name: str, value: dict[str, Any]) -> bool:
        """Set the configuration of a name; return False if it was so before."""
        if self.values.get(name) == value:
            return False
        self.values[name] = value
        self._is_changed = True
        return True

    def remove(self, name: str) -> bool:
        """Remove the configuration of a name; return True if there was one."""
        is_there = self.values.pop(name, None) is not None
        self._is_changed = self._is_changed or is_there
        return is_there

    def persist(self) -> None:
        """Make the changes durable, if there are any; each time counts as one change in the data version.

        Another thread may change values meanwhile: those changes are durable after the next call at the latest.

        Raises:
            ReputError: the system refuses a call, the disk is full, or the home is in use. The home has what it had.
        """
        if self._is_changed:
            self._is_changed = False
            try:
                # A copy, made in one step: configurations are replaced, not changed.
                self._version = self._home.write(self.values.copy(), self._version.next(self._clock_ms()))
            except BaseException:
                self._is_changed = True
                raise
