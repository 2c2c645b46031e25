"""From decoded columns to the content of indexes: ConsumeQueue entries by queue, index items in log order. Pure.

Dispatch is by transaction type: plain and committed messages get a ConsumeQueue entry, all but rolled-back ones get
index items (`CommitLogDispatcherBuildConsumeQueue`, `CommitLogDispatcherBuildIndex`). The decode kernel has put that
into the `flags` column; nothing here handles one message alone.

A message may get entries in further queues, beside its own (light message queues). A topic whose queues hold batches
has entries of another kind, in queues of their own (`batches`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from reput.formats.log.record import MIN_RECORD_SIZE, QUEUE_OFFSET_SLACK
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, NOT_COMPACTED
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.queue.queue_types import UNKNOWN_TYPES, QueueTypes
from reput.kernels.layouts.columns import IN_QUEUE, Columns
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.pack import pack_entries

_NOTHING: Mapping[QueueKey, int] = MappingProxyType({})


@dataclass(slots=True)
class BatchEntries:
    """The entries of a range for queues of batches: per queue, in log order (dtype `BATCH_ENTRY`, 46 bytes each).

    `without_entry` counts records of such topics that get none, since their INNER_NUM and INNER_BASE are impossible;
    `first_without_entry` is the log offset of the first of them (-1: none). `inferred` are the topics that only their
    records showed to be of batches.
    """

    entries: dict[QueueKey, NDArray[np.void]] = field(default_factory=dict)
    without_entry: int = 0
    first_without_entry: int = -1
    inferred: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class QueueBatch:
    """The ConsumeQueue entries of one decoded range, grouped by queue, in log order within each.

    Attributes:
        entries: uint8, 20 bytes an entry.
        start: int64 (rows + 1), the number of entries before each queue row.
        first: int64, the queue offset of the first record of each row (-1 without records).
        last: int64, the same of the last record.
        steady: uint8, 1 if the queue offsets of the row are consecutive.
        batches: the queues of batches.
        sources: the values from which entries are made, each of the record `record`.
        record: int32; None: the records of the columns, each once.
    """

    columns: Columns
    sources: EntrySources
    record: NDArray[np.int32] | None
    batches: BatchEntries
    entries: NDArray[np.uint8]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    steady: NDArray[np.uint8]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the queues that have entries here."""
        return np.flatnonzero(np.diff(self.start))

    def key(self, row: int) -> QueueKey:
        """Return the queue of a row."""
        return self.columns.key(row)

    def entries_of(self, row: int) -> NDArray[np.uint8]:
        """Return a queue's entries."""
        begin, end = int(self.start[row]) * ENTRY_SIZE, int(self.start[row + 1]) * ENTRY_SIZE
        return self.entries[begin:end]

    def queue_entries(self, row: int) -> memoryview:
        """Return the bytes of a queue's entries."""
        return self.entries_of(row).data

    def queues(self) -> Iterator[tuple[int, QueueKey]]:
        """Yield row and key of each queue that has entries here."""
        rows, columns = self.rows, self.columns
        # Taken out as lists: an array access for each queue was most of the cost.
        begins, sizes = columns.topic_at[rows], columns.topic_size[rows]
        names = columns.names[: int((begins + sizes).max(initial=0))].tobytes()
        ends, ids = (begins + sizes).tolist(), columns.queue_id[rows].tolist()
        for row, begin, end, queue_id in zip(rows.tolist(), begins.tolist(), ends, ids, strict=True):
            yield row, QueueKey(names[begin:end], queue_id)

    def queue_offsets(self) -> NDArray[np.int64]:
        """Return the queue offset of each entry (int64), in the order of the entries."""
        return queue_offsets(self.sources)

    def store_timestamps(self) -> NDArray[np.int64]:
        """Return the store times (int64, ms) of the records of the sources."""
        times = self.columns.store_timestamp[: self.columns.records]
        return times if self.record is None else times[self.record]


def group_by_queue(
    columns: Columns, types: QueueTypes = UNKNOWN_TYPES, deleted: Mapping[QueueKey, int] = _NOTHING
) -> QueueBatch:
    """Group and pack the queue entries of decoded columns.

    A queue in `deleted` gets none for records below its log offset.
    """
    sources, record, batches = entry_sources(columns, types, deleted)
    return QueueBatch(columns, sources, record, batches, *pack_entries(columns.queues, sources))


def _without_deleted(
    columns: Columns, sources: EntrySources, batches: BatchEntries, deleted: Mapping[QueueKey, int]
) -> EntrySources:
    """Return the sources without entries of deleted queues; entries of batches are removed from `batches`."""
    below = np.zeros(columns.queues, dtype=np.int64)
    topics = {key.topic for key in deleted}
    # The table of queues may hold many more queues than have records here.
    for row in np.unique(sources.queue).tolist():
        if (topic := columns.topic(row)) in topics:
            below[row] = deleted.get(QueueKey(topic, int(columns.queue_id[row])), 0)
    for key in batches.entries.keys() & deleted.keys():
        kept = batches.entries[key][batches.entries[key]["physical_offset"] >= deleted[key]]
        batches.entries[key] = kept
        if not len(kept):
            del batches.entries[key]
    gone = sources.position < below[sources.queue]
    return sources._replace(flags=np.where(gone, sources.flags & ~np.uint8(IN_QUEUE), sources.flags))


