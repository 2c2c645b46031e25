"""The durable frontier of a store: how far its indexes are complete."""

from __future__ import annotations

from typing import NamedTuple

from reput.files import fs
from reput.formats.own import files as own
from reput.store.disk.layout import StoreLayout

_FRONTIER_LIMIT = 1 << 20


class Frontiers(NamedTuple):
    """Log offsets below which the queue files and the IndexFiles are complete."""

    queue_offset: int
    index_offset: int

    @classmethod
    def at(cls, offset: int) -> Frontiers:
        """Both at one log offset."""
        return cls(offset, offset)

    @classmethod
    def of(cls, frontier: own.Frontier | None) -> Frontiers:
        """The offsets that the frontier file has; 0 without one."""
        return cls(frontier.queue_offset, frontier.index_offset) if frontier else cls.at(0)

    @property
    def both(self) -> int:
        """The log offset below which the queue files and the IndexFiles are complete."""
        return min(self)


def read_frontier(layout: StoreLayout) -> own.Frontier | None:
    """Read the durable frontier of a store; None without one.

    Raises:
        DamagedStoreError: the file is not a frontier.
    """
    return decoded_frontier(layout, frontier_bytes(layout))


def frontier_bytes(layout: StoreLayout) -> bytes | None:
    """Read the frontier file; None without one."""
    return fs.read_bytes(layout.own(own.FRONTIER_NAME), _FRONTIER_LIMIT)


def decoded_frontier(layout: StoreLayout, data: bytes | None) -> own.Frontier | None:
    """Decode what `frontier_bytes` returned.

    Raises:
        DamagedStoreError: the file is not a frontier.
    """
    return None if data is None else own.decode_frontier(data, str(layout.own(own.FRONTIER_NAME)))


NO_INDEX_FILE_NEEDED = "no message below reput's frontier has a key, or messageIndexEnable was off"


def needs_no_index_file(index_offset: int, index_file: str) -> bool:
    """Return True if a store without IndexFiles is whole: the index reached its frontier and made no file."""
    return index_offset > 0 and not index_file


def durable_offset(layout: StoreLayout, frontiers: Frontiers) -> int:
    """Return the log offset below which indexes are durable; a follower may have raised the visible `frontiers`."""
    frontier = read_frontier(layout)
    return min(frontiers.both, Frontiers.of(frontier).both) if frontier else frontiers.both


def marks_of(layout: StoreLayout) -> dict[str, int]:
    """Read the watermarks of a store, by name; all 0 if no job of reput has ever held it."""
    data = fs.read_bytes(layout.own(own.WATERMARKS_NAME), own.WATERMARKS.size) or b""
    names = (field.name for field in own.WATERMARKS.fields)
    return dict(zip(names, own.WATERMARKS.struct.unpack(data.ljust(own.WATERMARKS.size, b"\0")), strict=True))
