"""Bodies as a consumer gets them: what real producers compressed, and what no decoder can read."""

from __future__ import annotations

import tracemalloc
import zlib
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.log import properties as props
from reput.formats.log.body import BodyError, decode_body
from reput.formats.log.record import FLAG_COMPRESSED, decode_record
from support import golden

ZLIB, LZ4, ZSTD, OLD_ZLIB = (FLAG_COMPRESSED | kind for kind in (0x300, 0x100, 0x200, 0x000))
CODECS = {ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd", OLD_ZLIB: "zlib"}
MESSAGE = b'{"order": 17, "lines": [1, 2, 3]}' * 200


def compressed(body: bytes, flag: int) -> bytes:
    """Compress as the type in the flags says."""
    if CODECS[flag] == "zlib":
        return zlib.compress(body)
    return bytes(pa.compress(body, codec=CODECS[flag], asbytes=True))


@pytest.mark.golden
@pytest.mark.parametrize("name", golden.STORES_55)
def test_bodies_are_what_the_java_client_compressed(name: str) -> None:
    """Each compressed body expands to the size and CRC that its producer noted in plainSize and plainCrc."""
    kinds = set()
    for _, data in golden.log_files(golden.shared(name)):
        for record in (decode_record(data, at) for at in starts(data)):
            named = props.text_properties(record.properties)
            body = decode_body(record.body, record.sys_flag)
            if not record.sys_flag & FLAG_COMPRESSED:
                # The half messages of these stores have lost their flags: a consumer gets what is stored.
                assert body == record.body
                continue
            assert len(body) == int(named["plainSize"])
            assert zlib.crc32(body) & 0x7FFFFFFF == int(named["plainCrc"])
            kinds.add(CODECS[record.sys_flag & 0x701])
    assert kinds == {"zlib", "lz4", "zstd"}


def starts(data: bytes) -> list[int]:
    """List the places at which records begin."""
    found, at = [], 0
    while at < len(data) - 8 and data[at + 4 : at + 8] in golden._MAGICS:
        found.append(at)
        at += int.from_bytes(data[at : at + 4], "big")
    return found


@pytest.mark.parametrize("flag", CODECS, ids=hex)
@given(body=st.binary(max_size=300_000) | st.integers(0, 300_000).map(bytes))
def test_a_body_comes_back(flag: int, body: bytes) -> None:
    """A body that was compressed is the same again; one that no flag calls compressed is not touched."""
    assert decode_body(compressed(body, flag), flag) == body
    assert decode_body(memoryview(body), flag & ~FLAG_COMPRESSED) == body


@pytest.mark.parametrize("flag", CODECS, ids=hex)
@given(data=st.binary(min_size=1, max_size=200))
def test_garbage_is_a_reason(flag: int, data: bytes) -> None:
    """Bytes that are no stream give a BodyError with the compression's name, or a body, and nothing else."""
    with suppress(BodyError):
        assert isinstance(decode_body(data, flag), bytes)
    with pytest.raises(BodyError, match=CODECS[flag]):
        decode_body(b"\xff" + data, flag)


@pytest.mark.parametrize("flag", [LZ4, ZSTD], ids=hex)
def test_bytes_after_a_frame_were_called_a_truncated_stream(flag: int) -> None:
    """The reason of a body with bytes after its last frame says that there may be such bytes."""
    with pytest.raises(BodyError, match="damaged or cut off, or bytes follow it"):
        decode_body(compressed(MESSAGE, flag) + b"more", flag)


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_a_stream_that_is_cut_anywhere_is_refused(flag: int) -> None:
    """No prefix of a compressed body passes for a body."""
    whole = compressed(MESSAGE, flag)
    for end in range(1, len(whole)):
        with pytest.raises(BodyError):
            decode_body(whole[:end], flag)


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700], ids=hex)
def test_an_unknown_type_is_named(kind: int) -> None:
    """Type bits that RocketMQ does not have are an error that names the type and the flags."""
    with pytest.raises(BodyError, match=rf"type {kind >> 8} \(sysFlag 0x{kind | 1:x}\)"):
        decode_body(b"anything", kind | FLAG_COMPRESSED)


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_a_bomb_is_refused_before_it_takes_the_memory(flag: int) -> None:
    """A body that expands to 512 MiB is refused at the bound of 1 MiB, and takes no more than a few times that."""
    bomb = compressed(bytes(512 << 20), flag)
    tracemalloc.start()
    taken = pa.total_allocated_bytes()
    with pytest.raises(BodyError, match=r"more than 1048576 bytes \(maxDecodedBodySize\)"):
        decode_body(bomb, flag, 1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    assert pa.total_allocated_bytes() == taken
    tracemalloc.stop()


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_a_damaged_body_kept_memory_for_good(flag: int) -> None:
    """A body that is refused leaves nothing in memory: hundreds of them take no more than one."""
    cut = compressed(MESSAGE, flag)[:-3]
    tracemalloc.start()
    for number in range(300):
        with pytest.raises(BodyError):
            decode_body(cut, flag)
        if number == 20:
            before = tracemalloc.get_traced_memory()[0]
    assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_the_bound_is_exact(flag: int) -> None:
    """A body of as many bytes as are allowed is decoded, one byte more is refused."""
    stored = compressed(MESSAGE, flag)
    assert decode_body(stored, flag, len(MESSAGE)) == MESSAGE
    with pytest.raises(BodyError):
        decode_body(stored, flag, len(MESSAGE) - 1)


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_an_empty_body_needs_no_stream(flag: int) -> None:
    """RocketMQ's client does not decompress a body of no bytes."""
    assert decode_body(b"", flag) == b""
