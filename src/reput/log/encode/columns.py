"""Messages as Arrow columns, normalized to the columns that the encode kernels read.

| column | Arrow type | if it is missing |
|---|---|---|
| topic | text, plain or dictionary | an error |
| body | binary or text | an error |
| queue_id | integer | 0 |
| tags | text | no tags; an empty text is no tag, too |
| keys | text, or list of texts | no keys |
| properties | map of text to text | no properties |
| unique_key | text | none |
| flag, sys_flag | integer | 0 |
| born_timestamp | integer, or timestamp: ms | the time of the put |

A null counts as a missing column.

`normalized` returns plain columns: texts without a dictionary, keys as one text with spaces between them, properties as
one text of encoded properties (name 0x01 value 0x02, repeated), numbers of one width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from reput.formats.log import properties as props
from reput.formats.log.property_names import CRC32, DELAY, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, INNER_NUM
from reput.formats.log.record import FLAG_INNER_BATCH, FLAGS_V6, TRANSACTION_MASK
from reput.log.encode.message import illegal

_KNOWN = (
    "topic", "body", "queue_id", "tags", "keys", "properties", "unique_key", "flag", "sys_flag", "born_timestamp",
)  # fmt: skip
# By number: asking pyarrow for each kind in turn took a tenth of a batch.
_BAD_IN_TEXTS = props.NAME_END + props.PROPERTY_END
_BAD_IN_KEYS = _BAD_IN_TEXTS + props.KEY_SEPARATOR
_TEXTS = (pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING)
_BINARIES = (pa.lib.Type_BINARY, pa.lib.Type_LARGE_BINARY)


def as_table(columns: Any) -> pa.RecordBatch | None:
    """Return the columns in one piece, None for a table of several pieces or none.

    Raises:
        MessageRefusedError: The argument is neither a Table nor a RecordBatch.
    """
    if isinstance(columns, pa.RecordBatch):
        return columns
    if not isinstance(columns, pa.Table):
        raise illegal(f"{type(columns).__name__}: give a pyarrow Table or RecordBatch")
    parts = columns.to_batches()
    return parts[0] if len(parts) == 1 else None


def normalized(
    table: pa.Table | pa.RecordBatch, host_bits: int, *, enable_lmq: bool = False
) -> tuple[pa.RecordBatch, bool]:
    """Return the same messages as plain columns, and True if a text of keys may hold several keys.

    `host_bits` go into each sysFlag. `enable_lmq`: no message may go to light queues, too: its numbers are not known.

    Raises:
        MessageRefusedError: A message cannot be in a batch (the reason says which), or a column is not listed above.
    """
    columns = _arrays(table)
    plain: dict[str, Any] = {"body": _texts(columns["body"], "body", binary=True)}
    plain |= {name: _texts(columns[name], name) for name in ("topic", "tags", "unique_key") if name in columns}
    keys = columns.get("keys")
    are_lists = keys is not None and _is_list(keys.type)
    if keys is not None:
        plain["keys"] = _joined_keys(keys) if are_lists else _texts(keys, "keys")
    if "properties" in columns:
        plain["properties"] = _encoded_properties(columns["properties"], columns, enable_lmq)
    for name, target in (("queue_id", pa.int64()), ("flag", pa.int32())):
        if name in columns:
            plain[name] = _without_nulls(_integers(columns[name], name, target))
    if "sys_flag" in columns:
        plain["sys_flag"] = _sys_flags(columns["sys_flag"], host_bits)
    if "born_timestamp" in columns:
        plain["born_timestamp"] = _integers(columns["born_timestamp"], "born_timestamp", pa.int64())
    return pa.record_batch(plain), are_lists


def _arrays(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    """Return the columns by name, each in one piece, without columns that hold only nulls."""
    unknown = [name for name in table.column_names if name not in _KNOWN]
    if unknown or len(set(table.column_names)) < len(table.column_names):
        raise illegal(f"columns {table.column_names}: give each of these at most once: {', '.join(_KNOWN)}")
    columns = {}
    for name in table.column_names:
        array = _whole(name, table.column(name))
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


def _whole(name: str, column: Any) -> Any:
    """Return a column in one piece."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    # Columns that Arrow itself reads are checked to the last offset. The kernels check the columns that they read.
    is_full = len(chunks) > 1 or pa.types.is_dictionary(column.type)
    try:
        for chunk in chunks:
            chunk.validate(full=is_full)
    except pa.ArrowInvalid as error:
        raise illegal(f"column {name}: {error}") from error
    if len(chunks) == 1:
        return chunks[0]
    # A table without rows has no chunk.
    return pa.concat_arrays(chunks or [pa.array([], type=column.type)])


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _texts(array: Any, name: str, binary: bool = False) -> Any:
    """Return a column of texts without a dictionary."""
    if array.type.id == pa.lib.Type_DICTIONARY:
        array = array.dictionary_decode()
    kind = array.type.id
    if kind not in _TEXTS and not (binary and kind in _BINARIES):
        raise illegal(f"column {name} is of {array.type}: give {'binary or text' if binary else 'texts'}")
    return array


