"""The field kernels: what they find in records, and that no byte outside the buffer is touched."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log.properties import decode_properties
from reput.formats.log.record import CHECK_BODY, decode_record
from reput.kernels import field_kernels
from reput.kernels.layouts.fields import (
    COUNT_PAIRS,
    FIND_PROPERTIES,
    FieldRow,
    Gathered,
    GatheredPairs,
    Stretches,
    field_table,
)
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from support import golden
from support.records import LogBuilder, logs
from support.twins import TWINS, Call, as_buffer, decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

WANTS = FIND_PROPERTIES | COUNT_PAIRS
pytestmark = pytest.mark.parametrize("twin", TWINS)


def read(
    twin: str, data: bytes, position: NDArray[np.int64], size: NDArray[np.int32], base: int = 0
) -> tuple[int, NDArray[np.int64]]:
    """Read the fields of these records; what was not filled is -77."""
    table = field_table(len(position))
    table[:] = -77
    log, wanted = LogBytes.whole(as_buffer(data), base), RecordPlaces(position, size)
    done = field_kernels(twin).read_fields(log, wanted, CHECK_BODY, WANTS, table)
    return done, table


def places(data: bytes, base: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the places of the records of a log, and their sizes."""
    values = decode("reference", data, Call(base=base)).values
    return np.array(values["position"], dtype=np.int64), np.array(values["size"], dtype=np.int32)


def pairs_of(twin: str, data: bytes, table: NDArray[np.int64]) -> list[dict[bytes, bytes]]:
    """Each record's properties, as the kernel lays them out for Arrow."""
    count, records = int(table[FieldRow.PAIRS].sum()), table.shape[1]
    starts, name_at, value_at = (np.zeros(length + 1, dtype=np.int32) for length in (records, count, count))
    names, values = (
        np.zeros(int(table[row].sum()), dtype=np.uint8) for row in (FieldRow.NAMES_SIZE, FieldRow.VALUES_SIZE)
    )
    out = GatheredPairs(starts, Gathered(names, name_at), Gathered(values, value_at))
    found = field_kernels(twin).gather_pairs(Stretches.of(as_buffer(data), table, FieldRow.PROPERTIES_AT), out)
    assert found == starts[-1]
    return [
        {
            names[name_at[n] : name_at[n + 1]].tobytes(): values[value_at[n] : value_at[n + 1]].tobytes()
            for n in range(starts[record], starts[record + 1])
        }
        for record in range(records)
    ]


@given(log=logs(min_records=1))
@settings(max_examples=60, deadline=None)
def test_fields_are_what_decoding_says(twin: str, log: LogBuilder) -> None:
    """Every field of every record of a log equals what `decode_record` gives, and so do the gathered bytes."""
    data = bytes(log)
    position, size = places(data, log.start)
    done, table = read(twin, data, position, size, log.start)
    assert done == len(position)
    records = [decode_record(data, at - log.start) for at in position.tolist()]
    assert table[FieldRow.FLAG].tolist() == [record.flag for record in records]
    assert table[FieldRow.RECONSUME_TIMES].tolist() == [record.reconsume_times for record in records]
    assert table[FieldRow.PREPARED_OFFSET].tolist() == [record.prepared_transaction_offset for record in records]
    assert table[FieldRow.BORN_TIMESTAMP].tolist() == [record.born_timestamp for record in records]
    assert table[FieldRow.STORE_TIMESTAMP].tolist() == [record.store_timestamp for record in records]
    assert pairs_of(twin, data, table) == [decode_properties(record.properties) for record in records]
    for row, part in ((FieldRow.BODY_AT, "body"), (FieldRow.TOPIC_AT, "topic")):
        stretches = Stretches.of(as_buffer(data), table, row)
        out, offsets = np.zeros(int(stretches.size.sum()), dtype=np.uint8), np.zeros(len(position) + 1, dtype=np.int32)
        total = field_kernels(twin).gather_bytes(stretches, Gathered(out, offsets))
        assert total == len(out)
        pieces = [out[begin:end].tobytes() for begin, end in pairwise(offsets.tolist())]
        assert pieces == [getattr(record, part) for record in records]


@pytest.mark.golden
def test_twins_agree_on_stores_of_rocketmq(twin: str) -> None:
    """Both twins fill the same table from a log that RocketMQ wrote."""
    for base, data in golden.log_files(golden.shared("basic")):
        position, size = places(data, base)
        (done, expected), (same, found) = (read(kind, data, position, size, base) for kind in ("reference", twin))
        assert done == same == len(position)
        assert np.array_equal(expected, found)


