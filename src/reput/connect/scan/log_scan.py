"""Tasks of the log plan: a range of the log becomes record batches.

They are plain functions over small arguments. `batches` is the end of the other plans' tasks, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.connect.cut.cuts import LogCut
from reput.connect.cut.restarts import Restarts, RestartTable
from reput.connect.options.options import ReadOptions
from reput.connect.options.schemas import Column, Need
from reput.connect.options.selection import ALL_NUMBERS, NumberRange, Selection
from reput.connect.scan.arrays import ColumnNeeds, LogBuffer, Rows, arrow_schema, record_batch, texts_of, wants_of
from reput.connect.scan.decoded_rows import decoded_parts
from reput.connect.scan.inner_rows import parts_of_batches, unwrapped
from reput.connect.scan.read_report import Seen
from reput.dispatch.sql import CompiledFilter
from reput.dispatch.sql import compile as compile_sql
from reput.dispatch.sql.columns import RecordProperties
from reput.errors import DamagedLogError
from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.log.properties import keys_of
from reput.formats.log.record import CHECK_NONE
from reput.formats.stored_text import shown_text
from reput.kernels.layouts.columns import IN_QUEUE, INNER_BATCH, Columns
from reput.kernels.layouts.fields import FIND_PROPERTIES, FieldRow
from reput.log.read.decode import DecodeSettings
from reput.log.read.reader import place_in
from reput.log.read.scan import Gap, Keep, RangeWalk, WalkRules, WalkState

BATCH_ROWS = 1 << 16
BATCH_BYTES = 16 << 20
_PIECE_BYTES = 16 << 20
_SLACK_BYTES = 1 << 20

Mask = NDArray[np.bool_]
Int64s = NDArray[np.int64]
_NONE: Int64s = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ScanJob:
    """The values that all tasks of a scan share.

    `report` is the folder in which they leave what they read, None for none. `restarts` are queues that may have begun
    again, None if every message of the log counts. `decoded_size`: the most bytes that a body may expand to, 0 for
    bodies as they are stored.
    """

    columns: tuple[Column, ...]
    selection: Selection
    delays_ms: tuple[int, ...]
    crc_check: int
    fail_on_data_loss: bool
    broker_name: str | None
    report: str | None = None
    restarts: Restarts | None = None
    decoded_size: int = 0

    @classmethod
    def of(cls, options: ReadOptions, selection: Selection, delays_ms: tuple[int, ...]) -> ScanJob:
        """Return the job of a reader's options; `selection` joins the options with the pushed filters."""
        return cls(
            options.columns, selection, delays_ms, options.crc_check, options.fail_on_data_loss, options.broker_name,
            options.report, decoded_size=options.decoded_body_size,
        )  # fmt: skip

    def from_offset(self, offset: int) -> ScanJob:
        """Return the job for a task that reads the log from an offset on."""
        return self if self.restarts is None else replace(self, restarts=self.restarts.after(offset))

    @property
    def needs(self) -> ColumnNeeds:
        """The values that the columns need."""
        wants = wants_of(self.columns) | (FIND_PROPERTIES if self.selection.by_properties else 0)
        return ColumnNeeds(self.crc_check, self.broker_name, wants, self.decoded_size)

    @property
    def decodes(self) -> bool:
        """True if bodies are wanted, and wanted decompressed."""
        return self.decoded_size > 0 and any(column.need is Need.BODY for column in self.columns)


