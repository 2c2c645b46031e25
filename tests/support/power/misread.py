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
from reput.formats.log.record import CHECK_BODY
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk, checking
from reput.store.disk.layout import find_store
from reput.store.recover.known_good import known_good
from support.power import others
from support.power.disk import SECTOR
from support.power.verdict import LOST_UNSEEN, RefusedPutError, assert_kept

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
    that a crash has torn: it may be lost, and all after it. Committed offsets have no checksum: in place of their file
    recovery takes its backup. All else is kept then, too.
    """
    path = folder / "store"
    promises = _left_by(path, one, promises, scenario.config)
    with misreading(folder, one), contextlib.suppress(ReputError):
        reput.MessageStore.open(path, scenario.config).close()
    try:
        assert_kept(path, promises, scenario)
    except RefusedPutError:
        # A queue whose end was read wrong may keep an offset that it has not reached.
        return
    except AssertionError as error:
        if reput.check(path, spark=False, config=scenario.config).sound:
            raise AssertionError(f"{one}: {error}") from error
    except ReputError:
        # The store says what is wrong.
        return


def _left_by(path: Path, one: Misread, promises: Promises, config: StoreConfig) -> Promises:
    """Return the promises without those that a wrong sector may break unseen."""
    *_, folder, name = one.path.split("/")
    if name == FILE_NAME:
        return promises.changed({"kept": 0})
    if folder != paths.COMMIT_LOG:
        return promises
    begin = int(name) + one.offset
    try:
        if begin + len(one.data) <= known_good(find_store(path, config)).offset:
            return promises
    except DamagedStoreError:
        return promises
    log = list_log_files(path / paths.COMMIT_LOG, tolerant=True)
    lost = [
        found for found in LogWalk(log, log.min_offset, checking(CHECK_BODY)) if found.offset + len(found.data) > begin
    ]
    if not lost:
        return promises
    left = min(promises.last("durable"), int(lost[0].decode().body.split()[0]))
    # The offsets of groups and the writers of batches know of more.
    return promises.changed({"durable": left, LOST_UNSEEN: 1})
