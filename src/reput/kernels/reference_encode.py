"""The encode kernels in plain Python: the specification that the compiled ones are tested against.

`measure_records` looks at a whole batch before a byte of it is written; `encode_records` then cannot fail. Both take
what `reput.kernels.message_columns` describes.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.formats import properties as props
from reput.formats.record import (
    CRC_PROPERTY_SIZE,
    HOST_V4_SIZE,
    MAGIC_V2,
    Host,
    Record,
    encode_record,
    record_size,
)
from reput.kernels.message_columns import Refusal, Texts

if TYPE_CHECKING:
    from reput.kernels.message_columns import Frame, Groups, MessageColumns, QueueTable


_TAIL_V4_SIZE = HOST_V4_SIZE + 4 + 8
_NOWHERE = Texts(np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int64), np.empty(0, dtype=np.uint8))
"""A text that lies outside its data."""


def measure_records(
    columns: MessageColumns,
    queues: QueueTable,
    frame: Frame,
    max_body: int,
    append_crc: bool,
    size_out: NDArray[np.int32],
) -> tuple[int, int]:
    """Fill `size_out` with each record's bytes; returns the first message that cannot be stored and its `Refusal`.

    Without such a message that is (-1, NONE).
    """
    for n in range(len(columns.queue)):
        why = _refusal(columns, n, max_body, append_crc)
        if why is not Refusal.NONE:
            return n, int(why)
        properties = bytes(CRC_PROPERTY_SIZE) if append_crc else b""
        properties += _properties(columns, n)
        size_out[n] = record_size(
            _text(queues.topic, int(columns.queue[n]))[1:],
            _text(columns.body, n),
            properties,
            0,
            0,
        )
        # The topic's part has its length in front: one byte, which every record has, or two.
        size_out[n] += len(frame.born_host) - HOST_V4_SIZE + len(frame.tail) - _TAIL_V4_SIZE
    return -1, int(Refusal.NONE)


def _refusal(columns: MessageColumns, n: int, max_body: int, append_crc: bool) -> Refusal:
    """What is wrong with a message: the first thing, in the order in which its parts stand here."""
    if not _is_inside(columns.body, n):
        return Refusal.BAD_OFFSETS
    if columns.body.end[n] - columns.body.begin[n] > max_body:
        return Refusal.BODY_TOO_LONG
    parts = [(columns.tags, n, b"\x01\x02", True, Refusal.BAD_TAGS)]
    key_rows = _rows(columns.key_rows, n, columns.keys)
    parts += [(columns.keys, row, b"\x01\x02 ", False, Refusal.BAD_KEY) for row in key_rows or ()]
    if key_rows is None:
        parts.append((_NOWHERE, 0, b"", False, Refusal.BAD_OFFSETS))
    parts.append((columns.unique_key, n, b"\x01\x02", True, Refusal.BAD_UNIQUE_KEY))
    pair_rows = _rows(columns.pair_rows, n, columns.names, columns.values)
    if pair_rows is None:
        parts.append((_NOWHERE, 0, b"", False, Refusal.BAD_OFFSETS))
    for row in pair_rows or ():
        parts += [(texts, row, b"\x01\x02", False, Refusal.BAD_PROPERTY) for texts in (columns.names, columns.values)]
    for texts, row, bad, may_be_empty, why in parts:
        if may_be_empty and texts.begin[row] == texts.end[row]:
            continue
        if not _is_inside(texts, row):
            return Refusal.BAD_OFFSETS
        text = _text(texts, row)
        if not text or _has(text, bad):
            return why
    room = props.MAX_PROPERTIES_SIZE - (CRC_PROPERTY_SIZE if append_crc else 0)
    return Refusal.PROPERTIES_TOO_LONG if len(_properties(columns, n)) > room else Refusal.NONE


def _is_inside(texts: Texts, row: int) -> bool:
    return bool(0 <= texts.begin[row] <= texts.end[row] <= len(texts.data))


def _rows(groups: Groups, n: int, *tables: Texts) -> range | None:
    """A message's rows in tables of texts, None where a table has no such rows."""
    first, last = int(groups.first[n]), int(groups.last[n])
    count = min(len(places) for texts in tables for places in (texts.begin, texts.end))
    return range(first, last) if 0 <= first <= last <= count else None


def _has(text: bytes, bad: bytes) -> bool:
    return any(byte in bad for byte in text)


def _text(texts: Texts, row: int) -> bytes:
    return texts.data[int(texts.begin[row]) : int(texts.end[row])].tobytes()


def _properties(columns: MessageColumns, n: int) -> bytes:
    pieces = [
        _text(columns.names, row) + b"\x01" + _text(columns.values, row) + b"\x02"
        for row in range(int(columns.pair_rows.first[n]), int(columns.pair_rows.last[n]))
    ]
    keys = [_text(columns.keys, row) for row in range(int(columns.key_rows.first[n]), int(columns.key_rows.last[n]))]
    own = (
        (props.TAGS, _text(columns.tags, n)),
        (props.KEYS, b" ".join(keys)),
        (props.UNIQ_KEY, _text(columns.unique_key, n)),
    )
    pieces += [name + b"\x01" + value + b"\x02" for name, value in own if value]
    return b"".join(pieces)


def encode_records(
    columns: MessageColumns,
    queues: QueueTable,
    frame: Frame,
    size: NDArray[np.int32],
    append_crc: bool,
    born_timestamp: NDArray[np.int64],
    store_timestamp: int,
    physical_offset: int,
    next_offset: NDArray[np.int64],
    queue_offset_out: NDArray[np.int64],
    buffer: NDArray[np.uint8],
    position: int,
) -> int:
    """Write the records of a measured batch into `buffer` from `position` on; returns the position behind them.

    The first stands at log offset `physical_offset`. Each takes the next offset of its queue: `next_offset` (int64,
    per queue) is raised, `queue_offset_out` (int64, per message) says which it was.
    """
    *store_host, tries, prepared = struct.unpack(f">{len(frame.tail) - 16}siiq", frame.tail.tobytes())
    begin = position
    for n in range(len(columns.queue)):
        queue = int(columns.queue[n])
        queue_offset_out[n] = next_offset[queue]
        next_offset[queue] += 1
        magic = int(queues.magic[queue])
        data = encode_record(
            Record(
                topic=_text(queues.topic, queue)[2 if magic == MAGIC_V2 else 1 :],
                body=_text(columns.body, n),
                properties=_properties(columns, n),
                queue_id=int(queues.queue_id[queue]),
                flag=int(columns.flag[n]),
                queue_offset=int(queue_offset_out[n]),
                physical_offset=physical_offset + position - begin,
                sys_flag=int(columns.sys_flag[n]),
                born_timestamp=int(born_timestamp[n]),
                born_host=Host.decode(frame.born_host.tobytes()),
                store_timestamp=store_timestamp,
                store_host=Host(*store_host),
                reconsume_times=tries,
                prepared_transaction_offset=prepared,
                magic=magic,
            ),
            append_crc,
        )
        assert len(data) == size[n]
        buffer[position : position + len(data)] = np.frombuffer(data, dtype=np.uint8)
        position += len(data)
    return position


def body_crc(body: bytes) -> int:
    """The CRC-32 of a body, as a record holds it."""
    return zlib.crc32(body) & 0x7FFFFFFF
