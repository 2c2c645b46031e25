"""A batch of Arrow columns of the kinds that most are: from Arrow's buffers to the log's file by two kernels.

What is not plain, or cannot be stored, goes the general way (`reput.log.columns`), which also finds the words for a
refusal.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.files.maps import address_of
from reput.kernels import plain_kernels
from reput.kernels.batch_words import CHANGED, COLUMN_WORDS, LAID_OUT, NEW_QUEUE, Batch
from reput.log.batch import Write, numbers_of, raise_numbers
from reput.log.message import MessageRefusedError, PutManyResult, PutStatus, illegal
from reput.log.queue_directory import QueueDirectory, piece_of
from reput.log.topics import NO_OFFSET

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
_DESK_ROWS = 1 << 14
_pack_words = struct.Struct(f"={Batch.TOUCHED + 1}q").pack_into
_DONE, _SIZE, _TOUCHED = int(Batch.DONE), int(Batch.SIZE), int(Batch.TOUCHED)
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
        self._desks: list[_Desk] = []

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
        words = _column_words(table, plan)
        if words is None:
            return None
        batch = PlainBatch(self.directory, table, words, self._desk(table.num_rows))
        return batch if batch.lay_out() else None

    def _desk(self, rows: int) -> _Desk:
        """A desk that is free; a batch takes it from here, in one step, and puts it back."""
        try:
            desk = self._desks.pop()
        except IndexError:
            return _Desk(self.directory.template, self._desks, rows)
        return desk if rows <= desk.rows else _Desk(self.directory.template, self._desks, rows)


class _Desk:
    """What a batch needs only until it is stored, for batches of up to `rows` messages: to make it costs 5 us."""

    def __init__(self, template: NDArray[np.int64], free: list[_Desk], rows: int) -> None:
        self.rows = max(rows, _DESK_ROWS)
        self.words: NDArray[np.int64] = template.copy()
        self.at = address_of(self.words)
        self.queues, self.touched = (np.empty(self.rows, dtype=np.int32) for _ in range(2))
        self.queues_at, self.touched_at = address_of(self.queues), address_of(self.touched)
        self._free = free

    def leave(self) -> None:
        """Have it for the next batch, if it is no larger than most of them need."""
        if self.rows == _DESK_ROWS:
            self._free.append(self)


def _column_words(table: pa.RecordBatch, plan: list[_Column]) -> list[int] | None:
    """The words for the columns; None where one has nulls that it must not have."""
    words = [0] * len(COLUMN_WORDS)
    for number, (place, width, is_text, has_no_nulls) in enumerate(plan):
        array = table.column(number)
        buffers, first = array.buffers(), array.offset
        valid, numbers = buffers[0], buffers[1]
        if valid is not None and has_no_nulls and array.null_count:
            return None
        words[place] = numbers.address + first * width
        if is_text:
            data = buffers[2]
            words[place + 1] = width
            if valid is not None:
                words[place + 2], words[place + 3] = valid.address, first
            if data is not None:
                words[place + 4], words[place + 5] = data.address, data.size
        elif place == _QUEUE_ID:
            words[place + 1] = width
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
    """A plain batch on its way into the log; see `reput.log.batch.Prepared`. `table` keeps Arrow's buffers."""

    def __init__(self, directory: QueueDirectory, table: pa.RecordBatch, words: list[int], desk: _Desk) -> None:
        self.size = 0
        self._directory, self._table, self._desk = directory, table, desk
        self._rows = rows = table.num_rows
        results = np.empty((3, rows), dtype=np.int64)
        self._sizes, self._places, self._numbers = results
        # A fifth of what asking the array for its address costs.
        at = pa.py_buffer(results).address
        _pack_words(
            desk.words.data, 0, rows, *words, desk.queues_at, at, at + 8 * rows, at + 16 * rows, desk.touched_at,
            next(directory.stamps), 0, 0, 0,
        )  # fmt: skip

    def lay_out(self) -> bool:
        """Check and measure the messages; False where the general way has to."""
        run, desk = plain_kernels().lay_out, self._desk
        while (answer := run(desk.at)) == NEW_QUEUE:
            if not self._add_queue(int(desk.words[_DONE])):
                break
        self.size = int(desk.words[_SIZE])
        if answer != LAID_OUT:
            desk.leave()
        return bool(answer == LAID_OUT)

    def _add_queue(self, row: int) -> bool:
        topic = self._table.column("topic")[row]
        queue_id = self._table.column("queue_id")[row].as_py() if "queue_id" in self._table.schema.names else 0
        try:
            return self._directory.add(topic.as_buffer().to_pybytes().decode(), queue_id)
        except (MessageRefusedError, UnicodeDecodeError):
            return False

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records and number them; see `Prepared`."""
        directory, desk = self._directory, self._desk
        touched = desk.touched[: int(desk.words[_TOUCHED])]
        queues = [directory.queues[row] for row in touched.tolist()]
        before = numbers_of(queues)
        following = before
        if NO_OFFSET in before:
            following = [directory.topics.next_offset(topic, queue_id, offset) for topic, queue_id in queues]
        directory.next_offsets[touched] = following
        self._write(write, position, offset, now_ms)
        result = PutManyResult(PutStatus.PUT_OK, self._places, self._sizes, self._numbers, now_ms)
        numbers = directory.next_offsets[touched].tolist()
        desk.leave()
        raise_numbers(queues, numbers, before)
        return result

    def _write(self, write: Write, position: int, offset: int, now_ms: int) -> None:
        directory, rows, run = self._directory, self._rows, plain_kernels().write_rows
        first, begin = 0, 0
        while first < rows:
            last, end = rows, self.size
            if end - begin > directory.piece_bytes:
                # As many as fit the piece; one record may be larger than that.
                places = self._places[first:]
                last = first + max(1, int(np.searchsorted(places, begin + directory.piece_bytes, "right")) - 1)
                end = int(self._places[last]) if last < rows else end
            piece = directory.piece if end - begin <= directory.piece_bytes else piece_of(end - begin)
            if run(self._desk.at, first, last, now_ms, offset + begin, piece.address) == CHANGED:
                raise illegal("a column was changed while it was stored: change none until the call returns")
            write(position + begin, piece.memory[: end - begin])
            first, begin = last, end
