"""Message properties: name 0x01 value 0x02, repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.log.properties import (
    decode_properties,
    encode_properties,
    properties_text,
    text_properties,
    with_further,
)
from support.records import property_bytes

parts = st.binary(min_size=1, max_size=20).filter(lambda part: b"\x01" not in part and b"\x02" not in part)


@given(st.dictionaries(parts, parts))
def test_round_trip(properties: dict[bytes, bytes]) -> None:
    """Encoded properties decode to the same properties in the same order."""
    data = encode_properties(properties)

    assert list(decode_properties(data).items()) == list(properties.items())
    assert decode_properties(data.removesuffix(b"\x02")) == properties


@given(st.dictionaries(parts.map(lambda part: part.decode("latin-1")), parts.map(lambda part: part.decode("latin-1"))))
def test_text_has_the_same_bytes(properties: dict[str, str]) -> None:
    """The text of properties is what a record holds, as text."""
    encoded = encode_properties({name.encode(): value.encode() for name, value in properties.items()})
    assert properties_text(properties).encode() == encoded


@given(st.dictionaries(parts, parts), parts)
def test_further_properties_come_after_all_others(properties: dict[bytes, bytes], name: bytes) -> None:
    """The text of properties takes further ones, whether its last property has an end or none."""
    given_text, further = encode_properties(properties).decode("latin-1"), f"{name.decode('latin-1')}\1xyz"
    for text in (given_text, given_text.removesuffix("\2")):
        both = decode_properties(with_further(text, further).encode("latin-1"))
        assert both == {**properties, name: b"xyz"}


@pytest.mark.behaviour("MessageDecoderTest.testString2messageProperties")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"\x02\x02", {}),
        (b"KEYS\x01a", {b"KEYS": b"a"}),
        (b"KEYS\x01a\x02", {b"KEYS": b"a"}),
        (b"KEYS\x01a\x02KEYS\x01b\x02", {b"KEYS": b"b"}),
        (b"KEYS\x01a\x02KEYS\x01\x02", {b"KEYS": b"a"}),
        (b"\x01a\x02b\x01c\x02", {b"b": b"c"}),
        (b"nothing\x02b\x01c", {b"b": b"c"}),
        (b"a\x01b\x01c\x02", {b"a": b"b\x01c"}),
        (b"a\x01\x01\x02", {b"a": b"\x01"}),
        (b"\x01\x01a\x02", {}),
    ],
)
def test_reading_follows_the_peer(data: bytes, expected: dict[bytes, bytes]) -> None:
    """Pieces without name or value are skipped, the first 0x01 separates, the later of two values wins."""
    assert decode_properties(data) == expected


@pytest.mark.parametrize("properties", [{b"": b"a"}, {b"a": b""}, {b"a\x01": b"b"}, {b"a": b"b\x02"}])
def test_what_no_reader_gives_back_is_refused(properties: dict[bytes, bytes]) -> None:
    """An empty part, or one with a separator in it, is not encoded."""
    with pytest.raises(ValueError, match="non-empty and free of"):
        encode_properties(properties)


@given(st.binary() | property_bytes())
def test_any_bytes_decode(data: bytes) -> None:
    """Any bytes decode, to parts that are not empty, and to text."""
    properties = decode_properties(data)

    assert all(name and value and b"\x02" not in name + value for name, value in properties.items())
    assert all(b"\x01" not in name for name in properties)
    assert len(text_properties(data)) <= len(properties)


@given(st.binary() | property_bytes())
def test_text_is_that_of_the_raw_parts(data: bytes) -> None:
    """Text has the names and values of the raw properties, in their order, with undecodable bytes replaced."""
    raw = decode_properties(data)
    text = [(name.decode("utf-8", "replace"), value.decode("utf-8", "replace")) for name, value in raw.items()]

    assert list(text_properties(data).items()) == list(dict(text).items())
