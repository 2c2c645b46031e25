"""ConsumeQueueExt units and addresses: bytes to values and back, and what is no unit."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue.consume_queue_ext import (
    MAX_ADDRESS,
    MAX_BITMAP_SIZE,
    MAX_OFFSET,
    Unit,
    address_of,
    decode_unit,
    is_address,
    offset_of,
)
from support.encoders import encode_ext_unit

LONG = st.integers(-(1 << 63), (1 << 63) - 1)


@given(LONG, LONG, st.binary(max_size=300), st.binary(max_size=50))
def test_round_trip(tags_code: int, time: int, bitmap: bytes, around: bytes) -> None:
    """A unit is read back from anywhere in a file, and takes the bytes that its size says."""
    unit = Unit(tags_code, time, bitmap)
    data = encode_ext_unit(unit)
    assert len(data) == unit.size == 20 + len(bitmap)
    assert decode_unit(around + data + around, len(around)) == unit


def test_known_bytes() -> None:
    """The bytes are RocketMQ's: size, tags code, store time, bitmap size, bitmap."""
    data = struct.pack(">hqqh", 22, -5, 1_700_000_000_000, 2) + b"\x01\x80"
    assert encode_ext_unit(Unit(-5, 1_700_000_000_000, b"\x01\x80")) == data


HEADS = ((25, 4), (24, 4), (19, -1))
"""Sizes of a unit and of its bitmap that contradict one another, or the bytes that there are."""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(20),
        b"\xff\xff" + bytes(30),
        *(struct.pack(">hqqh", size, 0, 0, bitmap) + bytes(3) for size, bitmap in HEADS),
    ],
)
def test_no_unit(data: bytes) -> None:
    """Zeros, a file's end, sizes that contradict one another and a unit that is cut are no units."""
    assert decode_unit(data) is None
    assert decode_unit(data, -1) is None
    assert decode_unit(data, len(data)) is None


@given(st.integers(0, MAX_OFFSET))
def test_addresses(offset: int) -> None:
    """Offsets and addresses convert both ways, and no 32-bit hash is an address."""
    address = address_of(offset)
    assert address <= MAX_ADDRESS < -(1 << 31)
    assert is_address(address)
    assert offset_of(address) == offset


def test_what_is_no_address() -> None:
    """Hashes, delivery times and 0 are no addresses; offsets past the last have none; a bitmap can be too long."""
    assert not any(map(is_address, (0, 1, -1, -(1 << 31), (1 << 31) - 1, 1_700_000_000_000)))
    with pytest.raises(ValueError, match="no address"):
        offset_of(-(1 << 31))
    with pytest.raises(ValueError, match="lies between"):
        address_of(MAX_OFFSET + 1)
    with pytest.raises(ValueError, match="at most"):
        encode_ext_unit(Unit(0, 0, bytes(MAX_BITMAP_SIZE + 1)))
