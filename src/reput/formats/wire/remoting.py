"""Frames of RocketMQ's remoting protocol, as bytes and as values. Numbers are big-endian.

A frame is the prefix, a header and a body. The header is JSON, or binary: the head, the remark, and the fields.

Source: `RemotingCommand`, `RocketMQSerializable`, `NettyDecoder`, `LanguageCode`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from reput.formats.java.fastjson import write_fastjson
from reput.formats.layout import INT32_MAX, Field, Layout

MAX_FRAME_SIZE: Final = 16 << 20
"""The largest frame, its length included (`com.rocketmq.remoting.frameMaxLength`)."""
READ_SIZE: Final = 256 << 10
"""The most bytes that are read from a socket at once. A buffer for them is kept, where asyncio makes one for each
read: that costs 25 us in a server that only echoes, and no difference was measured in the broker."""
JSON_HEADER: Final = 0
BINARY_HEADER: Final = 1
IS_ANSWER: Final = 1
IS_ONE_WAY: Final = 2
PYTHON: Final = 3
VERSION: Final = 513
"""V5_5_0. Clients refuse SQL92 and other requests to a broker of an old version."""
LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""The languages by number. Another name counts as OTHER."""

PREFIX = Layout(
    "Prefix of a frame",
    "RemotingCommand.markProtocolType",
    [
        Field("length", "i", "bytes that follow this field"),
        Field("header", "I", "the highest byte: 0 for a JSON header, 1 for a binary one; the others: its bytes"),
    ],
)
HEAD = Layout(
    "Head of a binary header",
    "RocketMQSerializable.rocketMQProtocolEncode",
    [
        Field("code", "h", "request or response code; larger codes need a JSON header"),
        Field("language", "B", "language of the sender"),
        Field("version", "h", "version of the sender"),
        Field("opaque", "i", "the sender's number of the request; its answer has the same"),
        Field("flag", "i", "bit 0: answer; bit 1: one-way, so nobody answers"),
        Field("remark_length", "i", "bytes of the remark, a text for people, which follows"),
    ],
)
FIELDS = Layout(
    "Start of the fields of a binary header", HEAD.source, [Field("length", "i", "bytes of all fields, which follow")]
)
NAME = Layout("Start of a field's name", HEAD.source, [Field("length", "h", "bytes of its name, which follows")])
VALUE = Layout("Start of a field's value", HEAD.source, [Field("length", "i", "bytes of the value, which follows")])
LAYOUTS: Final = (PREFIX, HEAD, FIELDS, NAME, VALUE)
assert [layout.size for layout in LAYOUTS] == [8, 17, 4, 2, 4]
# Frames are small and many: a packer's attribute is looked up once here, not for each frame.
_PREFIX, _HEAD, _FIELDS, _NAME, _VALUE = (layout.struct for layout in LAYOUTS)
_LENGTH_SIZE = PREFIX.offsets["header"]
_OTHER = LANGUAGES.index("OTHER")
_HEADER_MASK = 0xFFFFFF
_LANGUAGE_NUMBERS = {name: number for number, name in enumerate(LANGUAGES)}
_INT32_MIN = -INT32_MAX - 1
_TLS_HANDSHAKE = b"\x16"
_quoted = json.encoder.encode_basestring
_LONG, _PLAIN = 256, bytes(sorted({*range(0x20, 0x7F)} - {*b'"\\'}))
"""The length of a long text, and the characters that JSON has as they are."""
# V4_0_0; each release has a snapshot before it, and ten follow one another until the next minor version.
_FIRST_VERSION, _LAST_VERSION = 213, 611


def _json_reader() -> Callable[[bytes], Any]:
    """Return orjson's reader where it is installed, which takes a third of the time of json's."""
    if find_spec("orjson") is None:
        return _plain_json
    loads: Callable[[bytes], Any] = import_module("orjson").loads
    return loads


_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


