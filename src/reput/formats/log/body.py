"""The body of a message as its consumer gets it: producers compress bodies of more than 4 KiB.

| sysFlag 0x1 | sysFlag 0x700 | the stored body is |
|---|---|---|
| 0 | any | the body itself |
| 1 | 0x000, 0x300 | a zlib stream; 0x000 as clients wrote it before there were types |
| 1 | 0x100 | LZ4 frames |
| 1 | 0x200 | Zstandard frames |
| 1 | others | of no known type |

A stored body without bytes is an empty body, whatever the flags say. Bytes after a zlib stream are not read. Bytes
after the last frame are an error, as in RocketMQ.

Source: `MessageDecoder.decode`, `MessageSysFlag`, `CompressionType.findByValue`, `ZlibCompressor`, `Lz4Compressor`,
`ZstdCompressor`.
"""

from __future__ import annotations

import zlib

from reput.formats.log.record import COMPRESSION_MASK, COMPRESSION_NAMES, FLAG_COMPRESSED

MAX_DECODED_BODY_SIZE = 64 << 20
"""Bytes that a body may expand to by default: 16 times RocketMQ's maxMessageSize, by which a client bounds a body."""
_PIECE_BYTES = 64 << 10
_TYPE_SHIFT = 8


class BodyError(ValueError):
    """A stored body cannot be decoded; the text has the compression and the reason."""


def decode_body(stored: bytes | memoryview, sys_flag: int, max_size: int = MAX_DECODED_BODY_SIZE) -> bytes:
    """Return the body as a consumer gets it.

    Takes at most `max_size` bytes of memory and a decoder's own: 4 MiB for LZ4, up to 128 MiB for Zstandard, of which a
    small stream touches little.

    Args:
        stored: The body as the record holds it.
        sys_flag: The record's flags.
        max_size: The most bytes that it may expand to.

    Raises:
        BodyError: It is of no known type, no such stream, cut off, or expands to more bytes.
    """
    if not sys_flag & FLAG_COMPRESSED or not len(stored):
        return bytes(stored)
    name = COMPRESSION_NAMES.get(sys_flag & COMPRESSION_MASK)
    if name is None:
        number = (sys_flag & COMPRESSION_MASK) >> _TYPE_SHIFT
        raise BodyError(f"compressed with type {number} (sysFlag 0x{sys_flag & 0xFFFFFFFF:x}), which RocketMQ has not")
    body = _of_zlib(stored, max_size) if name == "zlib" else _of_frames(stored, name, max_size)
    if len(body) > max_size:
        raise BodyError(f"{name}: expands to more than {max_size} bytes (maxDecodedBodySize)")
    return body


def _of_zlib(stored: bytes | memoryview, max_size: int) -> bytes:
    """Return at most one byte more than `max_size`."""
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(stored, max_size + 1)
    except zlib.error as error:
        raise BodyError(f"zlib: the stream is damaged ({str(error).rpartition(': ')[2]})") from None
    if not stream.eof and len(body) <= max_size:
        raise BodyError(f"zlib: the stream is cut off after {len(stored)} bytes")
    return body


def _of_frames(stored: bytes | memoryview, name: str, max_size: int) -> bytes:
    """Return at most one byte more than `max_size`."""
    # Only a compressed body needs it, and it takes some 100 ms to load.
    import pyarrow as pa  # type: ignore[import-untyped]

    pieces, left, size = [], max_size + 1, _PIECE_BYTES
    try:
        with pa.CompressedInputStream(pa.BufferReader(stored), name) as stream:
            # `stream.read` never frees its piece when it fails: a damaged body would cost 64 KiB for good.
            while left and len(piece := stream.read_buffer(min(size, left))):
                pieces.append(piece)
                left -= len(piece)
                size *= 2
    except OSError as error:
        # The library calls bytes after the last frame a frame that is cut off.
        raise BodyError(f"{name}: the stream is damaged or cut off, or bytes follow it ({error})") from None
    return b"".join(pieces)