def queue_offsets(sources: EntrySources) -> NDArray[np.int64]:
    """Return the queue offset of each entry (int64), in the order in which entries are packed."""
    in_queue = np.flatnonzero(sources.flags & IN_QUEUE)
    by_queue = in_queue[np.argsort(sources.queue[in_queue], kind="stable")]
    return sources.queue_offset[by_queue]


def entry_sources(
    columns: Columns, types: QueueTypes = UNKNOWN_TYPES, deleted: Mapping[QueueKey, int] = _NOTHING
) -> tuple[EntrySources, NDArray[np.int32] | None, BatchEntries]:
    """Return the sources of the entries of decoded columns, the record of each (as in `QueueBatch`), and the batches.

    `deleted`: see `group_by_queue`.
    """
    sources = EntrySources.of(columns)
    batches = BatchEntries()
    if types.batch or len(columns.batch_record):
        is_batch, inferred = _batch_rows(columns, types)
        batches = _batches(columns, is_batch)
        batches.inferred = inferred
        sources = sources._replace(flags=_without_batches(columns, is_batch))
    record = None
    if len(columns.further_record):
        sources, record = _with_further(columns, sources)
    if deleted:
        sources = _without_deleted(columns, sources, batches, deleted)
    return sources, record, batches


def _batch_rows(columns: Columns, types: QueueTypes) -> tuple[NDArray[np.bool_], frozenset[bytes]]:
    """Return which rows are queues of batches, and the topics that only their records show to be of batches."""
    inferring = columns.queue[columns.batch_record[columns.batch_base >= 0]]
    inferred = frozenset[bytes]()
    if not types.others_are_simple:
        inferred = frozenset(columns.topic(row) for row in np.unique(inferring).tolist()) - types.simple - types.batch
    known = types.batch | inferred
    is_batch = np.zeros(columns.queues, dtype=np.bool_)
    # The table of queues may hold many more queues than have records here.
    rows = np.flatnonzero(np.bincount(columns.queue[: columns.records], minlength=columns.queues))
    is_batch[rows] = [columns.topic(row) in known for row in rows.tolist()]
    return is_batch, inferred


def _batches(columns: Columns, is_batch: NDArray[np.bool_]) -> BatchEntries:
    """Return one entry for each record in the queues of batches: for all messages in it, or for the one that it is.

    Source: `BatchConsumeQueue.putMessagePositionInfoWrapper`, `DispatchRequest` (a count of 1 by default).
    """
    records = columns.records
    record = np.flatnonzero(is_batch[columns.queue[:records]] & ((columns.flags[:records] & IN_QUEUE) != 0))
    base, messages = columns.queue_offset[record], np.ones(len(record), dtype=np.int16)
    inner = is_batch[columns.queue[columns.batch_record]] & ((columns.batch_base >= 0) | (columns.batch_messages == 0))
    places = np.searchsorted(record, columns.batch_record[inner])
    base[places], messages[places] = columns.batch_base[inner], columns.batch_messages[inner]
    found = BatchEntries()
    impossible = messages == 0
    if impossible.any():
        found.without_entry = int(np.count_nonzero(impossible))
        found.first_without_entry = int(columns.position[record[int(np.argmax(impossible))]])
        record, base, messages = record[~impossible], base[~impossible], messages[~impossible]
    order = np.argsort(columns.queue[record], kind="stable")
    record, row = record[order], columns.queue[record[order]]
    entries = np.zeros(len(record), dtype=BATCH_ENTRY.dtype)
    entries["physical_offset"] = columns.position[record]
    entries["size"] = columns.size[record]
    entries["tags_code"] = columns.tags_code[record]
    entries["store_timestamp"] = columns.store_timestamp[record]
    entries["base_offset"] = base[order]
    entries["messages"] = messages[order]
    entries["compacted_offset"] = NOT_COMPACTED
    bounds = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)] if len(row) else []
    for begin, end in pairwise(bounds):
        found.entries[columns.key(int(row[begin]))] = entries[begin:end]
    return found


def _without_batches(columns: Columns, is_batch: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the flags without records that get no entry of 20 bytes: those in queues of batches.

    In another queue an inner batch is one message, and its queue offset must be possible for such a queue: it becomes a
    place in a file.
    """
    records = columns.records
    flags = columns.flags[:records]
    bound = columns.position[:records] // MIN_RECORD_SIZE + QUEUE_OFFSET_SLACK
    beyond = columns.queue_offset[:records] > bound
    return np.where(is_batch[columns.queue[:records]] | beyond, flags & ~np.uint8(IN_QUEUE), flags)


def _with_further(columns: Columns, sources: EntrySources) -> tuple[EntrySources, NDArray[np.int32]]:
    """Return the records again for each of their further queues, after their own entry, and the record of each."""
    records = columns.records
    # A record in a queue of batches, without an entry of its own, gets none elsewhere.
    entered = (sources.flags[columns.further_record] & IN_QUEUE) != 0
    further, queue = columns.further_record[entered], columns.further_queue[entered]
    of = np.concatenate([np.arange(records, dtype=np.int32), further])
    order = np.argsort(of, kind="stable")
    of = of[order]
    with_further = EntrySources(
        sources.position[of],
        sources.size[of],
        np.concatenate([sources.queue, queue])[order],
        np.concatenate([sources.queue_offset, columns.further_offset[entered]])[order],
        sources.tags_code[of],
        np.concatenate([sources.flags, np.full(len(further), IN_QUEUE, dtype=np.uint8)])[order],
    )
    return with_further, of
