"""A disk that reads a wrong sector: the bytes of another place come instead of those that were asked for.

    one = draw(folder, chance)
    with misreading(folder, one):
        ...                       the file of `one` has the bytes of another sector

The system keeps what it has read in pages of 4,096 bytes. Once such a page is dropped, the right bytes are read again.
A page that the program has written meanwhile goes back to the disk as it is, with the wrong sector in it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.errors import DamagedStoreError, ReputError
from reput.formats import paths
from reput.formats.config.consumer_offset import FILE_NAME
from reput.store.disk.layout import find_store
from reput.store.recover.known_good import known_good
from support.power import others
from support.power.disk import SECTOR
from support.power.verdict import RefusedPutError, assert_kept

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reput.config import StoreConfig
    from support.power.scenarios import Scenario
    from support.power.verdict import Promises

_PAGE = 4096
_DRAWS = 40


class Misread(NamedTuple):
    """A sector of a file, below a folder, from its first byte on, and the bytes that are read in its place."""

    path: str
    offset: int
    data: bytes

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset} reads as {self.data[:20].hex()}..."


def other_sector(path: Path, others: Sequence[Path], chance: random.Random) -> tuple[int, bytes] | None:
    """Return a sector of a file that has data, and other bytes, of a sector of these files; None if none was drawn."""
    whole = path.read_bytes()
    full = [at for at in range(0, len(whole), SECTOR) if any(whole[at : at + SECTOR])]
    for _ in range(_DRAWS if full and others else 0):
        at = chance.choice(full)
        size = len(whole[at : at + SECTOR])
        data = chance.choice(others).read_bytes()
        begin = chance.randrange(0, max(len(data), 1), SECTOR)
        found = data[begin : begin + size].ljust(size, b"\0")
        if found != whole[at : at + size]:
            return at, found
    return None


def draw(folder: Path, chance: random.Random) -> Misread | None:
    """Draw a sector of a store's files below a folder that is read wrong; None if all are empty."""
    every = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    files = sorted(path for path in every if path.name != others.NAME)
    for path in chance.sample(files, len(files)):
        if (found := other_sector(path, files, chance)) is not None:
            return Misread(str(path.relative_to(folder)), *found)
    return None


@contextlib.contextmanager
def misreading(folder: Path, one: Misread) -> Iterator[None]:
    """Read the wrong sector for the time of the block; afterwards pages that were not written are right again."""
    path = folder / one.path
    whole = path.read_bytes()
    wrong = bytearray(whole)
    wrong[one.offset : one.offset + len(one.data)] = one.data
    with path.open("r+b", buffering=0) as file:
        file.write(wrong)
        try:
            yield
        finally:
            begin = one.offset // _PAGE * _PAGE
            file.seek(begin)
            # A removed file has no name any more, and is restored for nobody.
            page = file.read(_PAGE)
            if page == wrong[begin : begin + _PAGE]:
                file.seek(begin)
                file.write(whole[begin : begin + _PAGE])


def assert_not_silent(folder: Path, one: Misread, promises: Promises, scenario: Scenario) -> None:
    """Have a store recovered while a sector is read wrong: it keeps its promises afterwards, or says that it does not.

    Two sectors go unseen. A record of the log above all that was known to be durable, read wrong, looks like one
    that a crash has torn. Committed offsets have no checksum: in place of their file recovery takes its backup.
    """
    path = folder / "store"
    looks_right = _looks_right(path, one, scenario.config)
    with misreading(folder, one), contextlib.suppress(ReputError):
        reput.MessageStore.open(path, scenario.config).close()
    try:
        assert_kept(path, promises, scenario)
    except RefusedPutError:
        # A queue whose end was read wrong may keep an offset that it has not reached.
        return
    except AssertionError as error:
        if not looks_right and reput.check(path, spark=False, config=scenario.config).sound:
            raise AssertionError(f"{one}: {error}") from error
    except ReputError:
        # The store says what is wrong.
        return


def _looks_right(path: Path, one: Misread, config: StoreConfig) -> bool:
    """Return True if a wrong sector may look like a right one, or like one that a crash has left."""
    *_, folder, name = one.path.split("/")
    if name == FILE_NAME:
        return True
    if folder != paths.COMMIT_LOG:
        return False
    try:
        durable = known_good(find_store(path, config)).offset
    except DamagedStoreError:
        return False
    return int(name) + one.offset + len(one.data) > durable
