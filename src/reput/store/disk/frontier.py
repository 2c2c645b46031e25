"""The durable frontier of a store: how far its indexes are complete."""

from __future__ import annotations

from typing import NamedTuple

from reput.files import fs
from reput.formats import own
from reput.store.disk.layout import StoreLayout

_FRONTIER_LIMIT = 1 << 20


class Frontiers(NamedTuple):
    """Log offsets below which the queue files, and the IndexFiles, are complete."""

    queue_offset: int
    index_offset: int


def read_frontier(layout: StoreLayout) -> own.Frontier | None:
    """The durable frontier of a store; None without one.

    Raises:
        DamagedStoreError: the file is there and is no frontier.
    """
    path = layout.own(own.FRONTIER_NAME)
    data = fs.read_bytes(path, _FRONTIER_LIMIT)
    return None if data is None else own.decode_frontier(data, str(path))


NO_INDEX_FILE_NEEDED = "no message below reput's frontier has a key, or messageIndexEnable was off"


def needs_no_index_file(index_offset: int, index_file: str) -> bool:
    """Return whether a store without IndexFiles is whole by its frontier: the index came that far and made none."""
    return index_offset > 0 and not index_file


def visible_offset(frontier: own.Frontier | None) -> int:
    """The log offset below which queues and IndexFiles both are complete."""
    return min(frontier.queue_offset, frontier.index_offset) if frontier else 0


def durable_offset(layout: StoreLayout, frontiers: Frontiers) -> int:
    """The log offset below which indexes are durable; beside a follower the visible `frontiers` may be further on."""
    frontier = read_frontier(layout)
    return min(*frontiers, visible_offset(frontier)) if frontier else min(frontiers)
