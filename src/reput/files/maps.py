"""Read-only maps of many files, kept open for the next reader; the oldest map is dropped first.

A map stays valid as long as a caller holds its array, even after the file is deleted or the map is dropped here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable

import numpy as np
from numpy.typing import NDArray

from reput.errors import ReputError
from reput.files import fs
from reput.files.descriptors import has_more_files
from reput.files.holes import Holes
from reput.kernels.layouts.lookup import FIRST_FILE, FileTableAt
from reput.kernels.layouts.vectors import address_of


class MapCache:
    """At most `most` maps, each under a key of the caller's choice. Safe for threads.

    `holes`: the content that the maps show for holes that are filled later.
    """

    def __init__(self, most: int, holes: Holes = Holes.LIVE) -> None:
        self.most = most
        self._holes = holes
        self._maps: dict[Hashable, NDArray[np.uint8]] = {}
        self._lock = threading.Lock()
        # One look-up and no call: pulls use this. Noting each use, to drop the least used map, cost 0.4 us.
        self.get = self._maps.get

    def open(self, key: Hashable, path: str, size: int) -> NDArray[np.uint8]:
        """Map the first `size` bytes of a file and keep it under `key`.

        Raises:
            ReputError: The file is missing, or shorter.
        """
        try:
            array = fs.map_file(path, size, self._holes)
        except ReputError as error:
            if not has_more_files(error):
                raise
            array = fs.map_file(path, size, self._holes)
        with self._lock:
            self._maps[key] = array
            while len(self._maps) > self.most:
                del self._maps[next(iter(self._maps))]
        return array

    def forget_pages(self) -> None:
        """Drop the pages of all maps from this process's memory; the next read finds them in the files."""
        with self._lock:
            arrays = list(self._maps.values())
        for array in arrays:
            fs.forget_pages_of(array)

    def keep(self, keys: Collection[Hashable]) -> None:
        """Drop the maps under other keys: a deleted file takes room on the disk as long as it is mapped."""
        with self._lock:
            for key in self._maps.keys() - keys:
                del self._maps[key]

    def clear(self) -> None:
        """Drop all maps; maps in use live on with their users."""
        with self._lock:
            self._maps.clear()


class MapTable:
    """The maps of the files of one kind by number, and their addresses, for kernels that go from file to file.

    `words` has the layout of `reput.kernels.layouts.lookup.FileTable`, and is at `address` in memory. `arrays` has all
    maps that a kernel can have found in the table; holding it keeps them.
    """

    def __init__(self, first: int, count: int, most: int) -> None:
        self.words: NDArray[np.int64] = np.zeros(FIRST_FILE + count, dtype=np.int64)
        self.words[FileTableAt.first], self.words[FileTableAt.count] = first, count
        self.address = address_of(self.words)
        self.arrays: dict[int, NDArray[np.uint8]] = {}
        self.most = most
        self._lock = threading.Lock()

    def put(self, number: int, array: NDArray[np.uint8] | None) -> bool:
        """Enter a file's map, or None for a missing file; return False if the table has `most` maps, or no place."""
        place = FIRST_FILE + number - int(self.words[FileTableAt.first])
        if not FIRST_FILE <= place < len(self.words):
            return False
        with self._lock:
            if array is None:
                self.words[place] = -1
                return True
            if number not in self.arrays and len(self.arrays) >= self.most:
                return False
            self.arrays = {**self.arrays, number: array}
            self.words[place] = address_of(array)
            return True