def read_log(job: ScanJob, cut: LogCut, seen: Seen) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages of a range of the log, in its order.

    Raises:
        DamagedLogError: bytes of the range are no record, or its records do not end where the next range begins.
    """
    if not job.fail_on_data_loss and not fs.exists(cut.path):
        seen.has_lost_file = True
        return
    with fs.mapped(cut.path, cut.begin - cut.file_start, cut.file_start + cut.file_size - cut.begin) as buffer:
        for rows, inner in _LogRange(job, cut, buffer, seen).rows():
            yield from batches(job, rows, inner)


class _LogRange:
    """Decodes a range piece by piece and keeps the wanted rows of each."""

    def __init__(self, job: ScanJob, cut: LogCut, buffer: NDArray[np.uint8], seen: Seen) -> None:
        self.job = job
        self.seen = seen
        self.cut = cut
        self.log = LogBuffer(cut.path, buffer, cut.begin)
        # The decoder has checked the records.
        self.needs = job.needs._replace(crc_check=CHECK_NONE)
        settings = DecodeSettings(job.crc_check, False, job.delays_ms)
        # The table of queues stays, so each queue is judged once.
        rules = WalkRules(settings, _PIECE_BYTES, Keep.QUEUES, further=bool(job.selection.light_topics))
        self.walk = RangeWalk(buffer, cut.begin, rules, cut.begin, end=cut.end)
        self.columns = self.walk.columns
        self.queues = WantedQueues(job.selection)
        self.restarts = RestartTable(job.restarts) if job.restarts is not None else None

    def rows(self) -> Iterator[tuple[Rows, Int64s]]:
        """Yield the wanted rows of each piece, and the numbers of those that are inner batches."""
        walk = self.walk
        while walk.step():
            self.seen.log_bytes += walk.offset - walk.begin
            if self.columns.records:
                rows, inner = self._wanted()
                if len(rows):
                    yield rows, inner
            if walk.state is WalkState.BROKEN:
                self._pass_damage()
        if walk.state is WalkState.LIMIT and walk.offset != self.cut.end and self.job.fail_on_data_loss:
            raise DamagedLogError(
                f"{self.cut.path}: the chain of records from {self.cut.begin} on passes log offset {self.cut.end}, "
                "where a queue says that a record begins. Look with `reput check`, then `reput rebuild --only queue`"
            )

    def _pass_damage(self) -> None:
        """Go to the next record after damage, or to the range's end.

        Raises:
            DamagedLogError: the reader must not pass over damage.
        """
        walk, begin = self.walk, self.walk.offset
        if self.job.fail_on_data_loss:
            raise DamagedLogError(
                f"{place_in(self.cut.path, self.cut.file_start, begin)}: {walk.verdict.meaning}. Look "
                "with `reput check`; `reput export` skips it with --salvage, "
                'format("rocketmq") with the option failOnDataLoss=false'
            )
        if walk.skip(self.cut.end) is None:
            walk.stop_at(self.cut.end)
        self.seen.lost.append(Gap(begin, walk.offset, walk.verdict))
        self.seen.log_bytes += walk.offset - begin

    def _wanted(self) -> tuple[Rows, Int64s]:
        columns, selection, count = self.columns, self.job.selection, self.columns.records
        self.queues.extend(columns)
        flags, position = columns.flags[:count], columns.position[:count]
        mask: Mask = (flags & IN_QUEUE) != 0
        if not selection.position.is_everything:
            mask &= (position >= selection.position.begin) & (position < selection.position.end)
        codes = selection.tag_codes
        if len(codes):
            # A delayed message has its due time in that place: its property TAGS decides.
            delayed = columns.is_schedule[columns.queue[:count]] != 0
            mask &= np.isin(columns.tags_code[:count].astype(np.int32), codes) | delayed
        own = mask & self.queues.mask(columns)
        if selection.searched_keys:
            # A batch has items of its own keys, and may hold messages with others, to which Spark applies its filter.
            inner = (flags & INNER_BATCH) != 0 if selection.key_hints else np.zeros(count, dtype=np.bool_)
            own &= self._with_keys(count) | inner
        if self.restarts is not None:
            self.restarts.leave_out(columns, own)
        light = self._light(mask) if len(columns.further_record) else _NONE
        chosen: Any = slice(0, count) if own.all() and not len(light) else np.flatnonzero(own)
        if len(light):
            chosen = np.sort(np.concatenate([chosen, light]), kind="stable")
        # Copied: Arrow keeps these arrays, and the next piece is decoded into the same columns.
        row = columns.queue[:count][chosen].copy()
        rows = Rows(
            self.log, self.needs, position[chosen].copy(), columns.size[:count][chosen].copy(), self.queues.topics,
            row, columns.queue_id[row], columns.queue_offset[:count][chosen].copy(),
            columns.store_timestamp[:count][chosen].copy(),
        )  # fmt: skip
        return rows, np.flatnonzero(flags[chosen] & INNER_BATCH)

    def _light(self, mask: Mask) -> Int64s:
        """Return the records that wanted light queues have, once for each such queue."""
        columns = self.columns
        of, row, offset = columns.further_record, columns.further_queue, columns.further_offset
        light, low, high, after, before = self.queues.light[row].T
        stored = columns.store_timestamp[of]
        wanted = (light != 0) & mask[of] & (offset >= low) & (offset < high)
        wanted &= (stored >= after) & ((stored < before) | (before == INT64_MAX))
        found: Int64s = of[wanted].astype(np.int64)
        return found

    def _with_keys(self, count: int) -> Mask:
        """Return a mask of the records that have an index item with the hash of a searched key."""
        items = np.flatnonzero(np.isin(self.columns.item_hash[: self.columns.items], list(self.queues.hashes)))
        mask = np.zeros(count, dtype=np.bool_)
        mask[np.searchsorted(self.columns.first_item[: count + 1], items, side="right") - 1] = True
        return mask


class WantedQueues:
    """Bounds of each queue that a decoder has met, by its row."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.names: list[str] = []
        self.topics = pa.array([], pa.string())
        self.hashes: set[int] = set()
        self.bounds = np.empty((0, 5), dtype=np.int64)
        self.light = np.empty((0, 5), dtype=np.int64)
        self.is_all = True

    def extend(self, columns: Columns) -> None:
        """Judge the queues that are new."""
        fresh, light = [], []
        for row in range(len(self.names), columns.queues):
            topic, queue_id = shown_text(columns.topic(row)), int(columns.queue_id[row])
            self.names.append(topic)
            offsets = self.selection.offsets_of((topic, queue_id))
            times = self.selection.times_of((topic, queue_id))
            wanted = self.selection.wants(topic, queue_id)
            fresh.append((wanted, offsets.begin, offsets.end, times.begin, times.end))
            entries = self.selection.entries_of((topic, queue_id))
            is_light = self.selection.wants_light(topic, queue_id)
            light.append((is_light, entries.begin, entries.end, times.begin, times.end))
            self.is_all &= wanted and offsets.is_everything and times.is_everything
            if wanted:
                self.hashes.update(self.selection.key_hashes(topic))
        if fresh:
            self.bounds = np.concatenate([self.bounds, np.array(fresh, dtype=np.int64)])
            self.light = np.concatenate([self.light, np.array(light, dtype=np.int64)])
            self.topics = pa.array(self.names, pa.string())

    def mask(self, columns: Columns) -> Mask:
        """Return a mask of the records within their queues' bounds; a batch counts if it may hold such a message."""
        count = columns.records
        row, offset, stored_ms = (
            array[:count] for array in (columns.queue, columns.queue_offset, columns.store_timestamp)
        )
        if self.is_all:
            return np.ones(count, dtype=np.bool_)
        wanted, low, high, after, before = self.bounds[row].T
        is_batch = (columns.flags[:count] & INNER_BATCH) != 0
        mask: Mask = (wanted != 0) & ((offset >= low) | is_batch) & (offset < high)
        mask &= (stored_ms >= after) & ((stored_ms < before) | (before == INT64_MAX))
        return mask


