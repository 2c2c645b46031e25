"""Java's String.hashCode over stored UTF-8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java.hashing import (
    index_key_hash,
    java_string_hash,
    java_string_hash_utf8,
    java_text,
    to_int32,
    utf16_units,
)

# Values that Java prints for "...".hashCode().
KNOWN = {
    "": 0,
    "a": 97,
    "hello": 99162322,
    "TagA": 2598919,
    "polygenelubricants": -(1 << 31),
    "订单": 1129459,
    "\N{GRINNING FACE}": 1772899,
}

# Malformed UTF-8 and the UTF-16 units that Java's decoder makes of it: one U+FFFD for each sequence that is
# cut short, one for a whole encoded surrogate, one for each byte that begins nothing.
MALFORMED = {
    b"\x80": [0xFFFD],
    b"\xc0\x80": [0xFFFD, 0xFFFD],
    b"\xc1a": [0xFFFD, 0x61],
    b"\xc3(": [0xFFFD, 0x28],
    b"\xe0\x80\x80": [0xFFFD] * 3,
    b"\xe4\xb8": [0xFFFD],
    b"\xe4\xb8a": [0xFFFD, 0x61],
    b"\xe4(": [0xFFFD, 0x28],
    b"\xed\xa0\x80": [0xFFFD],
    b"\xed\xa0": [0xFFFD],
    b"\xf0\x80\x80\x80": [0xFFFD] * 4,
    b"\xf0\x9f\x98": [0xFFFD],
    b"\xf0\x9f": [0xFFFD],
    b"\xf0": [0xFFFD],
    b"\xf0\x9f\x98a": [0xFFFD, 0x61],
    b"\xf4\x90\x80\x80": [0xFFFD] * 4,
    b"\xf5\x80": [0xFFFD, 0xFFFD],
    b"\xff\xfe": [0xFFFD, 0xFFFD],
}


@pytest.mark.parametrize(("text", "expected"), KNOWN.items())
def test_known_hashes(text: str, expected: int) -> None:
    """Strings hash to what Java prints for them."""
    assert java_string_hash(text) == expected
    assert java_string_hash_utf8(text.encode()) == expected


@pytest.mark.parametrize(("data", "units"), MALFORMED.items())
def test_malformed_bytes_become_java_s_replacements(data: bytes, units: list[int]) -> None:
    """Malformed bytes are replaced as often as Java replaces them."""
    assert list(utf16_units(data)) == units


@given(st.text())
def test_units_of_valid_text_are_utf_16(text: str) -> None:
    """The units of well-formed UTF-8 are those of UTF-16."""
    encoded = text.encode("utf-16-be")
    expected = [int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2)]
    assert list(utf16_units(text.encode())) == expected


@given(st.binary())
def test_any_bytes_hash_to_an_int(data: bytes) -> None:
    """Any bytes have a hash of 32 bits, made from units of 16 bits."""
    assert all(0 <= unit <= 0xFFFF for unit in utf16_units(data))
    assert -(1 << 31) <= java_string_hash_utf8(data) < 1 << 31


@given(st.integers())
def test_wrapping_keeps_the_low_32_bits(value: int) -> None:
    """Wrapping to 32 bits keeps the value modulo 2^32 and its range."""
    assert -(1 << 31) <= to_int32(value) < 1 << 31
    assert (to_int32(value) - value) % (1 << 32) == 0


def test_index_hash_is_absolute() -> None:
    """An IndexFile keeps the absolute value, and 0 where Java's abs has no positive answer."""
    assert index_key_hash(b"polygenelubricants") == 0
    negative = next(text for text in (f"orders#k{n}" for n in range(100)) if java_string_hash(text) < 0)
    assert index_key_hash(negative.encode()) == -java_string_hash(negative)


@given(st.binary(max_size=40))
def test_text_that_java_writes_again(data: bytes) -> None:
    """Bytes that Java writes again are valid UTF-8 of the same units, and well-formed text stays as it is."""
    written = java_text(data)
    assert list(utf16_units(written)) == list(utf16_units(data))
    assert java_text(written) == written == written.decode().encode()