def _integers(array: Any, name: str, target: pa.DataType) -> Any:
    """Return a column as integers of this type; its nulls stay."""
    try:
        if pa.types.is_timestamp(array.type):
            return array.cast(pa.timestamp("ms", array.type.tz), safe=False).cast(target)
        if not pa.types.is_integer(array.type):
            raise illegal(f"column {name} is of {array.type}: give integers")
        return array if array.type == target else array.cast(target)
    except pa.ArrowInvalid as error:
        raise illegal(f"column {name}: {error}") from error


def _without_nulls(array: Any) -> Any:
    return array.fill_null(0) if array.null_count else array


def _sys_flags(array: Any, host_bits: int) -> Any:
    """Return the sysFlags of messages that may be in a batch, with the hosts' bits."""
    sys_flag = np.asarray(_without_nulls(_integers(array, "sys_flag", pa.int32())))
    refused = np.flatnonzero(sys_flag & (TRANSACTION_MASK | FLAG_INNER_BATCH))
    if len(refused):
        raise illegal(
            f"message {refused[0]} of the batch: sysFlag {int(sys_flag[refused[0]]):#x}; transactions, and batches "
            "in one record, are put one by one"
        )
    return pa.array(sys_flag & ~FLAGS_V6 | host_bits, pa.int32())


def _offsets(array: Any) -> NDArray[np.int64]:
    """Return the offsets between which each of an array's large texts lies."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(array.buffers()[1], dtype=np.int64, count=len(array) + 1, offset=8 * array.offset)


def _large_texts(array: Any, name: str, first: int, last: int) -> Any:
    """Return the values [first, last) of a column of lists or maps, as texts with checked offsets."""
    texts = _texts(array, name).slice(first, last - first).cast(pa.large_string())
    data = texts.buffers()[2]
    _check_offsets(name, _offsets(texts), data.size if data is not None else 0)
    return texts


def _check_offsets(name: str, offsets: NDArray[np.int64], size: int) -> None:
    if offsets[0] < 0 or offsets[-1] > size or (offsets[1:] < offsets[:-1]).any():
        raise illegal(f"column {name}: its offsets point outside their data")


def _are_bad(texts: Any, separators: bytes) -> NDArray[np.bool_]:
    """Return the large texts that are empty, null, or hold one of the separators (a mask)."""
    offsets = _offsets(texts)
    bad: NDArray[np.bool_] = offsets[1:] == offsets[:-1]
    if texts.null_count:
        bad = bad | np.asarray(texts.is_null())
    if offsets[0] < offsets[-1]:
        data = np.frombuffer(texts.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
        # For nearly all columns the least byte answers at once.
        for separator in separators if data.min() <= max(separators) else b"":
            bad = bad | np.asarray(pc.match_substring(texts, chr(separator)).fill_null(True))
    return bad


def _joined_keys(array: Any) -> Any:
    """Return each message's keys as one text, with spaces between them."""
    is_valid, offsets = _rows_of(array, "keys", array.values)
    keys = _large_texts(array.values, "keys", offsets[0], offsets[-1])
    rows = _rows_with(_are_bad(keys, _BAD_IN_KEYS), offsets, is_valid)
    if len(rows):
        raise illegal(
            f"message {rows[0]} of the batch: one of its keys is empty or holds a space, 0x01 or 0x02 (several keys: a "
            "list)"
        )
    lists = pa.LargeListArray.from_arrays(pa.array(offsets - offsets[0]), keys)
    joined = pc.binary_join(lists, pa.scalar(" ", pa.large_string()))
    return pc.if_else(pa.array(is_valid), joined, None) if array.null_count else joined