def batches(job: ScanJob, rows: Rows, inner: Int64s, within: NumberRange = ALL_NUMBERS) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of bounded size, without those that tags, keys or the SQL92 filter leave out.

    `inner` are the numbers of the rows that are batches in one record. Their messages with queue offsets `within`
    become rows. The SQL92 filter applies to the batch, as in RocketMQ; tags and keys apply to each message.
    """
    selection = job.selection
    if len(inner):
        if selection.sql:
            kept = np.flatnonzero(_by_sql(selection, rows))
            rows, inner = rows.taken(kept), np.flatnonzero(np.isin(kept, inner))
            selection = replace(selection, sql="")
        for part, numbers in parts_of_batches(rows, inner):
            yield from _pieces(job, selection, unwrapped(part, numbers, selection, within))
    else:
        yield from _pieces(job, selection, rows)


def _pieces(job: ScanJob, selection: Selection, rows: Rows) -> Iterator[pa.RecordBatch]:
    by_bytes = any(column.need in (Need.BODY, Need.MAP) for column in job.columns)
    schema = arrow_schema(job.columns)
    begin = 0
    ends = np.cumsum(rows.size, dtype=np.int64) if by_bytes else None
    while begin < len(rows):
        end = min(len(rows), begin + BATCH_ROWS)
        if ends is not None:
            before = int(ends[begin - 1]) if begin else 0
            # A piece of the log is about as large as a batch: a few rows more do not become a batch of their own.
            if int(ends[-1]) - before > BATCH_BYTES + _SLACK_BYTES:
                end = min(end, max(begin + 1, int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))))
        piece = rows if end - begin == len(rows) else rows.taken(slice(begin, end))
        begin = end
        piece = _matching(selection, piece)
        for part in decoded_parts(piece, BATCH_BYTES) if job.decodes else (piece,):
            if len(part):
                yield record_batch(part, job.columns, schema)


def _matching(selection: Selection, rows: Rows) -> Rows:
    """Return the rows that have one of the tags and keys, compared as texts, and match the filter."""
    mask: Mask | None = None
    if selection.tags:
        mask = _true(pc.is_in(texts_of(rows, FieldRow.TAGS_AT), value_set=pa.array(selection.tags, pa.string())))
    if selection.keys:
        wanted = set(selection.keys)
        keys, unique = texts_of(rows, FieldRow.KEYS_AT).to_pylist(), texts_of(rows, FieldRow.UNIQUE_KEY_AT).to_pylist()
        has_key = [
            one in wanted or not wanted.isdisjoint(keys_of(many or "")) for many, one in zip(keys, unique, strict=True)
        ]
        mask = np.array(has_key, dtype=np.bool_) if mask is None else mask & np.array(has_key, dtype=np.bool_)
    if selection.sql:
        found = _by_sql(selection, rows)
        mask = found if mask is None else mask & found
    return rows if mask is None or mask.all() else rows.taken(np.flatnonzero(mask))


def _by_sql(selection: Selection, rows: Rows) -> Mask:
    return _filter_of(selection.sql).select(RecordProperties(rows.log.buffer, rows.position - rows.log.base))


@cache
def _filter_of(expression: str) -> CompiledFilter:
    """Return the filter, compiled once in a worker."""
    return compile_sql(expression)


def _true(array: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
