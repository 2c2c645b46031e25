"""Arrow columns of records: kernels fill buffers, and no message becomes a Python object.

`Rows` are some records in one map of a log file. The function of a column's name in `_BUILDERS` makes its array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.connect.options.schemas import Column, Need
from reput.errors import DamagedLogError, ReputError
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED, Host
from reput.formats.stored_text import shown_text
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.kernels import field_kernels
from reput.kernels.layouts.fields import (
    COUNT_PAIRS,
    FIND_PROPERTIES,
    FieldRow,
    Gathered,
    GatheredPairs,
    Stretches,
)
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.log.read.reader import place_in

_HIGH_BITS = 0x8080808080808080
_LOG_APPEND_TIME = 1
_US_PER_MS = 1000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_INSTANT = pa.timestamp("us", tz="UTC")

Int64s = NDArray[np.int64]


class LogBuffer(NamedTuple):
    """A map of a log file, or records in memory: `buffer[0]` is at log offset `base` of file `path`."""

    path: str
    buffer: NDArray[np.uint8]
    base: int

    @property
    def bytes(self) -> LogBytes:
        """The same, as kernels take it."""
        return LogBytes.whole(self.buffer, self.base)


class ColumnNeeds(NamedTuple):
    """Values that the columns of a read need: the CRC check, the broker's name, and flags for the kernel.

    `decoded_size`: the most bytes that a body may expand to, 0 for bodies as they are stored.
    """

    crc_check: int
    broker_name: str | None
    wants: int
    decoded_size: int = 0


class DecodedBodies(NamedTuple):
    """The bodies of the rows that were compressed: their numbers, and for each the body or the reason why not."""

    number: Int64s
    body: list[bytes | None]
    error: list[str | None]


@dataclass
class Rows:
    """Records in one log buffer.

    `position` int64 (log offsets), `size` int32; `topics` names topics, `topic_row` int32 is the one that each record
    has; `queue_id`, `queue_offset` int64. `store_timestamp` (ms) may be None: it is then read from the records.
    `origin`: the log offsets and sizes of the records that the rows were made of, if these are others. `decoded`: the
    bodies that were compressed; None for all bodies as they are stored.
    """

    log: LogBuffer
    needs: ColumnNeeds
    position: Int64s
    size: NDArray[np.int32]
    topics: pa.Array
    topic_row: NDArray[np.int32]
    queue_id: NDArray[np.int32]
    queue_offset: Int64s
    store_timestamp: Int64s | None = None
    origin: tuple[Int64s, NDArray[np.int32]] | None = None
    decoded: DecodedBodies | None = None

    def __len__(self) -> int:
        return len(self.position)

    @cached_property
    def table(self) -> Int64s:
        """The fields of the records; see `FieldRow`.

        Raises:
            DamagedLogError: at one of the places there is no such record.
        """
        table, done = self._read()
        if done < len(self):
            raise DamagedLogError(
                f"{place_in(self.log.path, self.log.base, int(self.position[done]))}: there is no valid record of "
                f"{int(self.size[done])} bytes. Look with `reput check`; failOnDataLoss=false skips it"
            )
        return table

    @property
    def readable(self) -> int:
        """The number of rows before the first one without a sound record."""
        return self._read()[1]

    def _read(self) -> tuple[Int64s, int]:
        table = _buffer(len(FieldRow) * len(self) * 8)[1].view(np.int64).reshape(len(FieldRow), len(self))
        places = RecordPlaces(self.position, self.size)
        done = field_kernels().read_fields(self.log.bytes, places, self.needs.crc_check, self.needs.wants, table)
        return table, int(done)

    @property
    def places(self) -> Int64s:
        """Log offsets of the records that the rows come from."""
        return self.position if self.origin is None else self.origin[0]

    @property
    def record_sizes(self) -> NDArray[np.int32]:
        """Sizes of these records."""
        return self.size if self.origin is None else self.origin[1]

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int32], pa.Array, pa.Array]:
        """All properties as text: the number of each record's first one, their names, their values."""
        return _pairs(self, pa.string())

    def stored_ms(self) -> Int64s:
        """Return the store times (ms)."""
        return self.table[FieldRow.STORE_TIMESTAMP] if self.store_timestamp is None else self.store_timestamp

    def taken(self, chosen: NDArray[Any] | slice) -> Rows:
        """Return some of the rows, by a mask or by numbers."""
        rows = replace(
            self,
            position=self.position[chosen],
            size=self.size[chosen],
            topic_row=self.topic_row[chosen],
            queue_id=self.queue_id[chosen],
            queue_offset=self.queue_offset[chosen],
            store_timestamp=None if self.store_timestamp is None else self.store_timestamp[chosen],
            origin=None if self.origin is None else (self.origin[0][chosen], self.origin[1][chosen]),
        )
        if "table" in self.__dict__:
            # The fields need not be read again.
            rows.__dict__["table"] = np.ascontiguousarray(self.table[:, chosen])
        return rows


