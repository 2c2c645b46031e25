"""Blocks, index, properties and footer of RocksDB's tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reput.formats.database import rocksdb_table as fmt
from reput.formats.database.rocksdb_table import Handle, TableCounts
from support import tables

keys = st.lists(st.binary(min_size=1, max_size=40), unique=True).map(sorted)


@given(st.integers(0, (1 << 64) - 1))
def test_varint_round_trip(value: int) -> None:
    """A varint reads back, and takes a byte for each seven bits."""
    encoded = fmt.varint(value)

    assert tables.varint(encoded, 0) == (value, len(encoded))
    assert len(encoded) == max(1, -(-value.bit_length() // 7))


@given(keys, st.integers(1, 20))
def test_block_round_trip(given_keys: list[bytes], interval: int) -> None:
    """Keys and values come back from a block, in order."""
    entries = [(key, key[::-1]) for key in given_keys]

    assert list(tables.block_entries(fmt.encode_block(entries, interval))) == entries


@given(keys, st.integers(0, 1 << 40))
def test_index_round_trip(given_keys: list[bytes], offset: int) -> None:
    """Keys and handles come back from an index block."""
    blocks = [(key, Handle(offset + number, len(key))) for number, key in enumerate(given_keys)]

    assert not blocks or list(tables.index_entries(fmt.encode_index(blocks))) == blocks


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=2, max_size=2, unique=True).map(sorted))
def test_separator(pair: list[bytes]) -> None:
    """A separator is not below the last key, below the next one, and no longer than the last."""
    last, following = pair
    between = fmt.separator(last, following)

    assert last <= between < following
    assert len(between) <= len(last)


def test_separator_as_rocksdb_has_it() -> None:
    """The first byte that differs is raised; if that gives the next key, the byte after it is raised."""
    assert fmt.separator(b"abcd", b"abzz") == b"abd"
    assert fmt.separator(b"ab1", b"ab2") == b"ab1"
    assert fmt.separator(b"ab1\xff\x05z", b"ab2") == b"ab1\xff\x06"
    assert fmt.separator(b"ab", b"abc") == b"ab"


def test_properties_are_those_of_the_table() -> None:
    """Each property of the documented list is written, in the order of names."""
    block = fmt.encode_properties(TableCounts(1, 2, 3, 4, 5, 6), fmt.LZ4, "0" * 20)

    assert [name.decode() for name, _ in tables.block_entries(block)] == [name for name, _, _ in fmt.PROPERTIES]


def test_footer() -> None:
    """The footer has 53 bytes and ends with version and magic."""
    footer = fmt.encode_footer(Handle(300, 2), Handle(4, 5))

    assert len(footer) == fmt.FOOTER_SIZE
    assert footer[:6] == bytes([fmt.CHECKSUM_XXHASH64, 0xAC, 0x02, 2, 4, 5])
    assert footer[-12:] == bytes.fromhex("05000000 f7cff485b741e288")
