"""IndexFiles as a kind of index: on disk, and opened to search by key hash and time, through maps.

The newest file comes first, as in RocketMQ.

Source: `IndexService.queryOffset`, `IndexFile.selectPhyOffset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.holes import Holes
from reput.files.maps import MapCache
from reput.formats.index.index_database import IndexMarks
from reput.formats.index.index_file import (
    HEADER,
    HEADER_SIZE,
    ITEM,
    ITEM_SIZE,
    SLOT,
    SLOT_SIZE,
    TAG_KEY_PREFIX,
    Header,
    file_size,
    items_at,
)
from reput.formats.index.index_kinds import INDEX_FILES
from reput.formats.java.hashing import index_key_hash
from reput.formats.log.record import Record
from reput.halving import first_where
from reput.index.files import IndexFileOnDisk, chain_damage, list_index_files
from reput.index.kinds import IndexQuestion, IndexSizes, MappedIndexFiles, WrongMarks

_WORDS = "IndexFiles"
_MOST_MAPS = 256


def item_hash(topic: bytes, key: bytes, by_tag: bool) -> int:
    """Return the hash of an IndexFile's item for a key, or for a tag."""
    return index_key_hash(topic + b"#" + (TAG_KEY_PREFIX if by_tag else b"") + key)


class FileIndex:
    """The IndexFiles of a store; see `AnyIndex`.

    Args:
        folder: the index folder.
        files: its files, if a caller has listed them.
    """

    name: ClassVar[str] = INDEX_FILES
    words: ClassVar[str] = _WORDS
    has_every_message: ClassVar[bool] = True
    damage: ClassVar[str] = ""
    marks: ClassVar[IndexMarks | None] = None
    is_held: ClassVar[bool] = False

    def __init__(self, folder: Path, files: Sequence[IndexFileOnDisk] | None = None) -> None:
        self.folder = folder
        self._listed = files

    @cached_property
    def is_present(self) -> bool:
        """See `AnyIndex`."""
        return bool(list_index_files(self.folder) if self._listed is None else self._listed)

    def wrong_marks(self, log_end: int | None) -> WrongMarks | None:  # noqa: ARG002 - an AnyIndex
        """See `AnyIndex`; IndexFiles have no marks."""
        return None

    def reaches(self, later: Record | None) -> IndexMarks | None:  # noqa: ARG002 - an AnyIndex
        """See `AnyIndex`."""
        return None

    def cut(self, end: int, last_ms: int, owner: fs.Owner) -> int:  # noqa: ARG002 - an AnyIndex
        """See `AnyIndex`; the next job that extends IndexFiles begins at the frontier, and cuts them there."""
        return 0

    def open(self, sizes: IndexSizes) -> FileIndexSearch:
        """See `AnyIndex`."""
        opened, files = FileIndexSearch(self.folder, sizes), self._listed
        # A rebuild or an expiry may have replaced or deleted files since they were listed.
        if files is not None and all(fs.exists(file.path) for file in files):
            opened.take(files)
        else:
            opened.load()
        return opened


