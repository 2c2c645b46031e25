"""Columns that can be written, and their conversion to the columns of a put (`reput.log.encode.columns`).

| column | type | becomes |
|---|---|---|
| body or value | binary or string | the body; must be there, and never null |
| topic | string | the topic, if the option topic does not give one for all |
| queueId or partition | int | the queue, 0 without it |
| tags | string | TAGS |
| keys or key | string or binary with spaces between keys, or array of strings | KEYS |
| uniqKey | string | UNIQ_KEY |
| properties | map of strings | properties; columns of their own win over TAGS, KEYS and UNIQ_KEY here |
| headers | array of struct of key and value | properties |
| flag | int | the flag |
| sysFlag | int | its flags for compression |
| bornTimestamp | timestamp | the born time |

Columns of a frame that was read, and that the store assigns, are left out (`ASSIGNED`). Any other column is refused,
and so are delayed messages: nothing would deliver them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from reput.errors import ConfigError
from reput.formats.log import properties as props
from reput.formats.log.property_names import DELAY
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED
from reput.log.encode.message import NOBODY_DELIVERS

_TEXT, _BYTES = "string", ("binary", "string")
_KEYS = (*_BYTES, "array<string>")
_HEADERS = ("array<struct<key:string,value:binary>>", "array<struct<key:string,value:string>>")
_WHOLE = ("int", "smallint", "tinyint", "bigint")
TYPES: Mapping[str, tuple[str, ...]] = {
    "body": _BYTES,
    "value": _BYTES,
    "topic": (_TEXT,),
    "queueid": _WHOLE,
    "partition": _WHOLE,
    "tags": (_TEXT,),
    "keys": _KEYS,
    "key": _KEYS,
    "uniqkey": (_TEXT,),
    "properties": ("map<string,string>",),
    "headers": _HEADERS,
    "flag": _WHOLE,
    "sysflag": _WHOLE,
    "borntimestamp": ("timestamp",),
}
ASSIGNED = frozenset({
    "brokername", "queueoffset", "offset", "storetimestamp", "timestamp", "timestamptype", "offsetmsgid",
    "physicaloffset", "storesize", "bodycrc", "reconsumetimes", "bornhost", "storehost", "preparedtransactionoffset",
    "litetopic", "bodyerror",
})  # fmt: skip
_TWINS = (("body", "value"), ("queueid", "partition"), ("keys", "key"), ("properties", "headers"))
_DELAYED = ("delay", "delaylevel", "delaytimelevel")
_NEVER = (props.CRC32, props.INNER_NUM, props.INNER_BASE)


def check_schema(types: Mapping[str, str], topic: str | None) -> None:
    """Compare a frame's columns and their Spark types with those that can be written.

    Raises:
        ConfigError: one is missing, unknown, or of another type.
    """
    given = _by_lower_name(types)
    for key, (name, kind) in given.items():
        if key in ASSIGNED:
            continue
        if key in _DELAYED:
            raise ConfigError(f"column {name}: {NOBODY_DELIVERS}")
        if key not in TYPES:
            known = "body, topic, queueId, tags, keys, uniqKey, properties, flag, bornTimestamp"
            raise ConfigError(f"column {name}: not a column of a message; there are {known}. Drop it or rename it")
        if kind not in TYPES[key]:
            raise ConfigError(f"column {name} is {kind}: give {' or '.join(TYPES[key])}")
    for one, other in _TWINS:
        if one in given and other in given:
            raise ConfigError(f"columns {given[one][0]} and {given[other][0]} mean the same: give one of them")
    if "body" not in given and "value" not in given:
        raise ConfigError(f"columns {', '.join(types) or 'none'}: there must be a column body (or value)")
    if topic is None and "topic" not in given:
        raise ConfigError("no column topic: add one, or give all messages a topic with .option('topic', name)")
    if topic is not None and "topic" in given:
        raise ConfigError(f"option topic={topic} and a column topic: give one of them")


def _why_null(given: Mapping[str, Any]) -> str:
    """Return the reason why a body is null: a read may have left its error."""
    errors = given["bodyerror"].drop_null().to_pylist() if "bodyerror" in given else []
    if errors:
        return f"a body that could not be decoded cannot be written: {errors[0]}. Read with body=raw"
    return "column body holds nulls: a message has a body, if an empty one"


def _by_lower_name(types: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return types by lower-case name, each with the name as given.

    Raises:
        ConfigError: two names differ in case only.
    """
    given: dict[str, tuple[str, str]] = {}
    for name, kind in types.items():
        if name.lower() in given:
            raise ConfigError(f"columns {given[name.lower()][0]} and {name} mean the same: give one of them")
        given[name.lower()] = name, kind
    return given