def topics_of(rows: Rows) -> pa.Array:
    """Return the topics that the records hold, as a dictionary array."""
    names = _gathered(rows, _stretches(rows, FieldRow.TOPIC_AT), pa.binary())
    return names.dictionary_encode()


_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": _INSTANT,
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<struct<key:string,value:binary>>": pa.list_(pa.field("element", _HEADER)),
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the columns with Arrow's types, as Spark expects them from a Python source."""
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in columns])


def wants_of(columns: Sequence[Column]) -> int:
    """Return the flags for the parts of a record that the kernel has to find for these columns."""
    needs = {column.need for column in columns}
    return (FIND_PROPERTIES if Need.PROPERTIES in needs else 0) | (COUNT_PAIRS if Need.MAP in needs else 0)


def record_batch(rows: Rows, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as a record batch; `schema` is that of the columns."""
    arrays = [_BUILDERS[column.name](rows) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def texts_of(rows: Rows, row: FieldRow) -> pa.Array:
    """Return a property of the records as text."""
    return _text(_gathered(rows, _stretches(rows, row), pa.string()))


# --- parts -----------------------------------------------------------------------------------------


def _stretches(rows: Rows, row: FieldRow) -> Stretches:
    return Stretches.of(rows.log.buffer, rows.table, row)


def _gathered(rows: Rows, stretches: Stretches, kind: pa.DataType) -> pa.Array:
    """Return parts of the log as binary or text; a size below 0 is null."""
    size = stretches.size
    total = int(np.maximum(size, 0).sum())
    (held, data), offsets = _buffer(total), np.empty(len(size) + 1, dtype=np.int32)
    if field_kernels().gather_bytes(stretches, Gathered(data, offsets)) != total:
        raise ReputError(f"{rows.log.path}: a record's parts changed while they were read")
    valid, nulls = _validity(size >= 0)
    return pa.Array.from_buffers(kind, len(size), [valid, pa.py_buffer(offsets), held], nulls)


def _buffer(size: int) -> tuple[pa.Buffer, NDArray[np.uint8]]:
    """Allocate `size` bytes, and return them as Arrow and as numpy see them.

    Arrow's allocator reuses freed memory. With fresh memory for each batch a quarter of a scan was page faults.
    """
    held = pa.allocate_buffer(size)
    return held, np.frombuffer(held, dtype=np.uint8)


def _validity(present: NDArray[np.bool_]) -> tuple[pa.Buffer | None, int]:
    nulls = int(len(present) - np.count_nonzero(present))
    return (pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None), nulls


def _text(array: pa.Array) -> pa.Array:
    """Return the array with bytes that are no UTF-8 replaced, because other readers fail on them."""
    _, _, data = array.buffers()
    if data is None or _is_ascii(np.frombuffer(data, np.uint8)):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.binary(), safe=False) if not pa.types.is_binary(array.type) else array
        return pa.array([None if value is None else shown_text(value) for value in raw.to_pylist()], pa.string())
    return array


def _is_ascii(data: NDArray[np.uint8]) -> bool:
    """Return True if no byte has its highest bit, as in nearly all names and keys; much quicker than a UTF-8 check."""
    whole = len(data) & ~7
    return (
        int(np.bitwise_or.reduce(data[:whole].view(np.uint64), initial=0)) & _HIGH_BITS == 0
        and not (data[whole:] & 0x80).any()
    )


def _times(milliseconds: Int64s) -> pa.Array:
    """Return times; null outside the years 1 to 9999, which Spark's and Python's calendars do not have."""
    inside = (milliseconds >= _FIRST_MS) & (milliseconds <= _LAST_MS)
    if not inside.all():
        return pa.array(np.where(inside, milliseconds, 0) * _US_PER_MS, mask=~inside).view(_INSTANT)
    return pa.array(milliseconds * _US_PER_MS).view(_INSTANT)


def _int32(values: NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.int32, copy=False))


def _pairs(rows: Rows, value_type: pa.DataType) -> tuple[NDArray[np.int32], pa.Array, pa.Array]:
    """Return all properties: the number of each record's first one, their names, their values."""
    table = rows.table
    pairs, names_size, values_size = (
        int(table[row].sum()) for row in (FieldRow.PAIRS, FieldRow.NAMES_SIZE, FieldRow.VALUES_SIZE)
    )
    pair_offsets = np.empty(len(rows) + 1, dtype=np.int32)
    names, values = Gathered.empty(pairs, names_size), Gathered.empty(pairs, values_size)
    count = field_kernels().gather_pairs(
        _stretches(rows, FieldRow.PROPERTIES_AT), GatheredPairs(pair_offsets, names, values)
    )
    if count < 0:
        raise ReputError(f"{rows.log.path}: a record's properties changed while they were read")
    made = [
        pa.Array.from_buffers(kind, count, [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)], 0)
        for kind, texts in ((pa.string(), names), (value_type, values))
    ]
    return pair_offsets, _text(made[0]), _text(made[1]) if pa.types.is_string(value_type) else made[1]