class FileIndexSearch:
    """The IndexFiles of a store, opened for searching; see `OpenIndex`.

    Args:
        folder: the index folder.
        sizes: of its files; files of another length are left out and named in `odd`.
    """

    words: ClassVar[str] = _WORDS

    def __init__(self, folder: Path, sizes: IndexSizes) -> None:
        self.folder = folder
        self.slots, self.items = self.sizes = sizes
        self.odd: list[Path] = []
        self._paths: list[Path] = []
        # Most slots of a file with few items are a hole. They are filled below a frontier that `load` follows.
        self._maps = MapCache(_MOST_MAPS, Holes.INNER_ZEROS)
        self._size = file_size(*sizes)

    def load(self) -> None:
        """See `OpenIndex`."""
        self.take(list_index_files(self.folder))

    def take(self, files: Sequence[IndexFileOnDisk]) -> None:
        """Search these files from now on."""
        self._maps.clear()
        self._paths = [file.path for file in files if file.size == self._size]
        self.odd = [file.path for file in files if file.size != self._size]

    def advance(self) -> None:
        """See `OpenIndex`."""
        self.load()

    def lacks(self) -> str:
        """See `OpenIndex`."""
        if self.odd:
            more = f" and {len(self.odd) - 1} more" if len(self.odd) > 1 else ""
            return (
                f"{self.odd[0]}{more}: not as long as {self.slots} slots and {self.items} items give, so no message "
                "is found by key there. Name its sizes (maxHashSlotNum, maxIndexNum), or run `reput rebuild --only "
                "index`"
            )
        return ""

    def has(self, record: Record) -> bool:  # noqa: ARG002 - an OpenIndex
        """See `OpenIndex`. IndexFiles expire with the log, and a broker writes them from its first message on."""
        return True

    def place(self, below: int) -> tuple[int, int]:
        """Return the number of items of records below a log offset in the last file with any, and its begin (ms)."""
        for path in reversed(self._paths):
            data = self._map(path).data
            header = Header(*HEADER.struct.unpack_from(data, 0))
            count = self._items_below(data, header.index_count, below)
            if count:
                return count, header.begin_timestamp
        return 0, 0

    def _items_below(self, data: bytes | memoryview, end: int, below: int) -> int:
        """Return the number of a file's items, 1 to `end`, that belong to records below a log offset."""
        base = items_at(self.slots)

        def is_past(item: int) -> bool:
            physical_offset: int = ITEM.struct.unpack_from(data, base + item * ITEM_SIZE)[1]
            return physical_offset >= below

        return first_where(1, min(end, self.items), is_past) - 1

    def find(self, asked: IndexQuestion, tail: Iterable[int] = ()) -> Iterator[int]:
        """See `OpenIndex`; RocketMQ, too, begins with the newest."""
        yield from tail
        key_hash = item_hash(asked.topic, asked.key, asked.by_tag)
        for offset, _ in self.items_of(key_hash, asked.begin_ms, asked.end_ms, asked.below, asked.exact):
            yield offset

    def items_of(
        self, key_hash: int, begin_ms: int, end_ms: int, below: int, exact: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Yield physical offset and time (ms, whole seconds from the file's begin) of items of this hash, newest first.

        Items of records at or above log offset `below` do not count: the tail has them. `exact`: the first item of a
        file has the file's begin as its time. Its own time counts from the end of the file before, so RocketMQ reads it
        too late by the time between the files, and leaves it out of ranges that it belongs to. An end in the header
        before the last item's time does not count either.

        Raises:
            DamagedStoreError: with `exact`: a chain of items does not lead to older ones, so some would not be found.
        """
        for path in reversed(self._paths):
            data = self._map(path).data
            header = Header(*HEADER.struct.unpack_from(data, 0))
            if begin_ms <= self._end_ms(data, header, exact) and header.begin_timestamp <= end_ms:
                yield from self._chain(path, header, key_hash, begin_ms, end_ms, below, exact)
            if header.begin_timestamp < begin_ms:
                return

    def mapped(self, most: int) -> MappedIndexFiles | None:
        """See `OpenIndex`."""
        if len(self._paths) > most:
            return None
        return MappedIndexFiles(self.sizes, tuple(map(self._map, reversed(self._paths))))

    def _map(self, path: Path) -> NDArray[np.uint8]:
        found = self._maps.get(path.name)
        return found if found is not None else self._maps.open(path.name, str(path), self._size)

    def _end_ms(self, data: memoryview, header: Header, exact: bool) -> int:
        """Return the time (ms) up to which a file may have items; `exact`: at least that of its last item."""
        last = min(header.index_count, self.items) - 1
        if not exact or last < 1:
            return header.end_timestamp
        _, _, diff_s, _ = ITEM.struct.unpack_from(data, items_at(self.slots, last))
        return max(header.end_timestamp, header.begin_timestamp + (int(diff_s) + 1) * 1000)

    def _chain(
        self,
        path: Path,
        header: Header,
        key_hash: int,
        begin_ms: int,
        end_ms: int,
        below: int,
        exact: bool,
    ) -> Iterator[tuple[int, int]]:
        data = self._map(path).data
        # A writer sets slots before the count. Its new items are there by then, and lead to older ones. A search of
        # RocketMQ ends there.
        count = self.items - 1 if exact else min(header.index_count, self.items - 1)
        (number,) = SLOT.struct.unpack_from(data, HEADER_SIZE + key_hash % self.slots * SLOT_SIZE)
        base = items_at(self.slots)
        while 0 < number <= count:
            found_hash, physical_offset, diff_s, previous = ITEM.struct.unpack_from(data, base + number * ITEM_SIZE)
            if diff_s < 0:
                return
            time = header.begin_timestamp + (0 if exact and number == 1 else diff_s * 1000)
            if found_hash == key_hash and begin_ms <= time <= end_ms and physical_offset < below:
                yield physical_offset, time
            if time < begin_ms:
                return
            # A link that does not lead to an older item would lead in circles.
            if previous >= number:
                if exact:
                    raise chain_damage(path, items_at(self.slots, number), number, previous)
                return
            number = previous

    def close(self) -> None:
        """Close the maps."""
        self._maps.clear()
