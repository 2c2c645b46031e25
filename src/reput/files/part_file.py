"""Parts: the files that one stage of a job leaves for the next (`reput.formats.own.part_file`), written and read.

A part is written under a name of its own and renamed when it is complete, so a reader keeps the part that it has.
Opening a part first checks its head and its size; only then are its counts believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reput.errors import ReputError
from reput.files import fs
from reput.formats.own.part_file import PartKind, aligned, decode_head, encode_head


def part_path(folder: str, kind: PartKind, name: object) -> str:
    """Return the path of the part of this kind that task `name` leaves."""
    return f"{folder}/{name}.{kind.name}"


def write_part(path: str, kind: PartKind, **columns: NDArray[Any]) -> None:
    """Write a part; `columns` are those of its kind, in any order."""
    found = [np.ascontiguousarray(columns.pop(name)).view(dtype) for name, dtype in kind.dtypes.items()]
    if columns:
        raise ValueError(f"{kind.name} has no column {', '.join(columns)}")
    pieces: list[NDArray[Any]] = []
    for piece in (np.frombuffer(encode_head(kind, list(map(len, found))), dtype=np.uint8), *found):
        padding = aligned(piece.nbytes) - piece.nbytes
        pieces += [one for one in (piece, np.zeros(padding, dtype=np.uint8)) if len(one)]
    fs.save_array(path, *pieces)


class Part:
    """An existing part; its columns are read on demand."""

    def __init__(self, path: str, kind: PartKind) -> None:
        """Open a part.

        Raises:
            ReputError: It is not as a task left it.
        """
        self._path = path
        size = fs.size_of(path)
        try:
            self._places = decode_head(kind, fs.read_bytes(path, kind.head_size) or b"", size)
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def damaged(self, why: str) -> ReputError:
        """Return the error that gives the reason why this part is not believed."""
        return ReputError(
            f"{self._path}: {why}. It is a temporary file of this job, and something else has changed it: run the job "
            "again"
        )

    def count(self, name: str) -> int:
        """Return the number of values of a column."""
        return self._places[name].length

    def read(self, name: str, begin: int = 0, end: int | None = None) -> NDArray[Any]:
        """Return values [begin, end) of a column; by default all of them.

        Raises:
            ReputError: The column has fewer values.
        """
        place = self._places[name]
        until = place.length if end is None else end
        if not 0 <= begin <= until <= place.length:
            raise self.damaged(f"column {name} has {place.length} values, {begin} to {until} were expected")
        if begin == until:
            return np.empty(0, dtype=place.dtype)
        return fs.load_array(self._path, place.dtype, until - begin, place.offset + begin * place.width)

    def mapped(self, *names: str) -> list[NDArray[Any]]:
        """Return some whole columns, in one map of the file, which lives as long as they do."""
        places = [self._places[name] for name in names]
        data = fs.map_file(self._path, max(place.end for place in places))
        return [data[place.offset : place.end].view(place.dtype) for place in places]
