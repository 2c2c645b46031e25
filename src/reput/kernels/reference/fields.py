"""The field kernels in plain Python: the specification of `reput.kernels.compiled.fields`.

They turn records into Arrow columns: `read_fields` finds the fields of records, `gather_bytes` and `gather_pairs` copy
them into buffers as Arrow lays them out. No kernel reads outside its data, whatever its arguments are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.log import properties
from reput.formats.log.record import (
    PROPERTIES_LENGTH,
    Verdict,
    before_body,
    decode_record,
    encode_message_id,
    examine,
    topic_length_of,
)
from reput.kernels.layouts.fields import (
    COUNT_PAIRS,
    FIND_PROPERTIES,
    SIZE_BELOW,
    FieldRow,
    Gathered,
    GatheredPairs,
    Stretches,
)
from reput.kernels.layouts.log import LogBytes, RecordPlaces

Int64s = NDArray[np.int64]


def read_fields(log: LogBytes, places: RecordPlaces, crc_check: int, wants: int, table: Int64s) -> int:
    """Enter the fields of the records at some places into `table`, record n into column n.

    Stops at the first place without a record of that size, and returns the number of records entered. `wants`:
    FIND_PROPERTIES, COUNT_PAIRS; rows for fields that are not wanted stay as they are.
    """
    data, base, limit = log.data.data, log.base, log.limit
    position, size = places
    for n, (offset, length) in enumerate(zip(position.tolist(), size.tolist(), strict=True)):
        at = offset - base
        if at < 0 or at >= limit:
            return n
        verdict, found = examine(data, at, limit, offset, crc_check)
        # The topic's spelling was checked when the record was found.
        if verdict not in (Verdict.GOOD, Verdict.BAD_TOPIC) or found != length:
            return n
        _enter(data, at, wants, table[:, n])
    return len(position)


def _enter(data: memoryview, at: int, wants: int, row: Int64s) -> None:
    record = decode_record(data, at)
    fixed = before_body(record.sys_flag)
    body_at = at + fixed.size
    topic_at = body_at + len(record.body) + topic_length_of(record.magic).size
    properties_at = topic_at + len(record.topic) + PROPERTIES_LENGTH.size
    values = {
        FieldRow.QUEUE_ID: record.queue_id,
        FieldRow.FLAG: record.flag,
        FieldRow.QUEUE_OFFSET: record.queue_offset,
        FieldRow.SYS_FLAG: record.sys_flag,
        FieldRow.BORN_TIMESTAMP: record.born_timestamp,
        FieldRow.STORE_TIMESTAMP: record.store_timestamp,
        FieldRow.BODY_CRC: record.body_crc,
        FieldRow.RECONSUME_TIMES: record.reconsume_times,
        FieldRow.PREPARED_OFFSET: record.prepared_transaction_offset,
        FieldRow.BODY_AT: body_at,
        FieldRow.BODY_SIZE: len(record.body),
        FieldRow.TOPIC_AT: topic_at,
        FieldRow.TOPIC_SIZE: len(record.topic),
        FieldRow.PROPERTIES_AT: properties_at,
        FieldRow.PROPERTIES_SIZE: len(record.properties),
        FieldRow.BORN_HOST_AT: at + fixed.offsets["born_host"],
        FieldRow.BORN_HOST_SIZE: fixed.sizes["born_host"],
        FieldRow.STORE_HOST_AT: at + fixed.offsets["store_host"],
        FieldRow.STORE_HOST_SIZE: fixed.sizes["store_host"],
    }
    pieces = _pieces(record.properties)
    if wants & FIND_PROPERTIES:
        for name, field in (
            (properties.KEYS, FieldRow.KEYS_AT),
            (properties.TAGS, FieldRow.TAGS_AT),
            (properties.UNIQUE_KEY, FieldRow.UNIQUE_KEY_AT),
        ):
            found = [place for key, value, place in pieces if key == name]
            values[field] = properties_at + found[-1][0] if found else 0
            row[field + SIZE_BELOW] = found[-1][1] if found else -1
    if wants & COUNT_PAIRS:
        values[FieldRow.PAIRS] = len(pieces)
        values[FieldRow.NAMES_SIZE] = sum(len(name) for name, _, _ in pieces)
        values[FieldRow.VALUES_SIZE] = sum(len(value) for _, value, _ in pieces)
    for field, value in values.items():
        row[field] = value


def _pieces(data: bytes) -> list[tuple[bytes, bytes, tuple[int, int]]]:
    """Name, value, and the value's place and size, of each property."""
    found, at = [], 0
    for piece in data.split(properties.PROPERTY_END):
        name, separator, value = piece.partition(properties.NAME_END)
        if separator and name and value:
            found.append((name, value, (at + len(name) + 1, len(value))))
        at += len(piece) + 1
    return found


