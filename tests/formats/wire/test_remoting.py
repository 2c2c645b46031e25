"""Frames of the remoting protocol: bytes and values, and bytes that are no frame."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.layout import INT32_MAX
from reput.formats.wire.remoting import (
    BINARY_HEADER,
    JSON_HEADER,
    LANGUAGES,
    MAX_FRAME_SIZE,
    VERSION,
    FrameError,
    FrameReader,
    RemotingFrame,
    encode,
    next_opaque,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INT16, INT32 = st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
FRAMES = st.builds(
    RemotingFrame,
    INT16,
    INT32,
    INT32,
    st.none() | TEXT.filter(bool),
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=100),
    st.integers(0, len(LANGUAGES) - 1),
    INT16,
    st.sampled_from([JSON_HEADER, BINARY_HEADER]),
)

FROM_JAVA = (
    b'{"code":105,"extFields":{"topic":"orders","acceptStandardJsonOnly":"true"},"flag":0,"language":"JAVA",'
    b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":513}'
)


def frame_of(header: bytes, body: bytes = b"", kind: int = JSON_HEADER) -> bytes:
    """The bytes of a frame with any header."""
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


@given(st.lists(FRAMES, max_size=5), st.data())
def test_frames_come_back_however_they_are_cut(sent: list[RemotingFrame], data: st.DataObject) -> None:
    """Frames that are encoded and cut anywhere come back as they were, in order, and nothing is left."""
    whole = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    reader, got = FrameReader(), []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += reader.feed(whole[begin:end])
    assert got == sent
    assert len(reader._rest) == 0


@pytest.mark.parametrize(
    "text", [",".join(["7F0000010000271A"] * 99), '"' * 300, "\\\n\x00" * 99, "é" * 300, "\x7f" * 300]
)
def test_a_long_field_is_json(text: str) -> None:
    """Ids of a batch, and texts with characters to escape, come back from any reader of JSON."""
    header = encode(RemotingFrame(0, fields={"msgId": text, "short": "x"}))[8:]
    assert json.loads(header)["extFields"] == {"msgId": text, "short": "x"}


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_waits(data: bytes) -> None:
    """Any bytes are frames, the begin of one, or a FrameError; no other error comes."""
    reader = FrameReader()
    try:
        reader.feed(data)
    except FrameError:
        return
    assert len(reader._rest) <= len(data)


@given(st.binary(max_size=120), st.sampled_from([JSON_HEADER, BINARY_HEADER]))
def test_garbage_in_a_header_is_an_error(header: bytes, kind: int) -> None:
    """A whole frame with any header is a frame or a FrameError."""
    try:
        (frame,) = FrameReader().feed(frame_of(header, b"body", kind))
    except FrameError:
        return
    assert frame.body == b"body"


@given(FRAMES, st.data())
def test_a_changed_byte_is_no_other_error(frame: RemotingFrame, data: st.DataObject) -> None:
    """A frame in which one byte differs is a frame, waits for more, or is a FrameError."""
    whole = bytearray(encode(frame))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    reader = FrameReader()
    try:
        found = reader.feed(bytes(whole))
    except FrameError:
        return
    assert len(found) + bool(reader._rest) >= 1


def test_a_frame_of_the_java_client() -> None:
    """A header as Java writes it."""
    (frame,) = FrameReader().feed(frame_of(FROM_JAVA))
    fields = {"topic": "orders", "acceptStandardJsonOnly": "true"}
    assert frame == RemotingFrame(105, 7, 0, None, fields, b"", LANGUAGES.index("JAVA"), VERSION, JSON_HEADER)


def test_a_binary_header_has_rocketmqs_layout() -> None:
    """The binary header, byte by byte (`RocketMQSerializable.rocketMQProtocolEncode`)."""
    frame = RemotingFrame(11, 5, 2, "no", {"k": "value"}, b"!", LANGUAGES.index("GO"), 317, BINARY_HEADER)
    header = b"\0\x0b\x09\x01\x3d\0\0\0\x05\0\0\0\x02\0\0\0\x02no\0\0\0\x0c\0\x01k\0\0\0\x05value"
    assert encode(frame) == frame_of(header, b"!", BINARY_HEADER)


def test_numbers_and_nulls_in_fields_are_tolerated() -> None:
    """Fields that are numbers become texts, those that are null are left out, an unknown language is OTHER."""
    header = b'{"code":1,"language":"KLINGON","extFields":{"a":5,"b":null,"c":true},"remark":null}'
    (frame,) = FrameReader().feed(frame_of(header))
    assert (frame.fields, LANGUAGES[frame.language]) == ({"a": "5", "c": "true"}, "OTHER")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">iI", MAX_FRAME_SIZE - 3, 0), "a frame of"),
        (struct.pack(">iI", 3, 0), "a frame of 3 bytes"),
        (struct.pack(">iI", -1, 0), "a frame of -1 bytes"),
        (struct.pack(">iI", 10, 7), "a header of 7 bytes in a frame of 10"),
        (struct.pack(">iI", 10, 2 << 24), "header type 2"),
        (b"PRI * HTTP/2.0\r\n\r\n", "gRPC"),
        (b"PING\r\n", "b'PING.*' would begin a frame of 1346981447 bytes: one has 4 to 16777216"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (frame_of(b"[]"), "not a JSON object"),
        (frame_of(b"{"), "not JSON"),
        (frame_of(b'{"code":"1"}'), "whole numbers"),
        (frame_of(b'{"code":1,"opaque":99999999999}'), "whole numbers"),
        (frame_of(b'{"code":1,"extFields":[]}'), "wrong type"),
        (frame_of(b"\0" * 10, kind=BINARY_HEADER), "ends too early"),
        (frame_of(b"\0" * 20 + b"\x09", kind=BINARY_HEADER), "fields of 9 bytes"),
    ],
)
def test_bytes_that_are_no_frame_are_named(data: bytes, words: str) -> None:
    """The error says what is wrong, before a byte of the frame's body is waited for."""
    with pytest.raises(FrameError, match=words):
        FrameReader().feed(data)


@pytest.mark.parametrize("first", [1, 3, 4])
def test_a_wrong_length_waited_for_a_header(first: int) -> None:
    """A length that no frame has is refused when its four bytes are there: redis' PING has six."""
    reader = FrameReader()
    with pytest.raises(FrameError, match="would begin a frame"):
        assert reader.feed(b"PING"[:first]) == reader.feed(b"PING"[first:]) == []


def test_the_largest_frame_is_read() -> None:
    """A frame of just the limit is read, and one byte more is refused by the writer."""
    frame = RemotingFrame(1)
    room = MAX_FRAME_SIZE - len(encode(frame))
    frame.body = bytes(room)
    assert FrameReader().feed(encode(frame)) == [frame]
    frame.body += b"!"
    with pytest.raises(FrameError):
        encode(frame)


def test_a_code_too_large_for_a_binary_header_is_refused() -> None:
    """The binary header has 16 bits for a code, and POP's codes need more."""
    with pytest.raises(FrameError, match="JSON header"):
        encode(RemotingFrame(200050, header_type=BINARY_HEADER))


def test_the_numbers_of_requests_stay_in_32_bits() -> None:
    """A sender counts its requests from 1 on; after the largest number comes 0, never a negative one."""
    assert [next_opaque(one) for one in (0, 1, INT32_MAX - 1, INT32_MAX)] == [1, 2, INT32_MAX, 0]
