"""Parts that decode tasks leave for the tables of RocksDB: the values of a split's entries in the order of their keys.

Each split leaves two parts in the order of RocksDB's keys: the queue ranges (`parts.save_ranges`), and here the values
of all entries. Their queue offsets are added if a queue of the split is out of order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files.part_file import Part, part_path, write_part
from reput.formats.own.part_file import PartKind
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE
from reput.kernels import table_kernels
from reput.kernels.layouts.columns import IN_QUEUE
from reput.pipeline.split.job import Job

VALUES = PartKind("values", {}, {"value": f"V{VALUE_SIZE}", "queue_offset": "i8"})


def save_values(job: Job, number: int, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Leave the values of the queues in `rows`, which are in the order of keys."""
    chosen = np.array(rows, dtype=np.int64)
    offsets = np.empty(0, dtype=np.int64)
    if not batch.steady[chosen].all():
        offsets = batch.sources.queue_offset[_by_key(batch, chosen)]
    path = part_path(job.parts_folder, VALUES, number)
    write_part(path, VALUES, value=_values_of(batch, chosen), queue_offset=offsets)


def save_value_rows(job: Job, number: int, values: NDArray[np.uint8]) -> None:
    """Leave values (uint8, one row each) of queues in order, in the order of keys."""
    path = part_path(job.parts_folder, VALUES, number)
    write_part(path, VALUES, value=values.reshape(-1), queue_offset=np.empty(0, dtype=np.int64))


def map_values(job: Job, number: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the values that a split left (uint8, one row each) and their queue offsets (none: all are in order)."""
    values, offsets = Part(part_path(job.parts_folder, VALUES, number), VALUES).mapped("value", "queue_offset")
    return values.view(np.uint8).reshape(-1, VALUE_SIZE), offsets


def _values_of(batch: QueueBatch, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the values of these queues' entries, in RocksDB's layout."""
    counts = np.diff(batch.start)[rows]
    before = np.cumsum(counts) - counts
    place = np.full(batch.columns.queues, -1, dtype=np.int64)
    place[rows] = before
    values = np.empty(int(counts.sum()) * VALUE_SIZE, dtype=np.uint8)
    table_kernels().pack_values(batch.sources, batch.store_timestamps(), place, values)
    return values


def _by_key(batch: QueueBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sources with an entry of these queues, sorted by queue as in `rows`, then in log order."""
    rank = np.full(batch.columns.queues, -1, dtype=np.int64)
    rank[rows] = np.arange(len(rows))
    in_queue = np.flatnonzero(batch.sources.flags & IN_QUEUE)
    ranks = rank[batch.sources.queue[in_queue]]
    return in_queue[ranks >= 0][np.argsort(ranks[ranks >= 0], kind="stable")]


class PartRange(NamedTuple):
    """Queues [row_begin, row_end) of a split's part, whose entries begin with number `entry_begin`."""

    split: int
    row_begin: int
    row_end: int
    entry_begin: int
