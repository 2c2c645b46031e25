"""A batch of messages as Arrow columns on its way into the log: no Python object a message, nothing copied twice.

| column | Arrow type | without it |
|---|---|---|
| topic | text, plain or dictionary | must be there |
| body | binary or text | must be there |
| queue_id | integer | 0 |
| tags | text | no tags (so does an empty text) |
| keys | text, or list of texts | no keys |
| properties | map of text to text | no properties |
| unique_key | text | none |
| flag, sys_flag | integer | 0 |
| born_timestamp | integer, or timestamp: ms | the time of the put |

A null counts as a column that is not there. The kernels are `reput.kernels.reference_encode` and its compiled twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.formats import properties as props
from reput.formats.record import FLAG_BORN_HOST_V6, FLAG_INNER_BATCH, FLAG_STORE_HOST_V6, TRANSACTION_MASK
from reput.kernels import encode_kernels
from reput.kernels.message_columns import Frame, Groups, MessageColumns, QueueTable, Refusal, Texts, frozen
from reput.log.batch import Write, raise_numbers
from reput.log.message import MessageRefusedError, PutManyResult, PutStatus, illegal
from reput.log.topics import MAX_QUEUE_ID, Topic, TopicTable

if TYPE_CHECKING:
    from reput.log.encode import RecordEncoder

_KNOWN = (
    "topic", "body", "queue_id", "tags", "keys", "properties", "unique_key", "flag", "sys_flag", "born_timestamp",
)  # fmt: skip
_FEW_QUEUES = 1 << 12
# By number: to ask pyarrow for each kind in turn took a tenth of a batch.
_TEXTS = (pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING)
_BINARIES = (pa.lib.Type_BINARY, pa.lib.Type_LARGE_BINARY)
_WIDE = (pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY)
_REASONS = {
    Refusal.BODY_TOO_LONG: "its body is over {max_body} bytes (maxMessageSize)",
    Refusal.PROPERTIES_TOO_LONG: f"its properties, the CRC's included, are over {props.MAX_PROPERTIES_SIZE} bytes",
    Refusal.BAD_TAGS: "its tags hold the characters 0x01 or 0x02",
    Refusal.BAD_KEY: "one of its keys is empty or holds a space, 0x01 or 0x02 (several keys: a list)",
    Refusal.BAD_UNIQUE_KEY: "its unique key holds the characters 0x01 or 0x02",
    Refusal.BAD_PROPERTY: "a property's name or value is empty or holds the characters 0x01 or 0x02",
    Refusal.BAD_OFFSETS: "its Arrow columns point outside their data",
}


class ColumnBatch:
    """A batch given as columns, checked and measured; see `reput.log.batch.Prepared`.

    Raises:
        MessageRefusedError: one of the messages cannot be stored, and which, or a column is none of those above.
    """

    def __init__(
        self, table: pa.Table | pa.RecordBatch, topics: TopicTable, records: RecordEncoder, max_body: int
    ) -> None:
        columns = _arrays(table)
        self._topics = topics
        self._append_crc = records.append_crc
        self._queues, queue = _queues(columns, topics)
        self._born = _numbers(columns, "born_timestamp", np.int64) if "born_timestamp" in columns else None
        self._messages = _messages(columns, queue, records.host_bits)
        self._table = _queue_table(self._queues)
        self._frame = Frame(*(_frozen_bytes(part) for part in records.host_parts))
        self._sizes = np.empty(len(queue), dtype=np.int32)
        row, why = encode_kernels().measure_records(
            self._messages, self._table, self._frame, max_body, self._append_crc, self._sizes
        )
        if row >= 0:
            status = PutStatus.MESSAGE_ILLEGAL
            if why == Refusal.PROPERTIES_TOO_LONG:
                status = PutStatus.PROPERTIES_SIZE_EXCEEDED
            raise MessageRefusedError(
                status, f"message {row} of the batch: {_REASONS[Refusal(why)].format(max_body=max_body)}"
            )
        self.size = int(self._sizes.sum(dtype=np.int64))

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Store the records and number them; see `Prepared`."""
        following = np.array(
            [self._topics.next_offset(topic, queue_id, offset) for topic, queue_id in self._queues], dtype=np.int64
        )
        numbers = np.empty(len(self._sizes), dtype=np.int64)
        buffer = np.empty(self.size, dtype=np.uint8)
        encode_kernels().encode_records(
            self._messages,
            self._table,
            self._frame,
            self._sizes,
            self._append_crc,
            self._born_timestamps(now_ms),
            now_ms,
            offset,
            following,
            numbers,
            buffer,
            0,
        )
        write(position, buffer.data)
        sizes = self._sizes.astype(np.int64)
        result = PutManyResult(PutStatus.PUT_OK, offset + np.cumsum(sizes) - sizes, sizes, numbers, now_ms)
        raise_numbers(self._queues, following.tolist())
        return result

    def _born_timestamps(self, now_ms: int) -> NDArray[np.int64]:
        if self._born is None:
            return np.full(len(self._sizes), now_ms, dtype=np.int64)
        values, missing = self._born
        return values if missing is None else np.where(missing, now_ms, values)