def message_columns(batch: pa.RecordBatch, topic: str | None, born_ms: int) -> pa.Table:
    """Return the columns of a put; messages without a born time get `born_ms`.

    Raises:
        ConfigError: a value that must not be null is null, or bytes that must be text are not.
    """
    given = {name.lower(): batch.column(number) for number, name in enumerate(batch.schema.names)}
    rows = batch.num_rows
    for name in given.keys() - {"body", "value"}:
        _refuse_no_text(given[name], name)
    body = _first(given, "body", "value")
    if body.null_count:
        raise ConfigError(_why_null(given))
    columns: dict[str, Any] = {"body": body}
    columns["topic"] = given["topic"] if topic is None else pa.repeat(pa.scalar(topic, pa.string()), rows)
    queue_id, keys = _first(given, "queueid", "partition"), _first(given, "keys", "key")
    if queue_id is not None:
        columns["queue_id"] = queue_id
    if keys is not None:
        columns["keys"] = _keys(keys)
    for name, target in (("tags", "tags"), ("uniqkey", "unique_key"), ("flag", "flag")):
        if name in given:
            columns[target] = given[name]
    if "sysflag" in given:
        flags = pc.fill_null(given["sysflag"].cast(pa.int64()), 0)
        columns["sys_flag"] = pc.bit_wise_and(flags, FLAG_COMPRESSED | COMPRESSION_MASK).cast(pa.int32())
    properties = _properties(given)
    if properties is not None:
        _refuse_delayed(properties)
        columns["properties"] = _without(properties, _own_names(columns))
    columns["born_timestamp"] = pc.fill_null(_born(given, rows), born_ms)
    return pa.table(columns)


def _refuse_delayed(properties: Any) -> None:
    """Refuse messages with a delay, which only a broker can deliver.

    Raises:
        ConfigError: a message has one.
    """
    begin, end = (int(np.asarray(properties.offsets)[at]) for at in (0, -1))
    if pc.any(pc.equal(properties.keys.slice(begin, end - begin), DELAY)).as_py():
        raise ConfigError(NOBODY_DELIVERS)


def _first(given: Mapping[str, Any], one: str, other: str) -> Any:
    return given.get(one, given.get(other))


def _born(given: Mapping[str, Any], rows: int) -> Any:
    if "borntimestamp" not in given:
        return pa.nulls(rows, pa.int64())
    return given["borntimestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())


def _keys(array: Any) -> Any:
    """Return keys as lists of texts; null for a message without keys."""
    if pa.types.is_list(array.type):
        return array
    trimmed = pc.utf8_trim_whitespace(_texts(array, "keys (or key)"))
    none = pc.equal(trimmed, "")
    return pc.utf8_split_whitespace(pc.if_else(none, pa.scalar(None, pa.string()), trimmed))


def _texts(array: Any, column: str) -> Any:
    """Return binary values as texts: the log's properties are texts.

    Raises:
        ConfigError: a value is no UTF-8.
    """
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ConfigError(f"column {column}: a value is not UTF-8, and a message's properties are texts") from error


def _refuse_no_text(array: Any, column: str) -> None:
    """Refuse strings that are no UTF-8, which Spark makes by a cast from binary; only a body may be one.

    Raises:
        ConfigError: a value is no UTF-8.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"column {column}: {error}") from error


def _own_names(columns: Mapping[str, Any]) -> list[bytes]:
    own = (("tags", props.TAGS), ("keys", props.KEYS), ("unique_key", props.UNIQUE_KEY))
    return [*_NEVER, *(name for column, name in own if column in columns)]


def _properties(given: Mapping[str, Any]) -> Any:
    if "properties" in given:
        return given["properties"]
    if "headers" not in given:
        return None
    headers = given["headers"]
    names, values = headers.flatten().flatten()
    if names.null_count:
        raise ConfigError("column headers: a key is null: each property has a name")
    ends = np.cumsum(np.asarray(pc.fill_null(headers.value_lengths(), 0)), dtype=np.int32)
    return pa.MapArray.from_arrays(np.concatenate([np.zeros(1, np.int32), ends]), names, _texts(values, "headers"))


def _without(array: Any, names: list[bytes]) -> Any:
    """Return a map without the entries of these names, and without those that have no value."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    keys, items = array.keys, array.items
    barred = pc.is_in(keys, value_set=pa.array([name.decode() for name in names], pa.string()))
    kept = np.asarray(pc.and_(pc.invert(barred), items.is_valid()).to_numpy(zero_copy_only=False), dtype=np.bool_)
    inside = np.zeros(len(kept), dtype=np.bool_)
    inside[offsets[0] : offsets[-1]] = True
    if array.null_count:
        for row in np.flatnonzero(np.asarray(array.is_null())).tolist():
            inside[offsets[row] : offsets[row + 1]] = False
    kept &= inside
    before = np.concatenate([[0], np.cumsum(kept)])
    chosen = pa.array(np.flatnonzero(kept))
    return pa.MapArray.from_arrays(pa.array(before[offsets].astype(np.int32)), keys.take(chosen), items.take(chosen))
