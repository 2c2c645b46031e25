"""A batch of Arrow columns on its way into the log: two kernels take it from Arrow's buffers to the log's file.

The kernels read columns of the common types as they are. `reput.log.encode.columns` turns other types into these.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from reput.formats import properties as props
from reput.formats.consume_queue import MAX_QUEUE_ID
from reput.kernels import encode_kernels
from reput.kernels.layouts.batch import CHANGED, LAID_OUT, NEW_QUEUE, REFUSED, Batch, BatchRefusal, Texts
from reput.log.encode.batch import Write, numbers_of, raise_numbers
from reput.log.encode.columns import as_table, normalized
from reput.log.encode.message import MessageRefusedError, PutManyResult, PutStatus, illegal
from reput.log.encode.queue_directory import BatchScratch, QueueDirectory, piece_of
from reput.log.encode.topics import NO_OFFSET

_TEXTS = {pa.string(): 4, pa.large_string(): 8}
_BINARIES = {**_TEXTS, pa.binary(): 4, pa.large_binary(): 8}
_INT32, _INT64 = {pa.int32(): 4}, {pa.int64(): 8}
# For each column the types that the kernels read, with the bytes of an offset or a number.
_GIVEN: Mapping[str, Mapping[pa.DataType, int]] = {
    "topic": _TEXTS,
    "body": _BINARIES,
    "tags": _TEXTS,
    "keys": _TEXTS,
    "unique_key": _TEXTS,
    "queue_id": {**_INT32, **_INT64},
    "flag": _INT32,
    "born_timestamp": _INT64,
}
# These two are checked and normalized first.
_NORMALIZED = {**_GIVEN, "sys_flag": _INT32, "properties": _BINARIES}
_PLACES = {
    **{name: getattr(Batch, name) for name in ("topic", "body", "tags", "keys", "unique_key", "properties")},
    **{name: getattr(Batch, f"{name}_at") for name in ("queue_id", "flag", "sys_flag")},
    "born_timestamp": Batch.born_at,
}
_NO_NULLS = {"topic", "body", "queue_id", "flag"}
_CALL_FIELDS = Batch.max_body
"""Fields that belong to one batch; the others come from the directory's template."""
_pack_fields = struct.Struct(f"={_CALL_FIELDS}q").pack_into
_REASONS = {
    BatchRefusal.BODY_TOO_LONG: "its body is over {max_body} bytes (maxMessageSize)",
    BatchRefusal.PROPERTIES_TOO_LONG: f"its properties, the CRC's included, are over {props.MAX_PROPERTIES_SIZE} bytes",
    BatchRefusal.BAD_TAGS: "its tags hold the characters 0x01 or 0x02",
    BatchRefusal.BAD_KEY: "its key is empty or holds a space, 0x01 or 0x02 (several keys: a list)",
    BatchRefusal.BAD_UNIQUE_KEY: "its unique key holds the characters 0x01 or 0x02",
    BatchRefusal.BAD_OFFSETS: "its Arrow columns point outside their data",
    BatchRefusal.BAD_QUEUE_ID: "queue id {queue_id}: give 0 to {max_queue_id}",
}


class _ColumnFields(NamedTuple):
    """The fields of a column: the first one, the bytes of an offset or number, and whether nulls are allowed."""

    place: int
    width: int
    is_text: bool
    has_no_nulls: bool


_ColumnPlan = list[_ColumnFields]


class ColumnBatches:
    """Makes batches of columns for the writer of one log."""

    def __init__(self, directory: QueueDirectory) -> None:
        self.directory = directory
        self._last: tuple[pa.Schema, _ColumnPlan | None] = (pa.schema([]), None)

    def batch(self, columns: pa.Table | pa.RecordBatch) -> ColumnBatch:
        """Return the batch, checked and measured.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which. Or a column has a type
                that `reput.log.encode.columns` does not list.
        """
        table = as_table(columns)
        fields = None if table is None else self._fields(table)
        if table is None or fields is None:
            table, keys_are_joined = normalized(columns, self.directory.host_bits)
            plan = _plan_of(table.schema, _NORMALIZED)
            assert plan is not None
            fields = _fields_of(table, plan)
            assert fields is not None
            fields[Batch.keys_are_joined] = keys_are_joined
        directory = self.directory
        batch = ColumnBatch(directory, table, fields)
        if not batch.lay_out():
            # An empty directory has room for the queues of any batch.
            self.directory = directory.fresh(table.num_rows)
            batch = ColumnBatch(self.directory, table, fields)
            batch.lay_out()
        return batch

    def _fields(self, table: pa.RecordBatch) -> list[int] | None:
        """Return the fields for columns that the kernels can read as they are; None for others."""
        schema, plan = self._last
        if not table.schema.equals(schema):
            plan = _plan_of(table.schema, _GIVEN)
            self._last = table.schema, plan
        if plan is None:
            return None
        try:
            table.validate()
        except pa.ArrowInvalid:
            return None
        return _fields_of(table, plan)


def _plan_of(schema: pa.Schema, kinds: Mapping[str, Mapping[pa.DataType, int]]) -> _ColumnPlan | None:
    names = schema.names
    if len(set(names)) < len(names) or not {"topic", "body"} <= set(names) or not set(names) <= set(kinds):
        return None
    plan = []
    for name, kind in zip(names, schema.types, strict=True):
        widths = kinds[name]
        if kind not in widths:
            return None
        plan.append(_ColumnFields(_PLACES[name], widths[kind], pa.string() in widths, name in _NO_NULLS))
    return plan