def gather_bytes(stretches: Stretches, gathered: Gathered) -> int:
    """Copy stretches, one after the other; return the bytes written.

    A size below 0 counts as 0. Returns -1 if a stretch does not lie in its data, or if there is no space left.
    """
    (buffer, at, size), (out, offsets) = stretches, gathered
    written = 0
    offsets[0] = 0
    for n, (begin, length) in enumerate(zip(at.tolist(), size.tolist(), strict=True)):
        if length > 0:
            if begin < 0 or begin + length > len(buffer) or written + length > len(out):
                return -1
            out[written : written + length] = buffer[begin : begin + length]
            written += length
        offsets[n + 1] = written
    return written


def gather_pairs(stretches: Stretches, gathered: GatheredPairs) -> int:
    """Copy the properties of records into the buffers of an Arrow map; return their number.

    A stretch is a record's property bytes. Of a repeated name the last value counts, in its place. Returns -1 if a
    stretch does not lie in its data, or if there is no space left.
    """
    buffer, at, size = stretches
    pair_offsets, (names, name_offsets), (values, value_offsets) = gathered
    pairs = names_used = values_used = 0
    pair_offsets[0] = name_offsets[0] = value_offsets[0] = 0
    for n, (begin, length) in enumerate(zip(at.tolist(), size.tolist(), strict=True)):
        if begin < 0 or length < 0 or begin + length > len(buffer):
            return -1
        pieces = _pieces(buffer[begin : begin + length].tobytes())
        last = {name: number for number, (name, _, _) in enumerate(pieces)}
        for number, (name, value, _) in enumerate(pieces):
            if last[name] != number:
                continue
            full = names_used + len(name) > len(names) or values_used + len(value) > len(values)
            if full or pairs + 1 >= len(name_offsets):
                return -1
            names[names_used : names_used + len(name)] = np.frombuffer(name, dtype=np.uint8)
            values[values_used : values_used + len(value)] = np.frombuffer(value, dtype=np.uint8)
            names_used += len(name)
            values_used += len(value)
            pairs += 1
            name_offsets[pairs], value_offsets[pairs] = names_used, values_used
        pair_offsets[n + 1] = pairs
    return pairs


def are_equal(stretches: Stretches) -> bool:
    """Return True if the stretches hold the same bytes; False if one does not lie in its data."""
    buffer, at, size = stretches
    found = set()
    for begin, length in zip(at.tolist(), size.tolist(), strict=True):
        if begin < 0 or length < 0 or begin + length > len(buffer):
            return False
        found.add(buffer[begin : begin + length].tobytes())
    return len(found) <= 1


def spell_ids(hosts: Stretches, places: Int64s, gathered: Gathered) -> int:
    """Write message ids, one after the other: each host and log offset in upper-case hex; return the bytes written.

    Returns -1 if a host does not lie in its data, or if there is no space left.
    """
    (buffer, at, size), (out, offsets) = hosts, gathered
    written = 0
    offsets[0] = 0
    for n, (begin, length, place) in enumerate(zip(at.tolist(), size.tolist(), places.tolist(), strict=True)):
        if begin < 0 or length < 0 or begin + length > len(buffer) or written + 2 * (length + 8) > len(out):
            return -1
        text = encode_message_id(buffer[begin : begin + length].tobytes(), place).encode()
        out[written : written + len(text)] = np.frombuffer(text, dtype=np.uint8)
        written += len(text)
        offsets[n + 1] = written
    return written