def _encoded_properties(array: Any, columns: Mapping[str, Any], enable_lmq: bool) -> Any:
    """Return each message's properties as one text, as a record holds them."""
    if not pa.types.is_map(array.type):
        raise illegal(f"column properties is {array.type}: give a map of text to text")
    is_valid, offsets = _rows_of(array, "properties", array.keys)
    names, values = (_large_texts(part, "properties", offsets[0], offsets[-1]) for part in (array.keys, array.items))
    own = (("tags", props.TAGS), ("keys", props.KEYS), ("unique_key", props.UNIQUE_KEY))
    barred = [INNER_NUM, INNER_MULTI_QUEUE_OFFSET, DELAY, CRC32, *([INNER_MULTI_DISPATCH] if enable_lmq else [])]
    barred += [name.decode() for column, name in own if column in columns]
    _refuse_names(names, offsets, is_valid, barred)
    rows = _rows_with(_are_bad(names, _BAD_IN_TEXTS) | _are_bad(values, _BAD_IN_TEXTS), offsets, is_valid)
    if len(rows):
        raise illegal(
            f"message {rows[0]} of the batch: a property's name or value is empty or holds the characters 0x01 or 0x02"
        )
    if not len(names):
        return pa.nulls(len(array), pa.large_binary())
    nothing, separator = pa.scalar("", pa.large_string()), pa.scalar(props.NAME_END.decode(), pa.large_string())
    pairs = pc.binary_join_element_wise(names, values, nothing, separator, null_handling="replace")
    ends, data = _offsets(pairs), pairs.buffers()[2]
    # In place: Arrow has just made these buffers for us, and a second join takes as long as the first.
    np.frombuffer(data, dtype=np.uint8)[ends[1:] - 1] = props.PROPERTY_SEPARATOR
    valid = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if array.null_count else None
    return pa.Array.from_buffers(pa.large_binary(), len(array), [valid, pa.py_buffer(ends[offsets - offsets[0]]), data])


def _rows_of(array: Any, name: str, values: Any) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return for a column of lists or maps: the rows that are not null, and the values between which each row lies."""
    is_valid = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), dtype=np.bool_)
    offsets = np.asarray(array.offsets).astype(np.int64)
    _check_offsets(name, offsets, len(values))
    return is_valid, offsets


def _rows_with(
    found: NDArray[np.bool_], offsets: NDArray[np.int64], is_valid: NDArray[np.bool_]
) -> NDArray[np.integer[Any]]:
    """Return the rows whose values are among those found. A value under a null belongs to no row and is not checked."""
    rows = np.searchsorted(offsets - offsets[0], np.flatnonzero(found), side="right") - 1
    return rows[is_valid[rows]]


def _refuse_names(names: Any, offsets: NDArray[np.int64], is_valid: NDArray[np.bool_], barred: list[str]) -> None:
    """Refuse property names that have columns of their own, or cannot be in a batch."""
    found = np.asarray(pc.is_in(names, value_set=pa.array(barred, type=names.type)))
    rows = _rows_with(found, offsets, is_valid)
    if len(rows):
        raise illegal(
            f"message {rows[0]} of the batch: none of {', '.join(barred)} may be among its properties: it has a "
            "column of its own, or cannot be in a batch"
        )