@given(
    data=st.binary(max_size=200),
    place=st.lists(st.tuples(st.integers(-50, 300), st.integers(-2, 300)), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_hostile_places_are_refused(twin: str, data: bytes, place: list[tuple[int, int]]) -> None:
    """Places and sizes from a damaged index read no byte that is not there."""
    at = np.array([begin for begin, _ in place], dtype=np.int64)
    size = np.array([length for _, length in place], dtype=np.int64)
    out, offsets = np.zeros(int(np.maximum(size, 0).sum()), dtype=np.uint8), np.zeros(len(at) + 1, dtype=np.int32)
    total = field_kernels(twin).gather_bytes(Stretches(as_buffer(data), at, size), Gathered(out, offsets))
    inside = all(length <= 0 or (begin >= 0 and begin + length <= len(data)) for begin, length in place)
    assert (total >= 0) == inside
    done, _ = read(twin, data, at, size.astype(np.int32))
    assert done == 0


def test_later_values_win(twin: str) -> None:
    """Of a repeated name the last value counts; names and values of no length do not."""
    log = LogBuilder()
    placed = log.message("orders", properties=b"a\x01one\x02b\x01\x02\x01x\x02ab\x01two\x02a\x01three\x02a\x01\x02")
    data = bytes(log)
    done, table = read(twin, data, np.array([placed.offset]), np.array([len(data)], dtype=np.int32))
    assert done == 1
    assert pairs_of(twin, data, table) == [{b"ab": b"two", b"a": b"three"}]


def test_properties_that_are_not_wanted_are_not_looked_for(twin: str) -> None:
    """Without a wish for them the places of keys, tags and unique key stay as they were."""
    log = LogBuilder()
    log.message("orders", keys="k", tags="t", unique_key="u")
    position, size = places(bytes(log), 0)
    table = field_table(1)
    table[:] = -77
    wanted = RecordPlaces(position, size)
    assert field_kernels(twin).read_fields(LogBytes.whole(as_buffer(bytes(log)), 0), wanted, CHECK_BODY, 0, table) == 1
    rows = (FieldRow.KEYS_AT, FieldRow.TAGS_AT, FieldRow.UNIQUE_KEY_AT, FieldRow.PAIRS)
    assert [int(table[row, 0]) for row in rows] == [-77] * 4
    assert table[FieldRow.TOPIC_SIZE, 0] == len("orders")


@pytest.mark.parametrize(
    ("at", "names", "values", "pairs"), [(-1, 9, 9, 9), (3, 9, 9, 9), (0, 1, 9, 9), (0, 9, 1, 9), (0, 9, 9, 1)]
)
def test_pairs_without_room_are_refused(at: int, names: int, values: int, pairs: int, twin: str) -> None:
    """Properties that do not lie in the buffer, or have no space in an output, are refused as a whole."""
    data = b"a\x01x\x02b\x01y\x02"
    stretches = Stretches(as_buffer(data), np.array([at], dtype=np.int64), np.array([len(data)], dtype=np.int64))

    def texts(size: int) -> Gathered:
        return Gathered(np.zeros(size, dtype=np.uint8), np.zeros(pairs + 1, dtype=np.int32))

    out = GatheredPairs(np.zeros(2, dtype=np.int32), texts(names), texts(values))
    assert field_kernels(twin).gather_pairs(stretches, out) == -1
    whole = GatheredPairs(
        np.zeros(2, dtype=np.int32), *(Gathered(np.zeros(2, np.uint8), np.zeros(3, np.int32)) for _ in "ab")
    )
    assert field_kernels(twin).gather_pairs(stretches._replace(at=np.zeros(1, dtype=np.int64)), whole) == 2


@given(
    data=st.binary(max_size=200),
    place=st.lists(st.tuples(st.integers(-2, 210), st.integers(-1, 24)), max_size=5),
    offset=st.integers(0, (1 << 63) - 1),
)
@settings(deadline=None)
def test_message_ids_are_hosts_and_offsets_in_hex(
    twin: str, data: bytes, place: list[tuple[int, int]], offset: int
) -> None:
    """Each id is its host and its log offset; a host that does not lie in the buffer, or no room, is refused."""
    at, size = (np.array([one[part] for one in place], dtype=np.int64) for part in (0, 1))
    places = np.arange(len(place), dtype=np.int64) ^ offset
    inside = all(begin >= 0 and length >= 0 and begin + length <= len(data) for begin, length in place)
    room = sum(2 * (max(0, length) + 8) for _, length in place)
    spell, offsets = field_kernels(twin).spell_ids, np.zeros(len(place) + 1, dtype=np.int32)
    out = np.zeros(room, dtype=np.uint8)
    hosts = Stretches(as_buffer(data), at, size)
    assert spell(hosts, places, Gathered(out, offsets)) == (room if inside else -1)
    if inside:
        wanted = [
            data[begin : begin + length].hex().upper() + f"{number:016X}"
            for (begin, length), number in zip(place, places.tolist(), strict=True)
        ]
        assert [out[begin:end].tobytes().decode() for begin, end in pairwise(offsets.tolist())] == wanted
    if place:
        assert spell(hosts, places, Gathered(out[:-1].copy(), offsets)) == -1


@given(
    data=st.binary(max_size=60),
    place=st.lists(st.tuples(st.integers(-2, 64), st.integers(-1, 3)), max_size=4),
)
@settings(deadline=None)
def test_equal_stretches_are_told_from_others(twin: str, data: bytes, place: list[tuple[int, int]]) -> None:
    """Stretches are equal when their bytes are; one that does not lie in the buffer equals nothing."""
    at, size = (np.array([one[part] for one in place], dtype=np.int64) for part in (0, 1))
    inside = all(begin >= 0 and length >= 0 and begin + length <= len(data) for begin, length in place)
    same = len({data[begin : begin + length] for begin, length in place}) <= 1
    assert field_kernels(twin).are_equal(Stretches(as_buffer(data), at, size)) == (inside and same)
