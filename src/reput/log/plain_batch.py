"""A batch of Arrow columns of the kinds that most are: from Arrow's buffers to the log's file by two kernels.

What is not plain, or cannot be stored, goes the general way (`reput.log.columns`), which also finds the words for a
refusal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.files.maps import address_of
from reput.kernels import plain_kernels
from reput.kernels.batch_words import CHANGED, COLUMN_WORDS, LAID_OUT, NEW_QUEUE, Batch, Text
from reput.log.batch import Write, raise_numbers
from reput.log.message import MessageRefusedError, PutManyResult, PutStatus, illegal
from reput.log.queue_directory import QueueDirectory

_TEXTS = {pa.string(): 4, pa.large_string(): 8}
_BODIES = {**_TEXTS, pa.binary(): 4, pa.large_binary(): 8}
_NUMBERS = {pa.int32(): 4, pa.int64(): 8}
_KINDS = {
    "topic": (Batch.TOPIC, _TEXTS),
    "body": (Batch.BODY, _BODIES),
    "tags": (Batch.TAGS, _TEXTS),
    "keys": (Batch.KEYS, _TEXTS),
    "unique_key": (Batch.UNIQUE_KEY, _TEXTS),
    "queue_id": (Batch.QUEUE_ID_AT, _NUMBERS),
    "flag": (Batch.FLAG_AT, {pa.int32(): 4}),
    "born_timestamp": (Batch.BORN_AT, {pa.int64(): 8}),
}
_NO_NULLS = {"topic", "body", "queue_id", "flag", "born_timestamp"}


class _Column(NamedTuple):
    """Where a column of the schema goes: its first word, bytes of an offset or number, whether it is texts."""

    place: int
    width: int
    is_text: bool
    has_no_nulls: bool


class PlainBatches:
    """Makes plain batches for one log's writer."""

    def __init__(self, directory: QueueDirectory) -> None:
        self.directory = directory
        self._last: tuple[pa.Schema, list[_Column] | None] = (pa.schema([]), None)

    def batch(self, table: pa.Table | pa.RecordBatch) -> PlainBatch | None:
        """The batch, checked and measured; None where it is not plain."""
        if isinstance(table, pa.Table):
            parts = table.to_batches()
            if len(parts) != 1:
                return None
            (table,) = parts
        elif not isinstance(table, pa.RecordBatch):
            return None
        schema, plan = self._last
        if not table.schema.equals(schema):
            plan = _plan_of(table.schema)
            self._last = table.schema, plan
        if plan is None or not table.num_rows:
            return None
        try:
            table.validate()
        except pa.ArrowInvalid:
            return None
        held: list[object] = []
        words = _column_words(table, plan, held)
        if words is None:
            return None
        batch = PlainBatch(self.directory, table, words, held)
        return batch if batch.lay_out() else None


def _column_words(table: pa.RecordBatch, plan: list[_Column], held: list[object]) -> list[int] | None:
    """The words for the columns; None where one has nulls that it must not have. `held`: the buffers they point to."""
    words = [0] * len(COLUMN_WORDS)
    for column, array in zip(plan, table.columns, strict=True):
        buffers = array.buffers()
        held.append(buffers)
        valid = buffers[0]
        if valid is not None and column.has_no_nulls and array.null_count:
            return None
        place, first, numbers = column.place, array.offset, buffers[1]
        if not column.is_text:
            words[place] = numbers.address + first * column.width
            if place == _QUEUE_ID:
                words[place + 1] = column.width
            continue
        data = buffers[2]
        words[place : place + len(Text)] = (
            numbers.address + first * column.width,
            column.width,
            valid.address if valid is not None else 0,
            first,
            data.address if data is not None else 0,
            data.size if data is not None else 0,
        )
    return words


_QUEUE_ID = Batch.QUEUE_ID_AT - COLUMN_WORDS.start


def _plan_of(schema: pa.Schema) -> list[_Column] | None:
    names = schema.names
    if len(set(names)) < len(names) or not {"topic", "body"} <= set(names) or not set(names) <= set(_KINDS):
        return None
    plan = []
    for name, kind in zip(names, schema.types, strict=True):
        place, widths = _KINDS[name]
        if kind not in widths:
            return None
        is_text = widths is _TEXTS or widths is _BODIES
        plan.append(_Column(place - COLUMN_WORDS.start, widths[kind], is_text, name in _NO_NULLS))
    return plan


class PlainBatch:
    """A plain batch on its way into the log; see `reput.log.batch.Prepared`. `held` keeps Arrow's buffers."""

    def __init__(self, directory: QueueDirectory, table: pa.RecordBatch, words: list[int], held: list[object]) -> None:
        rows = table.num_rows
        self.size = 0
        self._directory = directory
        self._held = held
        self._table = table
        self._sizes, self._places, self._numbers = (np.empty(rows, dtype=np.int64) for _ in range(3))
        self._rows = np.empty(2 * rows, dtype=np.int32)
        at = address_of(self._rows)
        self._words: NDArray[np.int64] = directory.template.copy()
        self._words[Batch.ROWS] = rows
        self._words[COLUMN_WORDS.start : Batch.STAMP + 1] = (
            *words, at, address_of(self._sizes), address_of(self._places), address_of(self._numbers), at + 4 * rows,
            directory.stamp(),
        )  # fmt: skip
        self._at = address_of(self._words)

    def lay_out(self) -> bool:
        """Check and measure the messages; False where the general way has to."""
        run = plain_kernels().lay_out
        while (answer := run(self._at)) == NEW_QUEUE:
            if not self._add_queue(int(self._words[Batch.DONE])):
                return False
        self.size = int(self._words[Batch.SIZE])
        return bool(answer == LAID_OUT)

    def _add_queue(self, row: int) -> bool:
        topic = self._table.column("topic")[row]
        name = topic.as_buffer()
        queue_id = self._table.column("queue_id")[row].as_py() if "queue_id" in self._table.schema.names else 0
        try:
            return self._directory.add(name.to_pybytes().decode(), queue_id, name.address, name.size)
        except (MessageRefusedError, UnicodeDecodeError):
            return False

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records and number them; see `Prepared`."""
        directory, words = self._directory, self._words
        rows = len(self._sizes)
        touched = self._rows[rows : rows + int(words[Batch.TOUCHED])]
        topics = directory.topics
        queues = [directory.queues[row] for row in touched.tolist()]
        directory.next_offsets[touched] = [
            topic.next_offset.get(queue_id) or topics.next_offset(topic, queue_id, offset) for topic, queue_id in queues
        ]
        first, run = 0, plain_kernels().write_rows
        while first < rows:
            begin, last = int(self._places[first]), rows
            if self.size - begin > len(directory.piece):
                # As many as fit the piece; one record may be larger than that.
                last = max(first + 1, int(np.searchsorted(self._places, begin + len(directory.piece), "right")) - 1)
            end = int(self._places[last]) if last < rows else self.size
            piece = directory.piece if end - begin <= len(directory.piece) else bytearray(end - begin)
            at = address_of(np.frombuffer(piece, dtype=np.uint8))
            if run(self._at, first, last, now_ms, offset + begin, at) == CHANGED:
                raise illegal("a column was changed while it was stored: change none until the call returns")
            write(position + begin, memoryview(piece)[: end - begin])
            first = last
        self._places += offset
        result = PutManyResult(PutStatus.PUT_OK, self._places, self._sizes, self._numbers, now_ms)
        raise_numbers(zip(queues, directory.next_offsets[touched].tolist(), strict=True))
        return result
