"""The keys of a database that are left out, since they or their values are not the broker's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.formats.config.data_version import DataVersion

_NAMED = 5


class LeftOut:
    """The keys that were left out so far.

    Args:
        place: the database.
        consequence: a sentence on what a broker does with such values.
    """

    def __init__(self, place: Path, consequence: str) -> None:
        self._place = place
        self._consequence = consequence
        self._texts: list[str] = []
        self.number = 0

    def passed(self, read: Callable[[], None]) -> None:
        """Call `read`, and remember its DamagedStoreError."""
        try:
            read()
        except DamagedStoreError as error:
            self.number += 1
            if len(self._texts) < _NAMED:
                self._texts.append(str(error))

    def version(self, read: Callable[[], DataVersion | None]) -> DataVersion | None:
        """Return the data version that `read` gives; None if it raises DamagedStoreError, which is remembered."""
        found: list[DataVersion | None] = [None]
        self.passed(lambda: found.append(read()))
        return found[-1]

    def notes(self) -> Iterator[str]:
        """Yield the note, if something is left out."""
        if self.number:
            more = f" and {self.number - _NAMED} more" if self.number > _NAMED else ""
            yield f"{'; '.join(self._texts)}{more}: left out. {self._consequence}"


def utf8_name(name: bytes, where: str) -> str:
    """Return a name.

    Raises:
        DamagedStoreError: it is no UTF-8.
    """
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise DamagedStoreError(f"{where}: {name[:60]!r} is not a name") from None
