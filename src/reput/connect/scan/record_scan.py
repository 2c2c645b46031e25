"""The tasks of the queue plan: entries of queues, or places in the log, to record batches.

What an index says is held against the record: its size, its place, its queue and its number there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.connect.cut.disk_queues import BATCHES, DiskQueues
from reput.connect.cut.queue_cuts import QueueCut
from reput.connect.options.schemas import Need
from reput.connect.options.selection import NumberRange, is_light
from reput.connect.scan.arrays import Rows, topics_of
from reput.connect.scan.log_scan import BATCH_ROWS, ScanJob, batches
from reput.connect.scan.queue_members import members
from reput.connect.scan.read_report import Seen
from reput.errors import DamagedLogError, DamagedStoreError
from reput.formats import paths
from reput.formats.batch_consume_queue import BATCH_ENTRY_SIZE
from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, QueueKey, is_blank
from reput.formats.layout import INT64_MAX
from reput.formats.record import (
    FLAG_INNER_BATCH,
    MIN_RECORD_SIZE,
    SCHEDULE_TOPIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Verdict,
    examine,
)
from reput.kernels.field_columns import FieldRow
from reput.log.maps import LogMaps
from reput.queue.batch_files import BatchFiles
from reput.queue.kinds import QueueKind

_SIZE_BYTES = 4
_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_NOTHING_BEGINS = (Verdict.BLANK, Verdict.ZERO, Verdict.BAD_MAGIC, Verdict.BAD_OFFSET)
_LAST_EXT_ADDRESS = -(1 << 31) - 1
"""`ConsumeQueueExt.MAX_ADDR`: no hash of tags is as low."""


@dataclass(frozen=True)
class RecordJob:
    """What tasks of the queue plan know beside the scan's job: the log's folder, its files' size in bytes, the queues.

    Of the queues what lies in the log from `begin` up to `end` counts.
    """

    scan: ScanJob
    commit_log: str
    log_file_size: int
    kind: QueueKind
    batches: BatchFiles
    begin: int
    end: int

    @property
    def needs_records(self) -> bool:
        """Whether the entries alone do not tell all that is wanted."""
        selection = self.scan.selection
        told = {"topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "brokerName"}
        told |= {"partition", "offset", "timestampType"}
        by_record = selection.times or not selection.stored_ms.is_everything or selection.by_properties
        return bool(by_record) or any(
            column.need is not Need.PLACE or column.name not in told for column in self.scan.columns
        )


class Entries(NamedTuple):
    """Some entries of a queue: log offsets, sizes, tags codes and queue offsets."""

    position: NDArray[np.int64]
    size: NDArray[np.int32]
    tags_code: NDArray[np.int64]
    queue_offset: NDArray[np.int64]


def read_queues(job: RecordJob, cuts: Sequence[QueueCut], seen: Seen) -> Iterator[pa.RecordBatch]:
    """The wanted messages of some queues' ranges, each in its queue's order.

    Raises:
        DamagedStoreError: an entry points to no such record.
    """
    maps = LogMaps(Path(job.commit_log), job.log_file_size)
    try:
        with DiskQueues(job.kind, job.batches, maps, job.begin, job.end) as queues:
            for cut in cuts:
                is_batch = cut.kind == BATCHES
                for entries in _batch_entries(job, cut, queues) if is_batch else _entries(job, cut, queues):
                    seen.queue_bytes += len(entries.position) * (BATCH_ENTRY_SIZE if is_batch else ENTRY_SIZE)
                    for rows in _of_entries(job, cut, entries, maps, seen):
                        inner = np.arange(len(rows)) if is_batch else _NO_ROWS
                        yield from batches(job.scan, rows, inner, NumberRange(cut.begin, cut.end))
    finally:
        maps.close()


def _entries(job: RecordJob, cut: QueueCut, queues: DiskQueues) -> Iterator[Entries]:
    """The entries of a cut, some thousands at once.

    Raises:
        DamagedStoreError: some are gone.
    """
    queue = queues.plain(cut.key)
    for first in range(cut.begin, cut.end, BATCH_ROWS):
        count = min(cut.end - first, BATCH_ROWS)
        data = np.zeros(count * ENTRY_SIZE, np.uint8) if queue is None else queue.packed(first, first + count)
        raw = data.view(ENTRY.dtype)
        gone = raw["size"] <= 0
        if gone.any() and job.scan.fail_on_data_loss:
            offset = first + int(np.flatnonzero(gone)[0])
            where = queue.place_of(offset) if queue is not None else f"{cut.topic}, queue {cut.queue_id}"
            raise DamagedStoreError(
                f"{where}: does not hold queue offset {offset}. Run `reput rebuild --only queue`, or read with "
                "scan=log; failOnDataLoss=false passes it over"
            )
        position, size = raw["physical_offset"].astype(np.int64), raw["size"].astype(np.int32)
        there = np.flatnonzero(~gone & ~is_blank(position, size))
        yield Entries(
            position[there], size[there], raw["tags_code"].astype(np.int64)[there], first + there.astype(np.int64)
        )


def _batch_entries(job: RecordJob, cut: QueueCut, queues: DiskQueues) -> Iterator[Entries]:
    """The entries of the batches of a cut.

    Raises:
        DamagedStoreError: some are gone.
    """
    queue = queues.batch(cut.key)
    begin, end = queue.numbers(cut.begin, cut.end)
    for first in range(begin, end, BATCH_ROWS):
        count = min(end - first, BATCH_ROWS)
        raw = queue.entries(first, first + count)
        if len(raw) < count and job.scan.fail_on_data_loss:
            raise DamagedStoreError(
                f"{queue.files.place}: a file with its entries {first + len(raw)} to {first + count} is gone. Run "
                "`reput rebuild --only queue`, or read with scan=log; failOnDataLoss=false passes it over"
            )
        yield Entries(
            raw["physical_offset"].astype(np.int64), raw["size"].astype(np.int32),
            raw["tags_code"].astype(np.int64), raw["base_offset"].astype(np.int64),
        )  # fmt: skip


def _of_entries(job: RecordJob, cut: QueueCut, entries: Entries, maps: LogMaps, seen: Seen) -> Iterator[Rows]:
    """The rows of some entries of a queue, those of each log file apart."""
    selection, position = job.scan.selection, entries.position
    mask = (position >= selection.position.begin) & (position < min(selection.position.end, job.end))
    codes = selection.tag_codes
    if len(codes) and cut.key.topic != SCHEDULE_TOPIC:
        # Neither a delayed message's time nor the address of an entry in ConsumeQueueExt says anything of the tags: the
        # record will.
        mask &= np.isin(entries.tags_code.astype(np.int32), codes) | (entries.tags_code <= _LAST_EXT_ADDRESS)
    number = np.flatnonzero(mask)
    rows_of = _RowMaker(job, pa.array([cut.topic], pa.string()), maps)
    for chosen in _by_file(position[number], job.log_file_size):
        rows = number[chosen]
        made = rows_of.make(
            position[rows],
            entries.size[rows],
            np.zeros(len(rows), dtype=np.int32),
            np.full(len(rows), cut.queue_id, dtype=np.int32),
            entries.queue_offset[rows],
        )
        if made is None:
            continue
        if not job.needs_records and cut.kind != BATCHES and not is_light(cut.topic):
            yield made
            continue
        seen.log_bytes += int(made.size.sum())
        for sound in _sound(job, made):
            wanted = _in_time(job, cut, members(selection, cut, sound))
            if len(wanted):
                yield wanted


def _in_time(job: RecordJob, cut: QueueCut, rows: Rows) -> Rows:
    span = job.scan.selection.times_of((cut.topic, cut.queue_id))
    if span.is_everything:
        return rows
    stored = rows.stored_ms()
    return rows.taken(np.flatnonzero((stored >= span.begin) & (stored < span.end)))


def read_places(job: RecordJob, places: Sequence[int], seen: Seen) -> Iterator[pa.RecordBatch]:
    """The wanted messages among the records at some log offsets (in order): what an IndexFile found for keys.

    Raises:
        DamagedLogError: a record at one of them is damaged.
    """
    maps = LogMaps(Path(job.commit_log), job.log_file_size)
    position = np.array(places, dtype=np.int64)
    rows_of = _RowMaker(job, pa.array([""], pa.string()), maps)
    try:
        for chosen in _by_file(position, job.log_file_size):
            for first in range(0, len(chosen), BATCH_ROWS):
                piece = position[chosen[first : first + BATCH_ROWS]]
                zeros = np.zeros(len(piece), dtype=np.int32)
                made = rows_of.make(piece, None, zeros, zeros, zeros.astype(np.int64))
                if made is None:
                    continue
                seen.log_bytes += int(made.size.sum())
                for sound in _standing(job, made):
                    judged = _judged(job, sound)
                    inner = np.flatnonzero(judged.table[FieldRow.SYS_FLAG] & FLAG_INNER_BATCH)
                    yield from batches(job.scan, judged, inner)
    finally:
        maps.close()


def _judged(job: RecordJob, rows: Rows) -> Rows:
    """Rows with the queues that their records name, without those that are not wanted."""
    selection, table = job.scan.selection, rows.table
    topics = topics_of(rows)
    names = [name.decode("utf-8", "replace") for name in topics.dictionary.to_pylist()]
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


class _RowMaker:
    """Makes rows of places in the log, which all lie in one file."""

    def __init__(self, job: RecordJob, topics: pa.Array, maps: LogMaps) -> None:
        self.job = job
        self.topics = topics
        self.maps = maps

    def make(
        self,
        position: NDArray[np.int64],
        size: NDArray[np.int32] | None,
        topic_row: NDArray[np.int32],
        queue_id: NDArray[np.int32],
        queue_offset: NDArray[np.int64],
    ) -> Rows | None:
        """The rows; a `size` of None is read from the records. None where the file is gone and that may be.

        Raises:
            DamagedStoreError: the file is gone.
        """
        scan = self.job.scan
        start = self.maps.file_at(int(position[0]))
        if start is None:
            if not scan.fail_on_data_loss:
                return None
            raise DamagedStoreError(
                f"{self.job.commit_log}: no file holds log offset {int(position[0])}: it expired, or was lost. "
                "failOnDataLoss=false passes its messages over"
            )
        buffer = self.maps.array(start)
        if size is None:
            at = np.minimum(position - start, len(buffer) - _SIZE_BYTES)
            size = buffer[at[:, None] + np.arange(_SIZE_BYTES)].view(">i4").reshape(-1).astype(np.int32)
            size = np.maximum(size, MIN_RECORD_SIZE).astype(np.int32)
        return Rows(
            str(self.maps.folder / paths.offset_name(start)), buffer, start, position, size, self.topics, topic_row,
            queue_id, queue_offset, None, scan.crc_check, scan.broker_name, scan.wants,
        )  # fmt: skip


def _by_file(position: NDArray[np.int64], file_size: int) -> Iterator[NDArray[np.int64]]:
    """The numbers of the places in each log file."""
    if not len(position):
        return
    file = position // file_size
    for number in np.unique(file).tolist():
        yield np.flatnonzero(file == number)


def _sound(job: RecordJob, rows: Rows) -> Iterator[Rows]:
    """The rows whose records are there and whole; all of them, or an error where loss is none.

    Raises:
        DamagedLogError: one is not.
    """
    if job.scan.fail_on_data_loss or rows.readable == len(rows):
        assert rows.table is not None
        yield rows
        return
    yield from _sound_pieces(rows, lambda _: None)


def _sound_pieces(rows: Rows, judge: Callable[[Rows], None]) -> Iterator[Rows]:
    """The rows without those whose record cannot be read; `judge` is given what begins with such a one."""
    begin = 0
    while begin < len(rows):
        piece = rows.taken(slice(begin, len(rows)))
        good = piece.readable
        if good:
            yield piece.taken(slice(0, good))
        if good < len(piece):
            judge(piece.taken(slice(good, len(piece))))
        begin += good + 1


def _standing(job: RecordJob, rows: Rows) -> Iterator[Rows]:
    """The rows at whose places records begin.

    An IndexFile may have items of records that a recovery cut from the log: as RocketMQ does, those are passed over. A
    record that does stand there and is damaged is an error.

    Raises:
        DamagedLogError: it is.
    """

    def judge(piece: Rows) -> None:
        at = int(piece.position[0]) - piece.base
        data = piece.buffer.data
        verdict, _ = examine(data, at, len(data), int(piece.position[0]), piece.crc_check)
        if job.scan.fail_on_data_loss and verdict not in _NOTHING_BEGINS:
            raise DamagedLogError(
                f"{piece.path} at {at} (log offset {int(piece.position[0])}): {verdict.meaning}, to which an IndexFile "
                "leads. Look with `reput check`; failOnDataLoss=false passes over it"
            )

    yield from _sound_pieces(rows, judge)