def _arrays(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    """The columns by name, each in one piece; those that are null all through are left out."""
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        raise illegal(f"{type(table).__name__}: give a pyarrow Table or RecordBatch")
    unknown = [name for name in table.column_names if name not in _KNOWN]
    if unknown or len(set(table.column_names)) < len(table.column_names):
        raise illegal(f"columns {table.column_names}: give each of these at most once: {', '.join(_KNOWN)}")
    columns = {}
    for name in table.column_names:
        array = table.column(name)
        if isinstance(array, pa.ChunkedArray):
            # Of a table without rows no chunk is left.
            array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [_none_of(array)])
        try:
            # What Arrow itself will look into is checked to the last offset; the kernels check what they look into.
            array.validate(full=name in {"topic", "properties"} or pa.types.is_dictionary(array.type))
        except pa.ArrowInvalid as error:
            raise illegal(f"column {name}: {error}") from error
        if name in {"topic", "body"}:
            if array.null_count:
                row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
                raise illegal(f"message {row} of the batch: it has no {name}")
        elif array.null_count == len(array):
            continue
        columns[name] = array
    for name in ("topic", "body"):
        if name not in columns:
            raise illegal(f"columns {table.column_names}: there must be a column {name}")
    return columns


def _none_of(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], type=column.type)


def _messages(columns: Mapping[str, Any], queue: NDArray[np.int32], host_bits: int) -> MessageColumns:
    count = len(queue)
    keys, key_rows = Texts.empty(0), Groups.empty(count)
    if "keys" in columns:
        array = columns["keys"]
        if _is_list(array.type):
            key_rows, keys = _groups(array), _texts(_list_values(array), "keys")
        else:
            # Each message has one row, or none where the key is null.
            first = np.arange(count, dtype=np.int64)
            present = np.asarray(array.is_valid()) if array.null_count else True
            key_rows, keys = Groups(first, first + present), _texts(array, "keys")
    names = values = Texts.empty(0)
    pair_rows = Groups.empty(count)
    if "properties" in columns:
        array = columns["properties"]
        if not pa.types.is_map(array.type):
            raise illegal(f"column properties is {array.type}: give a map of text to text")
        _refuse_names(array, columns)
        pair_rows = _groups(array)
        names, values = _texts(array.keys, "properties"), _texts(array.items, "properties")
    sys_flag = _plain_flags(columns, count) & ~(FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6) | host_bits
    messages = MessageColumns(
        queue=queue,
        flag=_filled(columns, "flag", np.int32, count),
        sys_flag=sys_flag.astype(np.int32),
        body=_texts(columns["body"], "body", binary=True),
        tags=_texts(columns["tags"], "tags") if "tags" in columns else Texts.empty(count),
        unique_key=_texts(columns["unique_key"], "unique_key") if "unique_key" in columns else Texts.empty(count),
        key_rows=key_rows,
        keys=keys,
        pair_rows=pair_rows,
        names=names,
        values=values,
    )
    return frozen(messages)