def _plain_json(data: bytes) -> Any:
    """Return the value of a JSON text; `json.loads` takes two thirds more time for one in UTF-8 without blanks."""
    try:
        value, end = _scan(data.decode(), 0)
    except (StopIteration, UnicodeDecodeError):
        return json.loads(data)
    return value if end == len(data) else json.loads(data)


read_json = _json_reader()


def version_name(version: int) -> str:
    """Return the name of a version by its number in frames (`MQVersion.getVersionDesc`).

    All versions before 4.0 are V3: their numbers have gaps.
    """
    if version > _LAST_VERSION:
        return "HIGHER_VERSION"
    releases, snapshot = divmod(version - _FIRST_VERSION + 1, 2)
    if releases < 0:
        return "V3"
    name = f"V{4 + releases // 100}_{releases // 10 % 10}_{releases % 10}"
    return name if snapshot else f"{name}_SNAPSHOT"


class FrameError(ValueError):
    """Bytes that are no frame. The connection cannot go on: nobody knows where the next frame begins."""


@dataclass(slots=True)
class RemotingFrame:
    """A request or an answer.

    Attributes:
        code: The request code, or the response code of an answer.
        opaque: The sender's number of the request.
        flag: IS_ANSWER and IS_ONE_WAY.
        remark: Text for people.
        fields: The header's own fields (extFields).
        body: The body.
        language: The sender's language, an index of LANGUAGES.
        version: The sender's version, an ordinal of RocketMQ's versions.
        header_type: JSON_HEADER or BINARY_HEADER.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    language: int = PYTHON
    version: int = VERSION
    header_type: int = JSON_HEADER

    @property
    def is_answer(self) -> bool:
        """True for the answer to a request."""
        return bool(self.flag & IS_ANSWER)

    @property
    def is_one_way(self) -> bool:
        """True for a request that nobody answers."""
        return bool(self.flag & IS_ONE_WAY)


def encode(frame: RemotingFrame) -> bytes:
    """Return the bytes of a frame.

    Raises:
        FrameError: a number is too large for its field, or the frame for the protocol.
    """
    return encode_head(frame, len(frame.body)) + frame.body


def encode_head(frame: RemotingFrame, body_size: int) -> bytes:
    """Return the bytes of a frame before its body, which has `body_size` bytes.

    Raises:
        FrameError: a number is too large for its field, or the frame for the protocol.
    """
    header = _json_header(frame) if frame.header_type == JSON_HEADER else _binary_header(frame)
    length = _LENGTH_SIZE + len(header) + body_size
    if length + _LENGTH_SIZE > MAX_FRAME_SIZE or len(header) > _HEADER_MASK:
        raise FrameError(f"a frame of {length + _LENGTH_SIZE} bytes: the most is {MAX_FRAME_SIZE}")
    return _PREFIX.pack(length, frame.header_type << 24 | len(header)) + header


def _json_header(frame: RemotingFrame) -> bytes:
    # As `write_fastjson` writes it. From its parts it takes a third of the time.
    text = (
        f'{{"code":{frame.code:d},"flag":{frame.flag},"language":"{LANGUAGES[frame.language]}","opaque":{frame.opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":{frame.version}'
    )
    if frame.remark is not None:
        text += f',"remark":{_quoted(frame.remark)}'
    if frame.fields:
        fields = [
            f"{_quoted(name)}:{_quoted(value) if len(value) < _LONG else _quoted_long(value)}"
            for name, value in frame.fields.items()
        ]
        text += f',"extFields":{{{",".join(fields)}}}'
    return (text + "}").encode("utf-8", "surrogatepass")


def _quoted_long(text: str) -> str:
    """Return a text as JSON has it. The ids of a batch, which have nothing to escape, take a fifth of the time."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return f'"{text}"'
    return _quoted(text)


