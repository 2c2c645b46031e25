"""A batch of Arrow columns on its way into the log: two kernels take it from Arrow's buffers to the log's file.

The kernels read columns of the common types as they are. `reput.log.encode.columns` turns other types into these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from reput.kernels.layouts.batch import BatchAt, TextsAt
from reput.log.encode.columns import as_table, normalized
from reput.log.encode.laid_out import CALL_WORDS, LaidOutBatch
from reput.log.encode.queue_directory import QueueDirectory

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
    **{name: getattr(BatchAt, name) for name in ("topic", "body", "tags", "keys", "unique_key", "properties")},
    **{name: getattr(BatchAt, f"{name}_at") for name in ("queue_id", "flag", "sys_flag")},
    "born_timestamp": BatchAt.born_at,
}
_NO_NULLS = {"topic", "body", "queue_id", "flag"}


class _ColumnWords(NamedTuple):
    """The words of a column: the first one, the bytes of an offset or number, and whether nulls are allowed."""

    place: int
    width: int
    is_text: bool
    has_no_nulls: bool


_ColumnPlan = list[_ColumnWords]


class ColumnBatches:
    """Makes batches of columns for the writer of one log. `enable_lmq`: see `normalized`."""

    def __init__(self, directory: QueueDirectory, *, enable_lmq: bool = False) -> None:
        self.directory = directory
        self._enable_lmq = enable_lmq
        self._last: tuple[pa.Schema, _ColumnPlan | None] = (pa.schema([]), None)

    def batch(self, columns: pa.Table | pa.RecordBatch) -> ColumnBatch:
        """Return the batch, checked and measured.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which. Or a column has a type
                that `reput.log.encode.columns` does not list.
        """
        table = as_table(columns)
        words = None if table is None else self._words(table)
        if table is None or words is None:
            table, keys_are_joined = normalized(columns, self.directory.host_bits, enable_lmq=self._enable_lmq)
            plan = _plan_of(table.schema, _NORMALIZED)
            assert plan is not None
            words = _words_of(table, plan)
            assert words is not None
            words[BatchAt.keys_are_joined] = keys_are_joined
        directory = self.directory
        batch = ColumnBatch(directory, table, words)
        if not batch.lay_out():
            # An empty directory has room for the queues of any batch.
            self.directory = directory.fresh(table.num_rows)
            batch = ColumnBatch(self.directory, table, words)
            batch.lay_out()
        return batch

    def _words(self, table: pa.RecordBatch) -> list[int] | None:
        """Return the words for columns that the kernels can read as they are; None for others."""
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
        return _words_of(table, plan)


def _plan_of(schema: pa.Schema, kinds: Mapping[str, Mapping[pa.DataType, int]]) -> _ColumnPlan | None:
    names = schema.names
    if len(set(names)) < len(names) or not {"topic", "body"} <= set(names) or not set(names) <= set(kinds):
        return None
    plan = []
    for name, kind in zip(names, schema.types, strict=True):
        widths = kinds[name]
        if kind not in widths:
            return None
        plan.append(_ColumnWords(_PLACES[name], widths[kind], pa.string() in widths, name in _NO_NULLS))
    return plan


def _words_of(table: pa.RecordBatch, plan: _ColumnPlan) -> list[int] | None:
    """Return the vector's words for the columns; None if a column has nulls and may not."""
    words = [0] * CALL_WORDS
    words[BatchAt.rows] = table.num_rows
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
            words[place + TextsAt.offsets_at], words[place + TextsAt.width] = numbers.address + first * width, width
            if valid is not None:
                words[place + TextsAt.valid_at], words[place + TextsAt.first_bit] = valid.address, first
            if data is not None:
                words[place + TextsAt.data_at], words[place + TextsAt.data_size] = data.address, data.size
            continue
        words[place] = numbers.address + first * width
        if place == BatchAt.queue_id_at:
            words[BatchAt.queue_id_width] = width
        elif place == BatchAt.born_at and valid is not None:
            words[BatchAt.born_valid_at], words[BatchAt.born_first_bit] = valid.address, first
    return words


class ColumnBatch(LaidOutBatch):
    """A batch of Arrow columns. `table` keeps Arrow's buffers."""

    def __init__(self, directory: QueueDirectory, table: pa.RecordBatch, words: list[int]) -> None:
        results = np.empty((3, table.num_rows), dtype=np.int64)
        # This takes a fifth of the time that the array takes to return its address.
        super().__init__(directory, words, results, pa.py_buffer(results).address)
        self._table = table

    def _queue_of(self, row: int) -> tuple[bytes, Any]:
        topic = self._table.column("topic")[row].as_buffer().to_pybytes()
        return topic, self._table.column("queue_id")[row].as_py() if "queue_id" in self._table.schema.names else 0
