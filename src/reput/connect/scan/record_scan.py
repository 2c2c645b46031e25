"""Tasks of the queue plan and the key plan: entries of queues, or places in the log, become record batches.

What an index says is compared with the record: its size, its place, its queue and its number there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.connect.cut.disk_queue import Entries, missing_entry
from reput.connect.cut.disk_queues import DiskQueues, IndexedQueues
from reput.connect.cut.queue_cuts import QueueCut
from reput.connect.options.schemas import Need
from reput.connect.options.selection import NumberRange
from reput.connect.scan.arrays import LogBuffer, Rows, topics_of
from reput.connect.scan.log_scan import BATCH_ROWS, ScanJob, batches
from reput.connect.scan.queue_members import members
from reput.connect.scan.read_report import Seen
from reput.errors import DamagedLogError, DamagedStoreError
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import (
    FLAG_INNER_BATCH,
    HEAD,
    MIN_RECORD_SIZE,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Verdict,
    examine,
)
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.consume_queue_ext import MAX_ADDRESS
from reput.formats.stored_text import shown_text
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.system_topics import SCHEDULE_TOPIC_UTF8
from reput.kernels.layouts.fields import FieldRow
from reput.log.read.reader import place_in

_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_NO_RECORD = (Verdict.BLANK, Verdict.ZERO, Verdict.BAD_MAGIC, Verdict.BAD_OFFSET)
_IN_ENTRIES = frozenset({
    "topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "brokerName", "partition", "offset",
    "timestampType",
})  # fmt: skip
"""The columns that entries of a plain queue hold."""


@dataclass(frozen=True)
class RecordJob:
    """The values that all tasks share that read records one by one: the scan's job, and the queues with their log."""

    scan: ScanJob
    queues: IndexedQueues

    @property
    def needs_records(self) -> bool:
        """True if the entries alone do not hold all that is wanted."""
        selection = self.scan.selection
        if selection.times or not selection.stored_ms.is_everything or selection.by_properties:
            return True
        return any(column.need is not Need.PLACE or column.name not in _IN_ENTRIES for column in self.scan.columns)