def _properties(rows: Rows) -> pa.Array:
    offsets, names, values = rows.pairs
    entries = pa.StructArray.from_arrays(
        [names, values], fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
    )
    kind = pa.map_(pa.string(), pa.string())
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(offsets)], 0, children=[entries])


def _lite_topics(rows: Rows) -> pa.Array:
    """Return the property that names the lite topic; of a repeated one the last value, as in the map."""
    offsets, names, values = rows.pairs
    found = np.flatnonzero(pc.equal(names, LITE_TOPIC.decode()).to_numpy(zero_copy_only=False))
    record = np.searchsorted(offsets, found, side="right") - 1
    value_of = np.full(len(rows), -1, dtype=np.int64)
    value_of[record] = found
    return values.take(pa.array(value_of, mask=value_of < 0))


def _headers(rows: Rows) -> pa.Array:
    offsets, names, values = _pairs(rows, pa.binary())
    entries = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    kind = pa.list_(pa.field("element", _HEADER))
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(offsets)], 0, children=[entries])


def _hosts(rows: Rows, row: FieldRow) -> pa.Array:
    """Return hosts as text; only the distinct ones, which are few, are formatted."""
    hosts = _stretches(rows, row)
    if len(rows) and field_kernels().are_equal(hosts):
        begin = int(hosts.at[0])
        return pa.repeat(_host_text(rows.log.buffer[begin : begin + int(hosts.size[0])].tobytes()), len(rows))
    raw = _gathered(rows, hosts, pa.binary()).dictionary_encode()
    return pa.array(map(_host_text, raw.dictionary.to_pylist()), pa.string()).take(raw.indices)


def _host_text(value: bytes) -> str:
    return str(Host.decode(value))


def _message_ids(rows: Rows) -> pa.Array:
    """Return store host and log offset, in upper-case hex."""
    hosts = _stretches(rows, FieldRow.STORE_HOST_AT)
    total = int(2 * (hosts.size + 8).sum())
    (held, data), offsets = _buffer(total), np.empty(len(rows) + 1, dtype=np.int32)
    if field_kernels().spell_ids(hosts, rows.places, Gathered(data, offsets)) != total:
        raise ReputError(f"{rows.log.path}: a record's parts changed while they were read")
    return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(offsets), held], 0)


