"""The files that decode tasks leave for the next stage: a split's queue ranges, and its index items as columns.

They are private to one job, lie in its staging folder and are removed before the swap. Raw native arrays, one after the
other; the counts stand in front (ranges) or are known to the driver (items).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files import fs
from reput.formats.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.kernels.columns import Columns


class QueueRanges(NamedTuple):
    """The queues of one split in which it has entries.

    `first`, `last` int64: queue offsets of the first and last record; `entries` int64; `steady` uint8.
    """

    keys: list[QueueKey]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    entries: NDArray[np.int64]
    steady: NDArray[np.uint8]


def key_order(key: QueueKey) -> tuple[int, bytes, int]:
    """What a split's queues are sorted by in what is left of them: as RocksDB's keys are."""
    return len(key.topic), key.topic, key.queue_id


def ranges_path(parts_folder: str, number: int) -> str:
    """The file of a split's queue ranges."""
    return f"{parts_folder}/{number}.ranges"


def items_path(parts_folder: str, number: int) -> str:
    """The file of a split's index items."""
    return f"{parts_folder}/{number}.items"


def save_ranges(path: str, batch: QueueBatch, rows: NDArray[np.int64]) -> None:
    """Leave the ranges of the queues in `rows`."""
    columns = batch.columns
    names = b"".join(columns.topic(row) for row in rows.tolist())
    fs.save_array(
        path,
        np.array([len(rows), len(names)], dtype=np.int64),
        batch.first[rows],
        batch.last[rows],
        np.diff(batch.start)[rows],
        columns.queue_id[rows],
        columns.topic_size[rows],
        batch.steady[rows],
        np.frombuffer(names, dtype=np.uint8),
    )


def save_key_ranges(path: str, ranges: QueueRanges) -> None:
    """Leave such ranges; see `load_ranges`."""
    names = b"".join(key.topic for key in ranges.keys)
    fs.save_array(
        path,
        np.array([len(ranges.keys), len(names)], dtype=np.int64),
        ranges.first,
        ranges.last,
        ranges.entries,
        np.array([key.queue_id for key in ranges.keys], dtype=np.int32),
        np.array([len(key.topic) for key in ranges.keys], dtype=np.int32),
        ranges.steady,
        np.frombuffer(names, dtype=np.uint8),
    )


def load_ranges(path: str, begin: int = 0, end: int | None = None) -> QueueRanges:
    """The ranges that a split left, or those of its queues [begin, end) in the order in which they were left."""
    rows, name_bytes = fs.load_array(path, "i8", 2).tolist()
    offset = 16
    columns = []
    for dtype in ("i8", "i8", "i8", "i4", "i4", "u1"):
        columns.append(fs.load_array(path, dtype, rows, offset))
        offset += columns[-1].nbytes
    first, last, count, queue_id, topic_size, steady = columns
    names = fs.load_array(path, "u1", name_bytes, offset).tobytes()
    chosen = slice(begin, rows if end is None else end)
    ends = np.cumsum(topic_size)
    keys = [
        QueueKey(names[at - size : at], queue)
        for at, size, queue in zip(
            ends[chosen].tolist(), topic_size[chosen].tolist(), queue_id[chosen].tolist(), strict=True
        )
    ]
    return QueueRanges(keys, first[chosen], last[chosen], count[chosen], steady[chosen])


def entries_path(parts_folder: str, number: int) -> str:
    """The file of a split's queue entries, where they are not written to their places at once."""
    return f"{parts_folder}/{number}.entries"


def save_entries(path: str, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Leave the entries of the queues in `rows`, queue by queue in that order."""
    fs.save_array(path, *([np.concatenate([batch.entries_of(row) for row in rows])] if rows else []))


def load_entries(path: str, entries: int) -> NDArray[np.uint8]:
    """The entries that a split left, of which there are so many (uint8, 20 bytes each)."""
    return fs.load_array(path, "u1", entries * ENTRY_SIZE)


def batches_path(parts_folder: str, number: int) -> str:
    """The file of a split's entries for queues of batches."""
    return f"{parts_folder}/{number}.batches"


def save_batches(path: str, queues: Mapping[QueueKey, NDArray[np.void]]) -> None:
    """Leave the entries of queues of batches."""
    names = b"".join(key.topic for key in queues)
    fs.save_array(
        path,
        np.array([len(queues), len(names)], dtype=np.int64),
        np.array([len(entries) for entries in queues.values()], dtype=np.int64),
        np.array([key.queue_id for key in queues], dtype=np.int32),
        np.array([len(key.topic) for key in queues], dtype=np.int32),
        np.frombuffer(names, dtype=np.uint8),
        # Joined as bytes: numpy's own way to join would turn the fields' byte order.
        *(entries.view(np.uint8) for entries in queues.values()),
    )


class BatchPart:
    """The entries that a split left for queues of batches; `counts` says how many for each."""

    def __init__(self, path: str) -> None:
        self._path = path
        rows, name_bytes = fs.load_array(path, "i8", 2).tolist()
        counts = fs.load_array(path, "i8", rows, 16).tolist()
        queue_id = fs.load_array(path, "i4", rows, 16 + 8 * rows).tolist()
        sizes = fs.load_array(path, "i4", rows, 16 + 12 * rows).tolist()
        names = fs.load_array(path, "u1", name_bytes, 16 + 16 * rows).tobytes()
        ends = list(accumulate(sizes))
        keys = [
            QueueKey(names[end - size : end], queue) for end, size, queue in zip(ends, sizes, queue_id, strict=True)
        ]
        self.counts: dict[QueueKey, int] = dict(zip(keys, counts, strict=True))
        before = [0, *accumulate(counts)]
        begin = 16 + 16 * rows + name_bytes
        self._places = {key: begin + at * BATCH_ENTRY_SIZE for key, at in zip(keys, before, strict=False)}

    def entries(self, key: QueueKey) -> NDArray[np.void]:
        """The entries of one queue, in log order (dtype `BATCH_ENTRY`); none for one that the split has not."""
        count = self.counts.get(key, 0)
        if not count:
            return np.empty(0, dtype=BATCH_ENTRY.dtype)
        data = fs.load_array(self._path, "u1", count * BATCH_ENTRY_SIZE, self._places[key])
        return data.view(BATCH_ENTRY.dtype)


class ItemColumns(NamedTuple):
    """A split's index items.

    Per record `position` and `store_timestamp` (int64), and `first_item` (int32, records + 1); per item `item_hash`
    (int32).
    """

    position: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    first_item: NDArray[np.int32]
    item_hash: NDArray[np.int32]


def save_items(path: str, columns: Columns) -> None:
    """Leave the index items of decoded columns."""
    records, items = columns.records, columns.items
    fs.save_array(
        path,
        columns.position[:records],
        columns.store_timestamp[:records],
        columns.first_item[: records + 1],
        columns.item_hash[:items],
    )


def load_items(path: str, records: int, items: int) -> ItemColumns:
    """The index items that a split left."""
    offset = 0
    columns = []
    for dtype, count in (("i8", records), ("i8", records), ("i4", records + 1), ("i4", items)):
        columns.append(fs.load_array(path, dtype, count, offset))
        offset += columns[-1].nbytes
    return ItemColumns(*columns)
