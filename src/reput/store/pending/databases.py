"""The databases of a store that hold pending work, opened as links: `rocksdbstore` and `kvStore`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reput.errors import DamagedStoreError, ReputError
from reput.files.names import is_database
from reput.formats.database.families import DEFAULT_FAMILY

if TYPE_CHECKING:
    from reput.files.database import Family

_Row = TypeVar("_Row")
COPY_REMEDY = (
    "Restore it from a copy: reput does not build this database. Its messages are in the log, and `reput dump log` "
    "shows them"
)
"""The remedy of a database that nothing in the store can make anew."""


@contextlib.contextmanager
def family_of(folder: Path, name: str, damage: list[str], remedy: str) -> Iterator[Family | None]:
    """Yield a column family of a database; None without the database or the family, or if it cannot be opened.

    Args:
        folder: the database.
        name: the family.
        damage: gets the reason if the database cannot be opened or read: other work is then still shown.
        remedy: what to do about a damaged database.
    """
    if not is_database(folder):
        yield None
        return
    # Only here: a store without a database must not load RocksDB.
    from reput.files.database import DatabaseReader

    with contextlib.ExitStack() as opened:
        try:
            reader = opened.enter_context(DatabaseReader(folder, (DEFAULT_FAMILY,), optional=(name,), remedy=remedy))
        except ReputError as error:
            damage.append(str(error))
            yield None
            return
        yield reader.families.get(name)


def guarded(rows: Iterator[_Row], damage: list[str]) -> Iterator[_Row]:
    """Yield rows up to the first damage, which `damage` gets: the rows of other sources still come."""
    try:
        yield from rows
    except DamagedStoreError as error:
        damage.append(str(error))
