"""IndexFile: header, slots and items."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.index import index_file as fmt
from reput.formats.index.index_file import Header, decode_header, encode_header
from support import golden

STORES = (*golden.STORES, "expired-rebuilt")

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
headers = st.builds(Header, int64s, int64s, int64s, int64s, int32s, int32s)


def test_layout() -> None:
    """Header, slot and item have RocketMQ's sizes and offsets."""
    assert fmt.HEADER.offsets == {
        "begin_timestamp": 0,
        "end_timestamp": 8,
        "begin_physical_offset": 16,
        "end_physical_offset": 24,
        "hash_slot_count": 32,
        "index_count": 36,
    }
    assert fmt.ITEM.offsets == {"key_hash": 0, "physical_offset": 4, "time_diff_s": 12, "previous_item": 16}
    assert (fmt.HEADER_SIZE, fmt.SLOT_SIZE, fmt.ITEM_SIZE) == (40, 4, 20)
    assert fmt.file_size(5_000_000, 20_000_000) == 420_000_040


@given(headers)
def test_header_round_trip(header: Header) -> None:
    """A header decodes to what was encoded."""
    assert decode_header(encode_header(header)) == header


def test_a_short_header_is_an_error() -> None:
    """Fewer than 40 bytes raise struct.error."""
    with pytest.raises(struct.error):
        decode_header(bytes(39))


def test_item_0_is_never_used() -> None:
    """A file holds one item less than its size says."""
    assert fmt.capacity(golden.INDEX_ITEMS) == golden.INDEX_ITEMS - 1


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("20261121023731573", True),
        ("2026112102373157", False),
        ("202611210237315733", False),
        ("2026112102373157x", False),
        ("20261121023731573.tmp", False),
        ("\u0662" * 17, False),
        ("", False),
    ],
)
def test_names(name: str, accepted: bool) -> None:
    """An IndexFile is named by 17 digits; other files are not taken for one."""
    assert fmt.is_index_name(name) is accepted


@pytest.mark.golden
@pytest.mark.parametrize("store", STORES)
def test_golden_files_encode_to_the_same_bytes(store: str) -> None:
    """Header, slots and items of every IndexFile that RocketMQ wrote decode and encode to the same bytes."""
    files = list(golden.index_files(golden.shared(store)))
    assert files
    for name, data in files:
        assert fmt.is_index_name(name)
        assert len(data) == fmt.file_size(golden.INDEX_SLOTS, golden.INDEX_ITEMS)
        header = decode_header(data)
        slots_end = fmt.HEADER_SIZE + fmt.SLOT_SIZE * golden.INDEX_SLOTS
        slots = list(fmt.SLOT.struct.iter_unpack(data[fmt.HEADER_SIZE : slots_end]))
        items = list(fmt.ITEM.struct.iter_unpack(data[slots_end:]))
        again = encode_header(header)
        again += b"".join(fmt.SLOT.struct.pack(*slot) for slot in slots)
        again += b"".join(fmt.ITEM.struct.pack(*item) for item in items)
        assert again == data
        assert 1 < header.index_count <= golden.INDEX_ITEMS
        assert header.hash_slot_count == sum(slot > 0 for (slot,) in slots)
        assert not any(items[0])
        assert not any(map(any, items[header.index_count :]))
        assert all(0 <= previous < n for n, (_, _, _, previous) in enumerate(items) if previous)
