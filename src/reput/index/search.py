"""Searching IndexFiles by key hash and time, through maps; the newest file first, as in RocketMQ.

Source: `IndexService.queryOffset`, `IndexFile.selectPhyOffset`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.files.holes import Holes
from reput.files.maps import MapCache
from reput.formats.index_file import HEADER, HEADER_SIZE, ITEM, ITEM_SIZE, SLOT_SIZE, Header, file_size
from reput.index.files import IndexFileOnDisk, items_at, list_index_files

_MOST_MAPS = 256
_INT = struct.Struct(">i")


class IndexSearch:
    """The IndexFiles of a store, opened for searching.

    Args:
        folder: the index folder.
        slots, items: maxHashSlotNum and maxIndexNum of its files; files of another length are left out and named in
            `odd`.
    """

    def __init__(self, folder: Path, slots: int, items: int) -> None:
        self.folder = folder
        self.slots = slots
        self.items = items
        self.odd: list[Path] = []
        self._paths: list[Path] = []
        # Most slots of a file with few items are a hole. They are filled below a frontier that `load` follows.
        self._maps = MapCache(_MOST_MAPS, Holes.INNER_ZEROS)
        self._size = file_size(slots, items)

    @property
    def is_present(self) -> bool:
        """Return True if there is any IndexFile of the right length."""
        return bool(self._paths)

    def load(self, files: Sequence[IndexFileOnDisk] | None = None) -> None:
        """Search these files from now on; None lists those of the folder."""
        self._maps.clear()
        files = list_index_files(self.folder) if files is None else files
        self._paths = [file.path for file in files if file.size == self._size]
        self.odd = [file.path for file in files if file.size != self._size]

    def place(self, below: int) -> tuple[int, int]:
        """Return the number of items of records below a log offset in the last file with any, and its begin (ms)."""
        for path in reversed(self._paths):
            data = self._map(path).data
            header = Header(*HEADER.struct.unpack_from(data, 0))
            low, high = 1, max(1, min(header.index_count, self.items))
            base = items_at(self.slots)
            while low < high:
                middle = (low + high) // 2
                if ITEM.struct.unpack_from(data, base + middle * ITEM_SIZE)[1] < below:
                    low = middle + 1
                else:
                    high = middle
            if low > 1:
                return low - 1, header.begin_timestamp
        return 0, 0

    def find(
        self, key_hash: int, begin_ms: int, end_ms: int, below: int, exact: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Yield physical offset and time (ms, whole seconds from the file's begin) of items of this hash, newest first.

        Items of records at or above log offset `below` do not count: the tail has them. `exact`: the first item of a
        file has the file's begin as its time. Its own time counts from the end of the file before, so RocketMQ reads it
        too late by the time between the files, and leaves it out of ranges that it belongs to.
        """
        for path in reversed(self._paths):
            data = self._map(path).data
            header = Header(*HEADER.struct.unpack_from(data, 0))
            if _overlaps(header, begin_ms, end_ms):
                yield from self._chain(data, header, key_hash, begin_ms, end_ms, below, exact)
            if header.begin_timestamp < begin_ms:
                return

    def newest_first(self, most: int) -> tuple[NDArray[np.uint8], ...] | None:
        """Return the maps of all files, the newest first; None if there are more than `most`."""
        return tuple(map(self._map, reversed(self._paths))) if len(self._paths) <= most else None

    def _map(self, path: Path) -> NDArray[np.uint8]:
        found = self._maps.get(path.name)
        return found if found is not None else self._maps.open(path.name, str(path), self._size)

    def _chain(
        self,
        data: memoryview,
        header: Header,
        key_hash: int,
        begin_ms: int,
        end_ms: int,
        below: int,
        exact: bool,
    ) -> Iterator[tuple[int, int]]:
        count = min(header.index_count, self.items - 1)
        (number,) = _INT.unpack_from(data, HEADER_SIZE + key_hash % self.slots * SLOT_SIZE)
        base = items_at(self.slots)
        while 0 < number <= count:
            found_hash, physical_offset, diff_s, previous = ITEM.struct.unpack_from(data, base + number * ITEM_SIZE)
            if diff_s < 0:
                return
            time = header.begin_timestamp + (0 if exact and number == 1 else diff_s * 1000)
            if found_hash == key_hash and begin_ms <= time <= end_ms and physical_offset < below:
                yield physical_offset, time
            # A link that does not lead to an older item would lead in circles.
            if time < begin_ms or previous >= number:
                return
            number = previous

    def close(self) -> None:
        """Close the maps."""
        self._maps.clear()


def _overlaps(header: Header, begin_ms: int, end_ms: int) -> bool:
    return begin_ms <= header.end_timestamp and header.begin_timestamp <= end_ms
