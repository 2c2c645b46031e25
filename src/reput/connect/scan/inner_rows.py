"""Rows of batches in one record: a row for each message, with its own number in the queue.

A message has a flag, body, properties and queue offset of its own. All else, such as its place in the log, is the
record's. As in RocketMQ's clients, only a record with both flags (sysFlag 0x40 and 0x80) whose body can be read is
taken apart; any other is one row, with the number of its first message. A compressed body can be read if bodies are
decoded; its messages are not compressed.

Source: `PullAPIWrapper.processPullResult`, `MessageDecoder.decodeMessage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from reput.connect.options.selection import NumberRange, Selection
from reput.connect.scan.arrays import LogBuffer, Rows
from reput.formats.log.body import BodyError, decode_body
from reput.formats.log.client_batch import InnerMessage, decode_messages
from reput.formats.log.record import (
    CHECK_NONE,
    COMPRESSION_MASK,
    FLAG_COMPRESSED,
    FLAG_INNER_BATCH,
    FLAG_NEED_UNWRAP,
    HEAD,
    PHYSICAL_OFFSET_AT,
    SYS_FLAG_AT,
    decode_record,
    encode_record,
)
from reput.kernels.layouts.fields import FieldRow

_SYS_FLAG, _PHYSICAL_OFFSET = HEAD.struct_of("sys_flag"), HEAD.struct_of("physical_offset")
_BOTH = FLAG_NEED_UNWRAP | FLAG_INNER_BATCH


def unwrapped(rows: Rows, batches: NDArray[np.int64], selection: Selection, within: NumberRange) -> Rows:
    """Replace the rows with the numbers `batches`, which are inner batches, by rows of their messages.

    Messages of a batch stay if their queue offsets are wanted and lie `within` bounds.
    """
    messages = {number: found for number in batches.tolist() if (found := _messages(rows, number)) is not None}
    spans = {number: _span(rows, number, selection, within) for number in batches.tolist()}
    gone = [
        number
        for number in batches.tolist()
        if number not in messages and not spans[number].begin <= rows.queue_offset[number] < spans[number].end
    ]
    if not messages:
        return rows.taken(np.setdiff1d(np.arange(len(rows)), gone)) if gone else rows
    # The records are checked before they are taken apart: the rows that they become do not have their CRC.
    assert rows.table is not None
    made = _InnerRecords()
    left_out = set(gone)
    for number in range(len(rows)):
        if number in messages:
            made.add_messages(rows, number, messages[number], spans[number])
        elif number not in left_out:
            made.add_record(rows, number)
    return made.rows(rows)


def _messages(rows: Rows, number: int) -> list[InnerMessage] | None:
    at = int(rows.position[number]) - rows.log.base
    (flag,) = _SYS_FLAG.unpack_from(rows.log.buffer.data, at + SYS_FLAG_AT)
    if flag & _BOTH != _BOTH:
        return None
    body = decode_record(rows.log.buffer.data, at).body
    if not flag & FLAG_COMPRESSED:
        return decode_messages(body)
    if not rows.needs.decoded_size:
        return None
    try:
        return decode_messages(decode_body(body, flag, rows.needs.decoded_size))
    except BodyError:
        # The row of the record gets the reason.
        return None


def parts_of_batches(rows: Rows, batches: NDArray[np.int64]) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """Yield the rows in parts with at most one compressed batch, and the numbers of the batches in each.

    So memory holds one batch that expands, not all of them.
    """
    flags = rows.table[FieldRow.SYS_FLAG][batches] if rows.needs.decoded_size else np.zeros_like(batches)
    begin = 0
    for end in [*(batches[(flags & FLAG_COMPRESSED) != 0] + 1).tolist(), len(rows)]:
        if end > begin:
            inside = batches[(batches >= begin) & (batches < end)] - begin
            yield (rows if end - begin == len(rows) else rows.taken(slice(begin, end))), inside
        begin = end


def _span(rows: Rows, number: int, selection: Selection, within: NumberRange) -> NumberRange:
    topic = rows.topics[int(rows.topic_row[number])].as_py()
    return selection.offsets_of((topic, int(rows.queue_id[number]))).cut(within.begin, within.end)


class _InnerRecords:
    """Records in memory, one for each row, and the row that each was made of."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._position: list[int] = []
        self._of: list[int] = []
        self._queue_offset: list[int] = []

    def add_record(self, rows: Rows, number: int) -> None:
        """Add a record with its place in memory as physical offset."""
        at = int(rows.position[number]) - rows.log.base
        record = bytearray(rows.log.buffer[at : at + int(rows.size[number])].tobytes())
        _PHYSICAL_OFFSET.pack_into(record, PHYSICAL_OFFSET_AT, len(self._data))
        self._add(record, number, int(rows.queue_offset[number]))

    def add_messages(self, rows: Rows, number: int, messages: Iterable[InnerMessage], span: NumberRange) -> None:
        """Add the messages of a batch."""
        whole = decode_record(rows.log.buffer.data, int(rows.position[number]) - rows.log.base)
        compression = FLAG_COMPRESSED | COMPRESSION_MASK if whole.sys_flag & FLAG_COMPRESSED else 0
        sys_flag = whole.sys_flag & ~compression
        for offset, one in enumerate(messages, int(rows.queue_offset[number])):
            if span.begin <= offset < span.end:
                record = whole._replace(
                    sys_flag=sys_flag, flag=one.flag, body=one.body, properties=one.properties, queue_offset=offset,
                    physical_offset=len(self._data),
                )  # fmt: skip
                self._add(encode_record(record), number, offset)

    def _add(self, data: bytes | bytearray, number: int, queue_offset: int) -> None:
        self._position.append(len(self._data))
        self._of.append(number)
        self._queue_offset.append(queue_offset)
        self._data += data

    def rows(self, of: Rows) -> Rows:
        """Return the rows, with the places and sizes of the records in the log as their origin."""
        number = np.array(self._of, dtype=np.int64)
        position = np.array(self._position, dtype=np.int64)
        size = np.diff(position, append=len(self._data)).astype(np.int32)
        log = LogBuffer(of.log.path, np.frombuffer(bytes(self._data), dtype=np.uint8), 0)
        return Rows(
            log, of.needs._replace(crc_check=CHECK_NONE), position, size, of.topics, of.topic_row[number],
            of.queue_id[number], np.array(self._queue_offset, dtype=np.int64), of.stored_ms()[number],
            (of.position[number], of.size[number]),
        )  # fmt: skip