def read_queues(job: RecordJob, cuts: Sequence[QueueCut], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages of some queues' ranges, each in its queue's order.

    Raises:
        DamagedStoreError: an entry is gone, or points to no such record.
    """
    with job.queues.opened() as queues:
        for cut in cuts:
            key, first, end = cut.range
            queue = queues.of_kind(key, cut.kind)
            if queue is None:
                if job.scan.fail_on_data_loss:
                    raise missing_entry(f"{cut.topic}, queue {cut.queue_id}", first)
                continue
            for entries in queue.entries(first, end, tolerant=not job.scan.fail_on_data_loss):
                seen.queue_bytes += len(entries.position) * queue.entry_size
                for rows in _of_entries(job, cut, entries, queues, seen):
                    inner = np.arange(len(rows)) if cut.has_batches else _NO_ROWS
                    yield from batches(job.scan, rows, inner, NumberRange(first, end))


def read_places(job: RecordJob, places: Sequence[int], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages among the records at some log offsets (in order) that IndexFiles name for keys.

    Raises:
        DamagedLogError: a record at one of them is damaged.
    """
    position = np.array(places, dtype=np.int64)
    with job.queues.opened() as queues:
        for chosen in _by_file(position, job.queues.log_file_size):
            log = _log_buffer(job, queues, int(position[chosen[0]]))
            if log is None:
                continue
            for first in range(0, len(chosen), BATCH_ROWS):
                rows = _rows_at(job, log, position[chosen[first : first + BATCH_ROWS]])
                seen.log_bytes += int(rows.size.sum())
                for sound in _records_at(job, rows):
                    wanted = _wanted(job, sound)
                    inner = np.flatnonzero(wanted.table[FieldRow.SYS_FLAG] & FLAG_INNER_BATCH)
                    yield from batches(job.scan, wanted, inner)


# --- entries of queues -----------------------------------------------------------------------------


def _of_entries(job: RecordJob, cut: QueueCut, entries: Entries, queues: DiskQueues, seen: Seen) -> Iterator[Rows]:
    """Yield the rows of some entries of a queue, those of each log file apart."""
    selection, position = job.scan.selection, entries.position
    mask = (position >= selection.position.begin) & (position < min(selection.position.end, job.queues.frontier))
    codes = selection.tag_codes
    if len(codes) and cut.range.key.topic != SCHEDULE_TOPIC_UTF8:
        # A delayed message's time, or the address of a unit in ConsumeQueueExt, says nothing of the tags: the record
        # decides. No hash of tags is as low as an address.
        mask &= np.isin(entries.tags_code.astype(np.int32), codes) | (entries.tags_code <= MAX_ADDRESS)
    number = np.flatnonzero(mask)
    topics = pa.array([cut.topic], pa.string())
    for chosen in _by_file(position[number], job.queues.log_file_size):
        here = number[chosen]
        log = _log_buffer(job, queues, int(position[here[0]]))
        if log is None:
            continue
        rows = Rows(
            log, job.scan.needs, position[here], entries.size[here], topics, np.zeros(len(here), dtype=np.int32),
            np.full(len(here), cut.queue_id, dtype=np.int32), entries.queue_offset[here],
        )  # fmt: skip
        if not job.needs_records and not cut.has_batches and not is_light(cut.topic):
            yield rows
            continue
        seen.log_bytes += int(rows.size.sum())
        for sound in _sound(job, rows):
            wanted = _in_time(job, cut, members(selection, cut, sound))
            if len(wanted):
                yield wanted


def _in_time(job: RecordJob, cut: QueueCut, rows: Rows) -> Rows:
    span = job.scan.selection.times_of((cut.topic, cut.queue_id))
    if span.is_everything:
        return rows
    stored = rows.stored_ms()
    return rows.taken(np.flatnonzero((stored >= span.begin) & (stored < span.end)))


def _sound(job: RecordJob, rows: Rows) -> Iterator[Rows]:
    """Yield the rows whose records are there and whole.

    Raises:
        DamagedLogError: one is not, and that is not to be tolerated.
    """
    if job.scan.fail_on_data_loss or rows.readable == len(rows):
        assert rows.table is not None
        yield rows
        return
    yield from _sound_pieces(rows, lambda _: None)


# --- places that IndexFiles name -------------------------------------------------------------------


def _rows_at(job: RecordJob, log: LogBuffer, position: NDArray[np.int64]) -> Rows:
    """Return the rows at some places of a log file; their records say how long they are, and of which queue."""
    at = np.minimum(position - log.base, len(log.buffer) - HEAD.sizes["total_size"])
    size = np.maximum(HEAD.taken(log.buffer, at, "total_size"), MIN_RECORD_SIZE).astype(np.int32)
    zeros = np.zeros(len(position), dtype=np.int32)
    return Rows(log, job.scan.needs, position, size, pa.array([""], pa.string()), zeros, zeros, zeros.astype(np.int64))


def _wanted(job: RecordJob, rows: Rows) -> Rows:
    """Return the rows that are wanted, with the queues that their records name."""
    selection, table = job.scan.selection, rows.table
    topics = topics_of(rows)
    names = [shown_text(name) for name in topics.dictionary.to_pylist()]
    row, queue_id = np.asarray(topics.indices).astype(np.int32), table[FieldRow.QUEUE_ID].astype(np.int32)
    rows.topics, rows.topic_row, rows.queue_id = pa.array(names, pa.string()), row, queue_id
    rows.queue_offset = table[FieldRow.QUEUE_OFFSET].copy()
    transaction = table[FieldRow.SYS_FLAG] & TRANSACTION_MASK
    mask = (transaction == 0) | (transaction == TRANSACTION_COMMIT)
    is_batch = (table[FieldRow.SYS_FLAG] & FLAG_INNER_BATCH) != 0
    for queue in np.unique(row.astype(np.int64) << 32 | queue_id).tolist():
        topic, number = names[queue >> 32], queue & 0xFFFFFFFF
        here = (row == queue >> 32) & (queue_id == number)
        offsets, times = selection.offsets_of((topic, number)), selection.times_of((topic, number))
        mask &= ~here | (
            selection.wants(topic, number)
            & ((rows.queue_offset >= offsets.begin) | is_batch)
            & (rows.queue_offset < offsets.end)
            & (rows.stored_ms() >= times.begin)
            & ((rows.stored_ms() < times.end) | (times.end == INT64_MAX))
        )
        if job.scan.restarts is not None:
            key = QueueKey(topics.dictionary[queue >> 32].as_py(), number)
            mask[here] &= ~job.scan.restarts.gone(key, rows.position[here], rows.queue_offset[here])
    return rows.taken(np.flatnonzero(mask))


def _records_at(job: RecordJob, rows: Rows) -> Iterator[Rows]:
    """Yield the rows at whose places records begin.

    An IndexFile may have items of records that a recovery cut from the log: as in RocketMQ, those are passed over. A
    record that is there and is damaged is an error.

    Raises:
        DamagedLogError: it is.
    """

    def refuse(piece: Rows) -> None:
        at = int(piece.position[0]) - piece.log.base
        data = piece.log.buffer.data
        verdict, _ = examine(data, at, len(data), int(piece.position[0]), piece.needs.crc_check)
        if job.scan.fail_on_data_loss and verdict not in _NO_RECORD:
            raise DamagedLogError(
                f"{place_in(piece.log.path, piece.log.base, int(piece.position[0]))}: {verdict.meaning}, to which the "
                "index by key leads. Look with `reput check`; failOnDataLoss=false skips it"
            )

    yield from _sound_pieces(rows, refuse)


# --- both ------------------------------------------------------------------------------------------


def _log_buffer(job: RecordJob, queues: DiskQueues, offset: int) -> LogBuffer | None:
    """Return the log file that holds a log offset; None if it is gone and that is to be tolerated.

    Raises:
        DamagedStoreError: the file is gone.
    """
    start = queues.maps.file_at(offset)
    if start is not None:
        return LogBuffer(str(queues.maps.folder / paths.offset_name(start)), queues.maps.array(start), start)
    if not job.scan.fail_on_data_loss:
        return None
    raise DamagedStoreError(
        f"{job.queues.commit_log}: no file holds log offset {offset}: it expired, or was lost. "
        "failOnDataLoss=false skips its messages"
    )


def _by_file(position: NDArray[np.int64], file_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the places in each log file."""
    if not len(position):
        return
    file = position // file_size
    for number in np.unique(file).tolist():
        yield np.flatnonzero(file == number)


def _sound_pieces(rows: Rows, refuse: Callable[[Rows], None]) -> Iterator[Rows]:
    """Yield the rows without those whose record cannot be read; `refuse` is given the rows from such a one on."""
    begin = 0
    while begin < len(rows):
        piece = rows.taken(slice(begin, len(rows)))
        good = piece.readable
        if good:
            yield piece.taken(slice(0, good))
        if good < len(piece):
            refuse(piece.taken(slice(good, len(piece))))
        begin += good + 1