def _binary_header(frame: RemotingFrame) -> bytes:
    remark = (frame.remark or "").encode("utf-8", "surrogatepass")
    pieces = []
    try:
        for name, value in frame.fields.items():
            name_bytes, value_bytes = name.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")
            pieces += [_NAME.pack(len(name_bytes)), name_bytes]
            pieces += [_VALUE.pack(len(value_bytes)), value_bytes]
        fields = b"".join(pieces)
        head = _HEAD.pack(frame.code, frame.language, frame.version, frame.opaque, frame.flag, len(remark))
    except struct.error as error:
        raise FrameError(f"code {frame.code} in a binary header: {error}; use a JSON header") from error
    return head + remark + _FIELDS.pack(len(fields)) + fields


class FrameReader:
    """Cuts what a connection receives into frames. It keeps at most one unfinished frame.

    Args:
        max_header: the longest header that is taken (bytes).
    """

    def __init__(self, max_header: int = MAX_FRAME_SIZE) -> None:
        self._rest = bytearray()
        self._max_header = max_header

    def feed(self, data: bytes | memoryview) -> list[RemotingFrame]:
        """Return the frames that are complete with these bytes; nothing of `data` itself is kept.

        Raises:
            FrameError: the bytes are no frame. The frames before are lost too; the connection is to be closed.
        """
        if self._rest:
            self._rest += data
            data = bytes(self._rest) if self._is_complete() else b""
            if not data:
                return []
            self._rest.clear()
        frames, at = [], 0
        while len(data) - at >= _PREFIX.size:
            end = self._end_of(data, at)
            if end > len(data):
                break
            frames.append(decode(data, at, end))
            at = end
        if at < len(data):
            self._rest += data[at:]
            _check_length(self._rest, 0)
        return frames

    @property
    def unread(self) -> int:
        """The bytes of the unfinished frame."""
        return len(self._rest)

    def _is_complete(self) -> bool:
        _check_length(self._rest, 0)
        return len(self._rest) >= _PREFIX.size and self._end_of(self._rest, 0) <= len(self._rest)

    def _end_of(self, data: bytes | bytearray | memoryview, at: int) -> int:
        length: int
        length, kind = _PREFIX.unpack_from(data, at)
        if not _is_length(length):
            raise FrameError(_why_no_frame(data, at, length))
        if (kind & _HEADER_MASK) > length - _LENGTH_SIZE:
            raise FrameError(f"a header of {kind & _HEADER_MASK} bytes in a frame of {length}")
        if (kind & _HEADER_MASK) > self._max_header:
            raise FrameError(f"a header of {kind & _HEADER_MASK} bytes: the most is {self._max_header}")
        if kind >> 24 not in {JSON_HEADER, BINARY_HEADER}:
            raise FrameError(f"header type {kind >> 24}: there are 0 (JSON) and 1 (binary)")
        return at + _LENGTH_SIZE + length


def _is_length(length: int) -> bool:
    return _LENGTH_SIZE <= length <= MAX_FRAME_SIZE - _LENGTH_SIZE


def _check_length(data: bytes | bytearray, at: int) -> None:
    """Refuse a length as soon as its bytes are there: what speaks another protocol may send no more than a few.

    Raises:
        FrameError: no frame has that length.
    """
    if len(data) - at >= _LENGTH_SIZE:
        length = int.from_bytes(data[at : at + _LENGTH_SIZE], "big", signed=True)
        if not _is_length(length):
            raise FrameError(_why_no_frame(data, at, length))


def next_opaque(opaque: int) -> int:
    """Return the number of a sender's next request; after the largest one it is 0."""
    return (opaque + 1) & INT32_MAX


def is_tls(begin: bytes) -> bool:
    """Return True if these are the first bytes of a client that speaks TLS: its first record is a handshake."""
    return begin.startswith(_TLS_HANDSHAKE)


