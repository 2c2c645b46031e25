"""What decode tasks leave of a split for the tables of RocksDB: its entries' values in the order of their keys.

Two files a split, both in the order of RocksDB's keys: the queue ranges (`parts.save_ranges`), and here the values of
all entries, followed by their queue offsets (int64) where some queue of the split does not run straight. They are
private to one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files import fs
from reput.formats.rocksdb import VALUE, VALUE_SIZE
from reput.kernels.columns import IN_QUEUE
from reput.pipeline.job import Job


def values_path(parts_folder: str, number: int) -> str:
    """The file of a split's values."""
    return f"{parts_folder}/{number}.values"


def save_values(job: Job, number: int, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Leave the values of the queues in `rows`, which are in the order of keys."""
    places = _by_key(batch, rows)
    offsets = batch.sources.queue_offset[places] if not batch.steady[list(rows)].all() else np.empty(0, dtype=np.int64)
    fs.save_array(values_path(job.parts_folder, number), _values_of(batch, places).view(np.uint8), offsets)


def save_value_rows(job: Job, number: int, values: NDArray[np.uint8]) -> None:
    """Leave values (uint8, one row each) that are in the order of keys, of queues that run straight."""
    fs.save_array(values_path(job.parts_folder, number), values)


def _by_key(batch: QueueBatch, rows: Sequence[int]) -> NDArray[np.int64]:
    """The sources with an entry of these queues: by queue in the order of `rows`, in log order within each."""
    rank = np.full(batch.columns.queues, -1, dtype=np.int32)
    rank[list(rows)] = np.arange(len(rows), dtype=np.int32)
    in_queue = np.flatnonzero(batch.sources.flags & IN_QUEUE)
    ranks = rank[batch.sources.queue[in_queue]]
    if (ranks < 0).any():
        in_queue, ranks = in_queue[ranks >= 0], ranks[ranks >= 0]
    # numpy sorts 16-bit numbers by radix, several times faster.
    narrow = ranks.astype(np.uint16) if len(rows) <= 1 << 16 else ranks
    return in_queue[np.argsort(narrow, kind="stable")]


def _values_of(batch: QueueBatch, places: NDArray[np.int64]) -> NDArray[np.void]:
    """The values of these entries, as RocksDB has them."""
    sources = batch.sources
    values = np.empty(len(places), dtype=VALUE.dtype)
    values["physical_offset"] = sources.position[places]
    values["size"] = sources.size[places]
    values["tags_code"] = sources.tags_code[places]
    values["store_timestamp"] = batch.store_timestamps(places)
    return values


class Piece(NamedTuple):
    """What one split has of one queue: its first queue offset, its values (uint8), offsets where it is not steady."""

    first: int
    values: NDArray[np.uint8]
    offsets: NDArray[np.int64] | None

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return len(self.values) // VALUE_SIZE


class PartRange(NamedTuple):
    """Queues [row_begin, row_end) of a split's part, whose entries begin with number `entry_begin` of `entries`."""

    split: int
    row_begin: int
    row_end: int
    entry_begin: int
    entries: int
    has_offsets: bool
