"""ConsumeQueueExt files on disk: units by their addresses, and the places of the next units.

The entries of a queue say where its units end, see `reput.store.recover.ext_end`.

Source: `ConsumeQueueExt.put`, `get`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files.maps import MapCache
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.consume_queue_ext import (
    END_ROOM,
    MAX_ADDRESS,
    MIN_ADDRESS,
    UNIT,
    UNIT_SIZE,
    Unit,
    decode_unit,
    is_address,
    offset_of,
)
from reput.formats.stored_text import stored_text
from reput.queue.files import QueueFile, QueueFolder, list_queue_files

_MOST_MAPS = 1024


class Units(NamedTuple):
    """The units at some addresses, as columns of one length.

    Attributes:
        found: True if there is such a unit.
        tags_code: int64.
        store_timestamp: int64 (ms).
        size: int64, the unit's length.
    """

    found: NDArray[np.bool_]
    tags_code: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    size: NDArray[np.int64]

    @classmethod
    def none(cls, count: int) -> Units:
        """Return `count` units that do not exist."""
        return cls(np.zeros(count, dtype=np.bool_), *(np.zeros(count, dtype=np.int64) for _ in range(3)))


class ExtReader:
    """A reader of the units of all queues below a consumequeue_ext folder.

    Args:
        folder: the consumequeue_ext folder.
        file_size: bytes of each file.
    """

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size
        self._maps = MapCache(_MOST_MAPS)

    def unit(self, key: QueueKey, address: int) -> Unit | None:
        """Return the unit of a queue at an address; None if there is none."""
        if not is_address(address):
            return None
        number, position = divmod(offset_of(address), self.file_size)
        array = self._file(key, number)
        return None if array is None else decode_unit(array.data, position)

    def units(self, key: QueueKey, addresses: NDArray[np.int64]) -> Units:
        """Return the units of a queue at these addresses."""
        units = Units.none(len(addresses))
        offsets = addresses - np.int64(MIN_ADDRESS)
        numbers = np.where(addresses <= MAX_ADDRESS, offsets // self.file_size, -1)
        for number in np.unique(numbers).tolist():
            array = self._file(key, number) if number >= 0 else None
            if array is not None:
                rows = np.flatnonzero(numbers == number)
                _take(array, offsets[rows] - number * self.file_size, rows, units)
        return units

    def bitmaps(self, key: QueueKey, addresses: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        """Return the bitmaps of units (uint8, a row for each address) that exist and have a bitmap of `size` bytes."""
        offsets = addresses - np.int64(MIN_ADDRESS)
        bitmaps = np.zeros((len(addresses), size), dtype=np.uint8)
        numbers = offsets // self.file_size
        for number in np.unique(numbers).tolist():
            array = self._file(key, number)
            if array is not None:
                rows = np.flatnonzero(numbers == number)
                places = offsets[rows] - number * self.file_size + UNIT_SIZE
                bitmaps[rows] = array[places[:, None] + np.arange(size)]
        return bitmaps

    def _file(self, key: QueueKey, number: int) -> NDArray[np.uint8] | None:
        array = self._maps.get((key, number))
        if array is None:
            name = paths.offset_name(number * self.file_size)
            path = self.folder / stored_text(key.topic) / str(key.queue_id) / name
            if not path.is_file() or path.stat().st_size < self.file_size:
                return None
            array = self._maps.open((key, number), str(path), self.file_size)
        return array

    def close(self) -> None:
        """Close the maps."""
        self._maps.clear()


def _take(array: NDArray[np.uint8], places: NDArray[np.int64], rows: NDArray[np.int64], units: Units) -> None:
    """Read the units at these places of a file into their rows. Units that are not whole in the file are not found."""
    inside = (places >= 0) & (places <= len(array) - UNIT_SIZE)
    places, rows = places[inside], rows[inside]
    size, bitmap = UNIT.taken(array, places, "size"), UNIT.taken(array, places, "bitmap_size")
    good = (bitmap >= 0) & (size == UNIT_SIZE + bitmap) & (places + size <= len(array))
    places, rows = places[good], rows[good]
    units.found[rows] = True
    units.tags_code[rows] = UNIT.taken(array, places, "tags_code")
    units.store_timestamp[rows] = UNIT.taken(array, places, "store_timestamp")
    units.size[rows] = size[good]


def list_ext_files(folder: Path, key: QueueKey) -> tuple[QueueFile, ...]:
    """Return the ext files of one queue, in order."""
    return list_queue_files(folder / stored_text(key.topic) / str(key.queue_id))


def found_ext_file_size(queues: Iterable[QueueFolder]) -> int | None:
    """Return the size that most ext files have; None if there are none."""
    sizes = Counter(file.size for queue in queues for file in queue.files if file.size)
    return sizes.most_common(1)[0][0] if sizes else None


class UnitPlaces(NamedTuple):
    """Places for units: `offsets` (int64) in the queue's files, and `next`, the offset after the last of them.

    `ends`: the offsets at which a file ends with FILE_END, because the next unit has no room there.
    """

    offsets: NDArray[np.int64]
    next: int
    ends: tuple[int, ...]


def place_units(begin: int, size: int, count: int, file_size: int) -> UnitPlaces:
    """Return places for `count` units of `size` bytes each, from offset `begin` on.

    A unit and the END_ROOM bytes after it are within one file. Raises ValueError if no file has room for one.
    """
    room = file_size - END_ROOM
    if size > room:
        raise ValueError(f"a unit of {size} bytes has no room in a file of {file_size}")
    offsets = np.empty(count, dtype=np.int64)
    ends, done, at = [], 0, begin
    while done < count:
        start = at // file_size * file_size
        fitting = min((start + room - at) // size, count - done)
        if fitting <= 0:
            ends.append(at)
            at = start + file_size
            continue
        offsets[done : done + fitting] = at + np.arange(fitting, dtype=np.int64) * size
        done += fitting
        at += fitting * size
    return UnitPlaces(offsets, at, tuple(ends))