def _field(row: FieldRow) -> Callable[[Rows], pa.Array]:
    # Copied: otherwise the column would keep all fields in memory.
    return lambda rows: pa.array(rows.table[row].copy())


def _small_field(row: FieldRow) -> Callable[[Rows], pa.Array]:
    return lambda rows: _int32(rows.table[row])


def _property(row: FieldRow) -> Callable[[Rows], pa.Array]:
    return lambda rows: texts_of(rows, row)


def _body(rows: Rows) -> pa.Array:
    bodies, decoded = _stretches(rows, FieldRow.BODY_AT), rows.decoded
    if decoded is None:
        return _gathered(rows, bodies, pa.binary())
    mask, size = np.zeros(len(rows), dtype=np.bool_), bodies.size.copy()
    mask[decoded.number], size[decoded.number] = True, -1
    plain = _gathered(rows, bodies._replace(size=size), pa.binary())
    return pc.replace_with_mask(plain, pa.array(mask), pa.array(decoded.body, pa.binary()))


def _body_error(rows: Rows) -> pa.Array:
    errors: list[str | None] = [None] * len(rows)
    if rows.decoded is not None:
        for number, error in zip(rows.decoded.number.tolist(), rows.decoded.error, strict=True):
            errors[number] = error
    return pa.array(errors, pa.string())


def _sys_flag(rows: Rows) -> pa.Array:
    flags = rows.table[FieldRow.SYS_FLAG]
    if rows.needs.decoded_size:
        # The flags then say what the bodies in the frame are, so a frame that is written again says it, too.
        flags = np.where(flags & FLAG_COMPRESSED, flags & ~(FLAG_COMPRESSED | COMPRESSION_MASK), flags)
    return _int32(flags)


def _key(rows: Rows) -> pa.Array:
    return _gathered(rows, _stretches(rows, FieldRow.KEYS_AT), pa.binary())


def _topic(rows: Rows) -> pa.Array:
    return rows.topics.take(pa.array(rows.topic_row))


def _broker_name(rows: Rows) -> pa.Array:
    return pa.repeat(pa.scalar(rows.needs.broker_name, pa.string()), len(rows))


_BUILDERS: dict[str, Callable[[Rows], pa.Array]] = {
    "topic": _topic,
    "flag": _small_field(FieldRow.FLAG),
    "body": _body,
    "properties": _properties,
    "brokerName": _broker_name,
    "queueId": lambda rows: _int32(rows.queue_id),
    "queueOffset": lambda rows: pa.array(rows.queue_offset),
    "bornTimestamp": lambda rows: _times(rows.table[FieldRow.BORN_TIMESTAMP]),
    "storeTimestamp": lambda rows: _times(rows.stored_ms()),
    "keys": _property(FieldRow.KEYS_AT),
    "tags": _property(FieldRow.TAGS_AT),
    "uniqKey": _property(FieldRow.UNIQUE_KEY_AT),
    "offsetMsgId": _message_ids,
    "physicalOffset": lambda rows: pa.array(rows.places),
    "storeSize": lambda rows: _int32(rows.record_sizes),
    "bodyCRC": _small_field(FieldRow.BODY_CRC),
    "sysFlag": _sys_flag,
    "reconsumeTimes": _small_field(FieldRow.RECONSUME_TIMES),
    "bornHost": lambda rows: _hosts(rows, FieldRow.BORN_HOST_AT),
    "storeHost": lambda rows: _hosts(rows, FieldRow.STORE_HOST_AT),
    "liteTopic": _lite_topics,
    "preparedTransactionOffset": _field(FieldRow.PREPARED_OFFSET),
    "key": _key,
    "value": _body,
    "partition": lambda rows: _int32(rows.queue_id),
    "offset": lambda rows: pa.array(rows.queue_offset),
    "timestamp": lambda rows: _times(rows.stored_ms()),
    "timestampType": lambda rows: _int32(np.full(len(rows), _LOG_APPEND_TIME)),
    "headers": _headers,
    "bodyError": _body_error,
}
