"""Parts that decode tasks leave for the next stage (`reput.files.part_file`): queue ranges, entries, items.

Parts are private to one job, in its staging folder, and are removed before the swap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files.part_file import Part, part_path, write_part
from reput.formats.own.part_file import PartKind
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.kernels.layouts.columns import HAS_TAG_ITEM, Columns
from reput.pipeline.split.job import Job

KEY_ROWS = {"queue_id": "i4", "topic_size": "i4"}
TOPICS = {"topics": "u1"}
"""The columns of queues: their ids, the lengths of their topics, and the topics one after the other."""

RANGES = PartKind("ranges", {"first": "i8", "last": "i8", "entries": "i8", "steady": "u1", **KEY_ROWS}, TOPICS)
ENTRIES = PartKind("entries", {"entry": f"V{ENTRY_SIZE}"})
BATCH_ENTRIES = PartKind("batches", {"count": "i8", **KEY_ROWS}, {**TOPICS, "entry": f"V{BATCH_ENTRY_SIZE}"})
ITEMS = PartKind(
    "items", {"position": "i8", "store_timestamp": "i8"}, {"first_item": "i4", "item_hash": "i4", "has_tag": "u1"}
)


def key_order(key: QueueKey) -> tuple[int, bytes, int]:
    """Return the sort key of queues in parts, which is the order of RocksDB's keys."""
    return len(key.topic), key.topic, key.queue_id


def key_columns(keys: Sequence[QueueKey]) -> dict[str, NDArray[Any]]:
    """Return the columns of these queues."""
    return {
        "queue_id": np.array([key.queue_id for key in keys], dtype=np.int32),
        "topic_size": np.array([len(key.topic) for key in keys], dtype=np.int32),
        "topics": np.frombuffer(b"".join(key.topic for key in keys), dtype=np.uint8),
    }


def keys_of(part: Part, begin: int = 0, end: int | None = None) -> list[QueueKey]:
    """Return the queues [begin, end) of a part.

    Raises:
        ReputError: the lengths of its topics do not add up.
    """
    sizes = part.read("topic_size")
    if (sizes < 0).any() or sizes.sum(dtype=np.int64) != part.count("topics"):
        raise part.damaged("the lengths of its topics do not add up")
    bounds = [0, *accumulate(sizes.tolist())]
    until = len(sizes) if end is None else end
    names = part.read("topics", bounds[begin], bounds[until]).tobytes()
    at = bounds[begin]
    ids = part.read("queue_id", begin, until).tolist()
    return [QueueKey(names[bounds[n] - at : bounds[n + 1] - at], ids[n - begin]) for n in range(begin, until)]


# --- queue ranges ----------------------------------------------------------------------------------


class QueueRanges(NamedTuple):
    """The queues of one split in which it has entries.

    `first`, `last` int64: queue offsets of the first and last record; `entries` int64; `steady` uint8.
    """

    keys: list[QueueKey]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    entries: NDArray[np.int64]
    steady: NDArray[np.uint8]


def save_ranges(job: Job, number: int, batch: QueueBatch, rows: NDArray[np.int64]) -> None:
    """Leave the ranges of the queues in `rows`."""
    columns = batch.columns
    write_part(
        part_path(job.parts_folder, RANGES, number),
        RANGES,
        first=batch.first[rows],
        last=batch.last[rows],
        entries=np.diff(batch.start)[rows],
        steady=batch.steady[rows],
        queue_id=columns.queue_id[rows],
        topic_size=columns.topic_size[rows],
        topics=np.frombuffer(b"".join(columns.topic(row) for row in rows.tolist()), dtype=np.uint8),
    )


def save_key_ranges(job: Job, number: int, ranges: QueueRanges) -> None:
    """Leave ranges; see `load_ranges`."""
    columns = {name: column for name, column in ranges._asdict().items() if name != "keys"}
    write_part(part_path(job.parts_folder, RANGES, number), RANGES, **columns, **key_columns(ranges.keys))


