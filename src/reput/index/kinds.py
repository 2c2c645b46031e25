"""The protocols of a kind of index by key. The store, the data source and the commands use nothing else.

A store has IndexFiles, or an index database, or both. `AnyIndex` is a kind on disk, `OpenIndex` is that in an open
store. Only `store/disk/index_kinds.py` lists the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.index.index_database import IndexMarks
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import Record


class IndexQuestion(NamedTuple):
    """A search for messages of a topic with a key, or with a tag, stored within [begin_ms, end_ms].

    Records at or above log offset `below` do not count. Unless it is `exact`, the answer is RocketMQ's own to a
    question for at most `most` messages, with one more if there are more.
    """

    topic: bytes
    key: bytes
    below: int
    begin_ms: int = 0
    end_ms: int = INT64_MAX
    by_tag: bool = False
    exact: bool = True
    most: int = 0


class IndexSizes(NamedTuple):
    """The slots and items of an IndexFile (maxHashSlotNum, maxIndexNum)."""

    slots: int
    items: int


class MappedIndexFiles(NamedTuple):
    """IndexFiles for a kernel that searches in them: their sizes, and their maps, the newest first."""

    sizes: IndexSizes
    maps: tuple[NDArray[np.uint8], ...]


class WrongMarks(NamedTuple):
    """The fault of an index's own marks, with the remedy; `is_of_crash`: a crash may leave the like, too."""

    text: str
    is_of_crash: bool


class OpenIndex(Protocol):
    """A kind of index in an open store, to search. Methods raise DamagedStoreError if it cannot be read."""

    @property
    def words(self) -> str:
        """The index in words for people."""
        ...

    def load(self) -> None:
        """Read it anew: a job may have replaced it."""
        ...

    def advance(self) -> None:
        """Let the next search see what was written meanwhile."""
        ...

    def find(self, asked: IndexQuestion, tail: Iterable[int] = ()) -> Iterator[int]:
        """Yield the log offsets of records that may answer, the newest first, an offset perhaps several times.

        `tail` has the log offsets that count above `below`, the newest first.
        """
        ...

    def has(self, record: Record) -> bool:
        """Return True if it has all the keys that a record gives it."""
        ...

    def place(self, below: int) -> tuple[int, int]:
        """Return the number of items of records below a log offset in the last IndexFile, and its begin (ms)."""
        ...

    def mapped(self, most: int) -> MappedIndexFiles | None:
        """Return maps for a kernel that searches alone; None if it cannot, or if there are more than `most`."""
        ...

    def lacks(self) -> str:
        """Describe why it cannot answer for all messages; "" if it can, as far as its files show."""
        ...

    def close(self) -> None:
        """Close it; a later search opens it again."""
        ...


class AnyIndex(Protocol):
    """One kind of index in a store's folder, looked at once."""

    @property
    def name(self) -> str:
        """Its name in settings and targets."""
        ...

    @property
    def words(self) -> str:
        """The index in words for people."""
        ...

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        ...

    @property
    def has_every_message(self) -> bool:
        """True if every message with a key is in it, False if it leaves some out."""
        ...

    @property
    def is_present(self) -> bool:
        """True if it indexes messages, or may do so."""
        ...

    @property
    def damage(self) -> str:
        """The reason why nothing of it can be read, with the remedy; "" if it can be read."""
        ...

    @property
    def marks(self) -> IndexMarks | None:
        """The last record that it indexes, by its own marks; None if it has none: then the store's frontier says it.

        Offset -1: it indexes messages, and its marks do not say how far.
        """
        ...

    def wrong_marks(self, log_end: int | None) -> WrongMarks | None:
        """Return what is wrong with its own marks, given the log's end, if that is known; None if nothing is."""
        ...

    def reaches(self, later: Record | None) -> IndexMarks | None:
        """Return the last record that it indexes, for people: by its marks, or by its entries if these say more.

        `later`: a record above its marks with keys; if the index has them, the marks are too low.

        Raises:
            DamagedStoreError: it cannot be read.
        """
        ...

    def cut(self, end: int, last_ms: int, owner: fs.Owner) -> int:
        """Remove the entries of records at or above log offset `end`, durably; return how many there were.

        Its marks name no such record then. `last_ms`: the store time of the log's last record, 0 if unknown.

        Raises:
            DamagedStoreError: it cannot be read.
        """
        ...

    @property
    def is_held(self) -> bool:
        """True if another process has it open, and it allows one writer only. The writer itself must not ask."""
        ...

    def open(self, sizes: IndexSizes) -> OpenIndex:
        """Return the index for an open store, as it is now."""
        ...