def _fields_of(table: pa.RecordBatch, plan: _ColumnPlan) -> list[int] | None:
    """Return the record's fields for the columns; None if a column has nulls and may not."""
    fields = [0] * _CALL_FIELDS
    fields[Batch.rows] = table.num_rows
    for number, (place, width, is_text, has_no_nulls) in enumerate(plan):
        array = table.column(number)
        buffers, first = array.buffers(), array.offset
        valid, numbers = buffers[0], buffers[1]
        if numbers is None:
            continue
        if valid is not None and has_no_nulls and array.null_count:
            return None
        if is_text:
            data = buffers[2]
            fields[place + Texts.offsets_at], fields[place + Texts.width] = numbers.address + first * width, width
            if valid is not None:
                fields[place + Texts.valid_at], fields[place + Texts.first_bit] = valid.address, first
            if data is not None:
                fields[place + Texts.data_at], fields[place + Texts.data_size] = data.address, data.size
            continue
        fields[place] = numbers.address + first * width
        if place == Batch.queue_id_at:
            fields[Batch.queue_id_width] = width
        elif place == Batch.born_at and valid is not None:
            fields[Batch.born_valid_at], fields[Batch.born_first_bit] = valid.address, first
    return fields


class ColumnBatch:
    """A batch of columns on its way into the log, as a `CheckedBatch` is. `table` keeps Arrow's buffers."""

    def __init__(self, directory: QueueDirectory, table: pa.RecordBatch, fields: list[int]) -> None:
        self.size = 0
        self._directory, self._table = directory, table
        self._rows = rows = table.num_rows
        self._scratch: BatchScratch = directory.scratch(rows)
        results = np.empty((3, rows), dtype=np.int64)
        self._sizes, self._places, self._numbers = results
        # This takes a fifth of the time that the array takes to return its address.
        at = pa.py_buffer(results).address
        fields[Batch.queue_at], fields[Batch.touched_at] = self._scratch.queues_at, self._scratch.touched_at
        fields[Batch.size_at], fields[Batch.place_at], fields[Batch.number_at] = at, at + 8 * rows, at + 16 * rows
        fields[Batch.stamp] = next(directory.stamps)
        _pack_fields(self._scratch.record.data, 0, *fields)

    def lay_out(self) -> bool:
        """Check and measure the messages; return False if the directory has no row left for one of their queues.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which.
        """
        run, scratch, answer = encode_kernels().lay_out, self._scratch, NEW_QUEUE
        while answer == NEW_QUEUE:
            answer = run(scratch.at)
            if answer == NEW_QUEUE and not self._add_queue(int(scratch.record[Batch.done])):
                break
        self.size = int(scratch.record[Batch.size])
        if answer == LAID_OUT:
            return True
        refusal = self._refusal() if answer == REFUSED else None
        scratch.leave()
        if refusal is not None:
            raise refusal
        return False

    def _add_queue(self, row: int) -> bool:
        try:
            name = self._table.column("topic")[row].as_buffer().to_pybytes().decode()
            return self._directory.add(name, self._queue_id(row))
        except (MessageRefusedError, UnicodeDecodeError) as refusal:
            raise illegal(f"message {row} of the batch: {refusal}") from None

    def _queue_id(self, row: int) -> Any:
        return self._table.column("queue_id")[row].as_py() if "queue_id" in self._table.schema.names else 0

    def _refusal(self) -> MessageRefusedError:
        row, why = int(self._scratch.record[Batch.done]), BatchRefusal(int(self._scratch.record[Batch.refusal]))
        status = PutStatus.MESSAGE_ILLEGAL
        if why is BatchRefusal.PROPERTIES_TOO_LONG:
            status = PutStatus.PROPERTIES_SIZE_EXCEEDED
        max_body = int(self._scratch.record[Batch.max_body])
        queue_id = self._queue_id(row) if why is BatchRefusal.BAD_QUEUE_ID else 0
        reason = _REASONS[why].format(max_body=max_body, queue_id=queue_id, max_queue_id=MAX_QUEUE_ID)
        return MessageRefusedError(status, f"message {row} of the batch: {reason}")

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records and number them; see `CheckedBatch`."""
        directory, scratch = self._directory, self._scratch
        touched = scratch.touched[: int(scratch.record[Batch.touched])]
        queues = [directory.queues[row] for row in touched.tolist()]
        before = numbers_of(queues)
        following = before
        if NO_OFFSET in before:
            following = [directory.topics.next_offset(topic, queue_id, offset) for topic, queue_id in queues]
        directory.next_offsets[touched] = following
        self._write(write, position, offset, now_ms)
        result = PutManyResult(PutStatus.PUT_OK, self._places, self._sizes, self._numbers, now_ms)
        numbers = directory.next_offsets[touched].tolist()
        scratch.leave()
        raise_numbers(queues, numbers, before)
        return result

    def _write(self, write: Write, position: int, offset: int, now_ms: int) -> None:
        directory, rows, run = self._directory, self._rows, encode_kernels().write_records
        first, begin = 0, 0
        while first < rows:
            last, end = rows, self.size
            if end - begin > directory.piece_bytes:
                # As many records as the piece holds. One record may be larger than the piece.
                places = self._places[first:]
                last = first + max(1, int(np.searchsorted(places, begin + directory.piece_bytes, "right")) - 1)
                end = int(self._places[last]) if last < rows else end
            piece = directory.piece if end - begin <= directory.piece_bytes else piece_of(end - begin)
            if run(self._scratch.at, first, last, now_ms, offset + begin, piece.address) == CHANGED:
                raise illegal("a column was changed while it was stored: change none until the call returns")
            write(position + begin, piece.memory[: end - begin])
            first, begin = last, end
