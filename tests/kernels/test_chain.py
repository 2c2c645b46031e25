"""chain_items: index items, numbered and linked from slot to newest to older."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.index import index_file as fmt
from reput.kernels import kernels
from reput.kernels.layouts.columns import ItemRange, ItemSources
from support import golden
from support.twins import GOLDEN_DELAYS_MS, TWINS, Call, decode

pytestmark = pytest.mark.parametrize("twin", TWINS)


class Item(NamedTuple):
    """An index item before it is chained: its hash, and its record's place and time."""

    key_hash: int
    position: int
    store_timestamp: int


class Chained(NamedTuple):
    """A part of an IndexFile: slots, items' bytes, how many slots were empty, the begin time from then on."""

    slots: list[int]
    items: bytes
    fresh: int
    begin: int


def columns_of(records: list[tuple[int, int, list[int]]]) -> ItemSources:
    """ItemSources of records, each (position, store time, hashes of its items)."""
    counts = [len(hashes) for _, _, hashes in records]
    return ItemSources(
        np.cumsum([0, *counts], dtype=np.int32),
        np.array([position for position, _, _ in records], dtype=np.int64),
        np.array([time for _, time, _ in records], dtype=np.int64),
        np.array([key for _, _, hashes in records for key in hashes], dtype=np.int32),
    )


def chain(
    twin: str,
    columns: ItemSources,
    begin_end: tuple[int, int],
    slots: np.ndarray,
    number: int = 1,
    begin: int = 0,
) -> Chained:
    """Chain items [begin, end); `out` gets not one byte more than it needs."""
    item, end = begin_end
    record = int(np.searchsorted(columns.first_item, item, side="right")) - 1
    out = np.full((end - item) * fmt.ITEM_SIZE, 0xEE, dtype=np.uint8)
    fresh, begin = kernels(twin).chain_items(columns, ItemRange(record, item, end, number, begin), slots, out)
    return Chained(slots.tolist(), out.tobytes(), int(fresh), int(begin))


def naive(items: list[Item], slot_count: int, begin: int = 0) -> Chained:
    """One file from its first item on, item by item as `IndexFile.putKey` does it."""
    slots, out, fresh = [0] * slot_count, b"", 0
    for number, item in enumerate(items, start=1):
        slot = item.key_hash % slot_count
        seconds = (item.store_timestamp - begin) // 1000 if begin > 0 else 0
        seconds = min(max(seconds, 0), (1 << 31) - 1)
        out += fmt.ITEM.struct.pack(item.key_hash, item.position, seconds, slots[slot])
        fresh += slots[slot] == 0
        slots[slot] = number
        if number == 1:
            begin = item.store_timestamp
    return Chained(slots, out, fresh, begin)


def new_slots(count: int) -> np.ndarray:
    """Empty slots."""
    return np.zeros(count, dtype=np.int32)


def test_chains_lead_from_newest_to_oldest(twin: str) -> None:
    """A slot holds the newest item's number, each item the number of the one before it in its slot."""
    columns = columns_of([(0, 5000, [3, 13]), (100, 5000, []), (200, 7999, [23, 4]), (300, 4000, [3])])
    chained = chain(twin, columns, (0, 5), new_slots(10))
    items = [fmt.ITEM.struct.unpack_from(chained.items, at) for at in range(0, 100, 20)]

    assert items == [(3, 0, 0, 0), (13, 0, 0, 1), (23, 200, 2, 2), (4, 200, 2, 0), (3, 300, 0, 3)]
    assert chained.slots == [0, 0, 0, 5, 4, 0, 0, 0, 0, 0]
    assert (chained.fresh, chained.begin) == (2, 5000)


def test_the_first_item_s_time_counts_from_the_file_before(twin: str) -> None:
    """Item 1 is measured against the previous file's end, the others against item 1."""
    columns = columns_of([(0, 9000, [1]), (100, 9000, [2]), (200, 12_999, [3])])
    chained = chain(twin, columns, (0, 3), new_slots(10), begin=4000)
    seconds = [fmt.ITEM.struct.unpack_from(chained.items, at)[2] for at in (0, 20, 40)]

    assert seconds == [5, 0, 3]
    assert chained.begin == 9000