def _plain_flags(columns: Mapping[str, Any], count: int) -> NDArray[np.int32]:
    """The sysFlags of messages that may be in a batch."""
    sys_flag = _filled(columns, "sys_flag", np.int32, count)
    refused = np.flatnonzero(sys_flag & (TRANSACTION_MASK | FLAG_INNER_BATCH))
    if len(refused):
        raise illegal(
            f"message {refused[0]} of the batch: sysFlag {int(sys_flag[refused[0]]):#x}; transactions, and batches "
            "in one record, are put one by one"
        )
    return sys_flag


def _refuse_names(array: Any, columns: Mapping[str, Any]) -> None:
    """Refuse names among the properties that have columns of their own, or cannot be in a batch."""
    barred = [name.decode() for name in (props.INNER_NUM, props.INNER_MULTI_QUEUE_OFFSET, props.DELAY, props.CRC32)]
    own = (("tags", props.TAGS), ("keys", props.KEYS), ("unique_key", props.UNIQ_KEY))
    barred += [name.decode() for column, name in own if column in columns]
    found = pc.is_in(array.keys, value_set=pa.array(barred, type=array.keys.type))
    # Entries that belong to no message (behind a null, outside a slice) may be anything.
    rows = np.flatnonzero(np.asarray(found))
    if len(rows):
        groups = _groups(array)
        inside = np.searchsorted(groups.first, rows, side="right") - 1
        inside = inside[(inside >= 0) & (rows < groups.last[inside])]
        if len(inside):
            raise illegal(
                f"message {inside[0]} of the batch: none of {', '.join(barred)} may be among its properties: it has a "
                "column of its own, or cannot be in a batch"
            )


def _queues(columns: Mapping[str, Any], topics: TopicTable) -> tuple[list[tuple[Topic, int]], NDArray[np.int32]]:
    """The queues that the batch has messages for, and each message's row among them."""
    topic = columns["topic"]
    if not pa.types.is_dictionary(topic.type):
        if not (pa.types.is_string(topic.type) or pa.types.is_large_string(topic.type)):
            raise illegal(f"column topic is {topic.type}: give texts")
        topic = topic.dictionary_encode()
    names = topic.dictionary
    if not (pa.types.is_string(names.type) or pa.types.is_large_string(names.type)):
        raise illegal(f"column topic is of {names.type}: give texts")
    codes = np.asarray(topic.indices).astype(np.int64, copy=False)
    queue_id = _filled(columns, "queue_id", np.int64, len(codes))
    bad = np.flatnonzero((queue_id < 0) | (queue_id > MAX_QUEUE_ID))
    if len(bad):
        raise illegal(f"message {bad[0]} of the batch: queue id {int(queue_id[bad[0]])}: give 0 to {MAX_QUEUE_ID}")
    keys, places = _distinct(codes, queue_id)
    # One topic may stand twice in a dictionary that somebody else has made.
    row_of: dict[tuple[Topic, int], int] = {}
    rows: list[int] = []
    known: dict[int, Topic] = {}
    for key in keys:
        topic_of = known.get(key >> 32)
        if topic_of is None:
            try:
                topic_of = known[key >> 32] = topics.topic(names[key >> 32].as_py())
            except (MessageRefusedError, UnicodeDecodeError) as refusal:
                row = int(np.flatnonzero(codes == key >> 32)[0])
                raise illegal(f"message {row} of the batch: {refusal}") from None
        rows.append(row_of.setdefault((topic_of, key & MAX_QUEUE_ID), len(row_of)))
    return list(row_of), np.array(rows, dtype=np.int32)[places]


