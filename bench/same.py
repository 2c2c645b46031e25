"""Are two builds of the same indexes equal to the byte? Holes that both have are skipped."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_BYTES = 8 << 20


class DifferentError(Exception):
    """Two builds differ; the text names the first difference found."""


def assert_same_indexes(peers: Path, ours: Path) -> int:
    """Compare `consumequeue/` and `index/` below two folders; the number of files compared.

    ConsumeQueue files pair by name, IndexFiles by order: their names are the times when they were made.

    Raises:
        DifferentError: at the first file that is missing or differs.
    """
    queue_files = _files(peers / "consumequeue")
    if queue_files != _files(ours / "consumequeue"):
        raise DifferentError("the two have different ConsumeQueue files")
    pairs = [(peers / "consumequeue" / name, ours / "consumequeue" / name) for name in queue_files]
    pairs += _index_pairs(peers / "index", ours / "index")
    for left, right in pairs:
        _assert_same_file(left, right)
    return len(pairs)


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _index_pairs(peers: Path, ours: Path) -> list[tuple[Path, Path]]:
    left, right = _files(peers), _files(ours)
    if len(left) != len(right):
        raise DifferentError(f"the peer built {len(left)} IndexFiles, reput {len(right)}")
    return [(peers / name, ours / other) for name, other in zip(left, right, strict=True)]


def _assert_same_file(left: Path, right: Path) -> None:
    with left.open("rb", buffering=0) as a, right.open("rb", buffering=0) as b:
        size = os.fstat(a.fileno()).st_size
        if size != os.fstat(b.fileno()).st_size:
            raise DifferentError(f"{right} has another size than {left}")
        for begin, end in _merged(sorted([*_data(a.fileno(), size), *_data(b.fileno(), size)])):
            _assert_same_range(left, right, a.fileno(), b.fileno(), begin, end)


def _assert_same_range(left: Path, right: Path, a: int, b: int, begin: int, end: int) -> None:
    for position in range(begin, end, CHUNK_BYTES):
        count = min(CHUNK_BYTES, end - position)
        if os.pread(a, count, position) != os.pread(b, count, position):
            raise DifferentError(f"{right} differs from {left} in bytes {position} to {position + count}")


def _data(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of a file that are not holes."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # nothing but a hole from here on
                return
            raise
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


def _merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    position = 0
    for begin, end in ranges:
        if end > position:
            yield max(begin, position), end
            position = end