@pytest.mark.parametrize(
    ("begin", "time", "seconds"),
    [
        (0, 5000, 0),
        (-1, 5000, 0),
        (6000, 5000, 0),
        (1, 1000, 0),
        (1, 1001, 1),
        (1, (1 << 63) - 1, (1 << 31) - 1),
        (1000, 1000 + ((1 << 31) - 1) * 1000 + 999, (1 << 31) - 1),
        (1000, 1000 + (1 << 31) * 1000, (1 << 31) - 1),
        ((1 << 63) - 1, -(1 << 63), 0),
        (5, -(1 << 63), 0),
    ],
)
def test_time_differences_are_whole_seconds_within_an_int(twin: str, begin: int, time: int, seconds: int) -> None:
    """A difference is cut to whole seconds, never negative and never above 2^31 - 1."""
    chained = chain(twin, columns_of([(0, time, [1])]), (0, 1), new_slots(3), number=7, begin=begin)

    assert fmt.ITEM.struct.unpack(chained.items)[2] == seconds
    assert chained.begin == begin


hashes = st.integers(0, 30) | st.integers(0, (1 << 31) - 1)
times = st.integers(0, 20_000) | st.integers(-(1 << 63), (1 << 63) - 1)
some_records = st.lists(
    st.tuples(st.integers(0, (1 << 63) - 1), times, st.lists(hashes, max_size=5)), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None)
@given(some_records, st.integers(1, 12), st.integers(-1, 20_000), st.data())
def test_equals_the_naive_model_however_it_is_cut(
    twin: str, records: list[tuple[int, int, list[int]]], slot_count: int, begin: int, data: st.DataObject
) -> None:
    """Any items give what putting them one by one gives, in one call or in several."""
    columns = columns_of(records)
    count = len(columns.item_hash)
    items = [Item(key, position, time) for position, time, keys in records for key in keys]
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=3)))
    slots, out, fresh, now = new_slots(slot_count), b"", 0, begin
    for item, end in zip([0, *cuts], [*cuts, count], strict=True):
        part = chain(twin, columns, (item, end), slots, number=1 + item, begin=now)
        out, fresh, now = out + part.items, fresh + part.fresh, part.begin

    assert Chained(slots.tolist(), out, fresh, now) == naive(items, slot_count, begin)


def test_no_items(twin: str) -> None:
    """A range without items changes nothing."""
    columns = columns_of([(0, 5000, [])])

    assert chain(twin, columns, (0, 0), new_slots(2), number=4, begin=9) == Chained([0, 0], b"", 0, 9)


@pytest.mark.golden
@pytest.mark.parametrize("store", golden.STORES)
def test_golden_index_files(twin: str, store: str) -> None:
    """Chained from its log, a golden store's IndexFiles have the slots and items that RocketMQ wrote."""
    records: list[tuple[int, int, list[int]]] = []
    for start, data in golden.log_files(golden.shared(store)):
        values = decode(twin, data, Call(start, delays_ms=GOLDEN_DELAYS_MS)).values
        for n, (position, time) in enumerate(zip(values["position"], values["store_timestamp"], strict=True)):
            first, end = values["first_item"][n : n + 2]
            records.append((position, time, values["item_hash"][first:end]))
    columns, item, begin = columns_of(records), 0, 0
    for _, data in golden.index_files(golden.shared(store)):
        header = fmt.decode_header(data)
        end = min(item + fmt.capacity(golden.INDEX_ITEMS), len(columns.item_hash))
        chained = chain(twin, columns, (item, end), new_slots(golden.INDEX_SLOTS), begin=begin)
        items_at = fmt.file_size(golden.INDEX_SLOTS, 1)
        assert header.index_count == end - item + 1
        assert np.array(chained.slots, dtype=">i4").tobytes() == data[fmt.HEADER_SIZE : items_at - fmt.ITEM_SIZE]
        assert chained.items == data[items_at : items_at + len(chained.items)]
        assert (header.hash_slot_count, header.begin_timestamp) == (chained.fresh, chained.begin)
        item, begin = end, header.end_timestamp

    assert item == len(columns.item_hash)