def _distinct(codes: NDArray[np.int64], queue_id: NDArray[np.int64]) -> tuple[list[int], NDArray[np.integer[Any]]]:
    """The queues that there are, each as topic's code << 32 | queue id, and which of them each message has."""
    ids = int(queue_id.max(initial=0)) + 1
    room = (int(codes.max(initial=0)) + 1) * ids
    if room > _FEW_QUEUES + len(codes):
        distinct = pa.array(codes << 32 | queue_id).dictionary_encode()
        return np.asarray(distinct.dictionary).tolist(), np.asarray(distinct.indices)
    # Numbers as small as most are need no hash table: a third of the time.
    both = codes * ids + queue_id
    is_there = np.zeros(room, dtype=np.bool_)
    is_there[both] = True
    found = np.flatnonzero(is_there)
    place = np.empty(room, dtype=np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return (found // ids << 32 | found % ids).tolist(), place[both]


def _queue_table(queues: list[tuple[Topic, int]]) -> QueueTable:
    sizes = np.array([len(topic.part) for topic, _ in queues], dtype=np.int64)
    end = np.cumsum(sizes)
    return frozen(
        QueueTable(
            np.array([queue_id for _, queue_id in queues], dtype=np.int32),
            np.array([topic.magic for topic, _ in queues], dtype=np.int32),
            Texts(end - sizes, end, _frozen_bytes(b"".join(topic.part for topic, _ in queues))),
        )
    )


def _frozen_bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _list_values(array: Any) -> Any:
    """All values of a list array, those before and behind a slice too: its offsets count from the first."""
    return array.values


def _offsets(array: Any, wide: bool) -> NDArray[np.int64]:
    """The places between which each row lies; offsets of a slice count from the data's own start."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) + 1, dtype=np.int64)
    dtype = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(buffer, dtype=dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    return offsets.astype(np.int64)


def _ends(array: Any, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each row ends: where it begins for a null."""
    if not array.null_count:
        return offsets[1:]
    return np.where(np.asarray(array.is_valid()), offsets[1:], offsets[:-1])


def _groups(array: Any) -> Groups:
    offsets = _offsets(array, pa.types.is_large_list(array.type))
    return Groups(offsets[:-1], _ends(array, offsets))


def _texts(array: Any, name: str, binary: bool = False) -> Texts:
    if array.type.id == pa.lib.Type_DICTIONARY:
        array = array.dictionary_decode()
    kind = array.type.id
    if kind not in _TEXTS and not (binary and kind in _BINARIES):
        raise illegal(f"column {name} is of {array.type}: give {'binary or text' if binary else 'texts'}")
    data = array.buffers()[2]
    offsets = _offsets(array, kind in _WIDE)
    return Texts(
        offsets[:-1], _ends(array, offsets), np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, np.uint8)
    )


def _numbers(columns: Mapping[str, Any], name: str, dtype: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """A column of integers, and which rows of it are null (None: none is)."""
    array = columns[name]
    target = pa.from_numpy_dtype(dtype)
    try:
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("ms", array.type.tz), safe=False).cast(target)
        elif not pa.types.is_integer(array.type):
            raise illegal(f"column {name} is of {array.type}: give integers")
        elif array.type != target:
            array = array.cast(target)
    except pa.ArrowInvalid as error:
        raise illegal(f"column {name}: {error}") from error
    missing = np.asarray(array.is_null()) if array.null_count else None
    return np.asarray(array.fill_null(0) if array.null_count else array), missing


def _filled(columns: Mapping[str, Any], name: str, dtype: Any, count: int) -> NDArray[Any]:
    """A column of integers, 0 where nothing is given."""
    if name not in columns:
        return np.zeros(count, dtype=dtype)
    return _numbers(columns, name, dtype)[0]