def _why_no_frame(data: bytes | bytearray | memoryview, at: int, length: int) -> str:
    begin = bytes(data[at : at + 8])
    if begin.startswith(b"PRI "):
        return "HTTP/2: a gRPC client, and this port speaks the remoting protocol"
    if is_tls(begin):
        return "TLS, and this port speaks plain remoting; switch TLS off in the client"
    if begin[:4] in {b"GET ", b"POST", b"PUT ", b"HEAD"}:
        return "HTTP, and this port speaks the remoting protocol"
    return f"{begin!r} would begin a frame of {length} bytes: one has 4 to {MAX_FRAME_SIZE}"


def decode(data: bytes | memoryview, at: int, end: int) -> RemotingFrame:
    """Return the frame of `data[at:end]`, whose lengths are checked.

    Raises:
        FrameError: its header cannot be read.
    """
    _, kind = _PREFIX.unpack_from(data, at)
    header_at = at + _PREFIX.size
    body_at = header_at + (kind & _HEADER_MASK)
    header = bytes(data[header_at:body_at])
    frame = _read_json_header(header) if kind >> 24 == JSON_HEADER else _read_binary_header(header)
    frame.body = bytes(data[body_at:end])
    return frame


def _read_json_header(header: bytes) -> RemotingFrame:
    try:
        values = read_json(header)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a header that is not JSON: {header[:40]!r}") from error
    if not isinstance(values, dict):
        raise FrameError(f"a header that is not a JSON object: {header[:40]!r}")
    get = values.get
    code, opaque, flag, version = get("code", 0), get("opaque", 0), get("flag", 0), get("version", 0)
    for number in (code, opaque, flag, version):
        if type(number) is not int or not _INT32_MIN <= number <= INT32_MAX:
            numbers = [code, opaque, flag, version]
            raise FrameError(f"code, opaque, flag and version are {numbers!r:.80}: they are whole numbers of 32 bits")
    fields, remark, language = get("extFields"), get("remark"), get("language")
    if not (fields is None or isinstance(fields, dict)) or not (remark is None or isinstance(remark, str)):
        raise FrameError(f"extFields or remark of a wrong type: {header[:40]!r}")
    number = _LANGUAGE_NUMBERS.get(language, _OTHER) if isinstance(language, str) else _OTHER
    try:
        texts = _texts(fields or {})
    except RecursionError:
        raise FrameError("a header field with too many brackets inside one another") from None
    return RemotingFrame(code, opaque, flag, remark, texts, b"", number, version, JSON_HEADER)


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    """Return fields as texts, as fastjson does with numbers; those that are null are left out."""
    for value in fields.values():
        if type(value) is not str:
            break
    else:
        return fields
    return {
        name: value if isinstance(value, str) else write_fastjson(value).decode("utf-8", "replace")
        for name, value in fields.items()
        if value is not None
    }


def _read_binary_header(header: bytes) -> RemotingFrame:
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        remark, at = _piece(header, _HEAD.size, remark_size)
        (fields_size,) = _FIELDS.unpack_from(header, at)
        at += _FIELDS.size
        if fields_size < 0 or at + fields_size != len(header):
            raise FrameError(f"fields of {fields_size} bytes in a header that has {len(header) - at} left")
        fields = {}
        while at < len(header):
            (size,) = _NAME.unpack_from(header, at)
            name, at = _piece(header, at + _NAME.size, size)
            (size,) = _VALUE.unpack_from(header, at)
            fields[name], at = _piece(header, at + _VALUE.size, size)
    except struct.error as error:
        raise FrameError(f"a binary header of {len(header)} bytes ends too early") from error
    language = language if language < len(LANGUAGES) else _OTHER
    return RemotingFrame(code, opaque, flag, remark or None, fields, b"", language, version, BINARY_HEADER)


def _piece(header: bytes, at: int, size: int) -> tuple[str, int]:
    if size < 0 or at + size > len(header):
        raise FrameError(f"a text of {size} bytes in a header that has {len(header) - at} left")
    try:
        return header[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise FrameError(f"a text that is not UTF-8: {header[at : at + min(size, 40)]!r}") from error