def load_ranges(job: Job, number: int, begin: int = 0, end: int | None = None) -> QueueRanges:
    """Return the ranges that a split left, or those of its queues [begin, end) in the order of the part."""
    part = Part(part_path(job.parts_folder, RANGES, number), RANGES)
    first, last, entries, steady = (part.read(name, begin, end) for name in ("first", "last", "entries", "steady"))
    return QueueRanges(keys_of(part, begin, end), first, last, entries, steady)


# --- entries ---------------------------------------------------------------------------------------


def save_entries(job: Job, number: int, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Leave the entries of the queues in `rows`, queue by queue in that order."""
    found = [batch.entries_of(row) for row in rows]
    entries = np.concatenate(found) if found else np.empty(0, dtype=np.uint8)
    write_part(part_path(job.parts_folder, ENTRIES, number), ENTRIES, entry=entries)


def load_entries(job: Job, number: int) -> NDArray[np.uint8]:
    """Return the entries that a split left (uint8, 20 bytes each)."""
    return Part(part_path(job.parts_folder, ENTRIES, number), ENTRIES).read("entry").view(np.uint8)


def save_batches(job: Job, number: int, queues: Mapping[QueueKey, NDArray[np.void]]) -> None:
    """Leave the entries of queues of batches."""
    write_part(
        part_path(job.parts_folder, BATCH_ENTRIES, number),
        BATCH_ENTRIES,
        count=np.array([len(entries) for entries in queues.values()], dtype=np.int64),
        # Joined as bytes: numpy's own way to join would turn the fields' byte order.
        entry=np.concatenate([entries.view(np.uint8) for entries in queues.values()]),
        **key_columns([*queues]),
    )


class BatchPart:
    """The entries that a split left for queues of batches; `counts` has the number for each queue."""

    def __init__(self, job: Job, number: int) -> None:
        self._part = Part(part_path(job.parts_folder, BATCH_ENTRIES, number), BATCH_ENTRIES)
        counts = self._part.read("count").tolist()
        self.counts: dict[QueueKey, int] = dict(zip(keys_of(self._part), counts, strict=True))
        self._begins = dict(zip(self.counts, accumulate(counts, initial=0), strict=False))

    def entries(self, key: QueueKey) -> NDArray[np.void]:
        """Return the entries of one queue, in log order (dtype `BATCH_ENTRY`); none if the split has no such queue."""
        begin = self._begins.get(key, 0)
        return self._part.read("entry", begin, begin + self.counts.get(key, 0)).view(BATCH_ENTRY.dtype)


# --- index items -----------------------------------------------------------------------------------


class ItemColumns(NamedTuple):
    """A split's index items.

    Per record `position` and `store_timestamp` (int64), and `first_item` (int32, records + 1); per item `item_hash`
    (int32). `has_tag` (uint8): a record's last item is the item of its tags; only a check leaves this column.
    """

    position: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    first_item: NDArray[np.int32]
    item_hash: NDArray[np.int32]
    has_tag: NDArray[np.uint8]

    def record_of(self, item: int) -> int:
        """Return the record of an item."""
        return int(np.searchsorted(self.first_item, item, side="right")) - 1

    def place_of(self, item: int) -> tuple[int, int]:
        """Return the physical offset and store time of an item's record."""
        record = self.record_of(item)
        return int(self.position[record]), int(self.store_timestamp[record])


def items_of(columns: Columns, *, with_tags: bool = False) -> ItemColumns:
    """Return the index items of decoded columns."""
    records = columns.records
    tagged = (columns.flags[: records if with_tags else 0] & HAS_TAG_ITEM) != 0
    return ItemColumns(
        columns.position[:records],
        columns.store_timestamp[:records],
        columns.first_item[: records + 1],
        columns.item_hash[: columns.items],
        tagged.view(np.uint8),
    )


def save_items(job: Job, number: int, items: ItemColumns) -> None:
    """Leave a split's index items."""
    write_part(part_path(job.parts_folder, ITEMS, number), ITEMS, **items._asdict())


def load_items(job: Job, number: int) -> ItemColumns:
    """Return the index items that a split left."""
    part = Part(part_path(job.parts_folder, ITEMS, number), ITEMS)
    return ItemColumns(*(part.read(name) for name in ItemColumns._fields))
