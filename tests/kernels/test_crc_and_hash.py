"""The compiled CRC-32 and Java hash, which decoding is made of, against zlib and the plain hash."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.formats import paths
from reput.formats.java.hashing import java_string_hash_utf8, to_int32, utf16_units
from reput.formats.log.record import crc32 as plain_crc32
from reput.kernels.compiled.examine import is_topic_folder_name
from reput.kernels.compiled.tools import crc
from support.hashes import java_hash
from support.records import BAD_TOPICS, GOOD_TOPICS, TEXTS
from support.search import cases
from support.twins import as_buffer

LENGTHS = (*range(200), 255, 256, 257, 4095, 4096, 4097, 65537)
RANDOM = np.random.default_rng(1).bytes(65600)


def crc32_by_tables(data: bytes) -> int:
    """CRC-32 by tables alone, as a processor without carry-less multiplication computes it."""
    buffer = as_buffer(data)
    begin = buffer.ctypes.data
    rest = int(crc._rest(np.uint64(0xFFFFFFFF), begin, begin + len(data)))
    return ~rest & 0x7FFFFFFF


@pytest.mark.parametrize("begin", [0, 1, 7, 16])
def test_crc_of_every_length(begin: int) -> None:
    """Of any length, from any place, folded or by tables, it is zlib's CRC-32 without the highest bit."""
    for length in LENGTHS:
        data = RANDOM[begin : begin + length]
        assert crc.crc32(as_buffer(RANDOM), begin, begin + length) == plain_crc32(data)
        assert crc32_by_tables(data) == plain_crc32(data)


def test_crc_of_zeros_and_ones() -> None:
    """Stretches of one value, which a wrong first or last step shows in, have zlib's CRC-32."""
    for value in (0x00, 0xFF):
        for length in LENGTHS:
            data = bytes([value]) * length
            assert crc.crc32(as_buffer(data), 0, length) == crc32_by_tables(data) == plain_crc32(data)


def test_crc_for_another_processor(tmp_path: Path) -> None:
    """Code that numba compiles for a processor that cannot fold does not fold, and the CRC is the same."""
    program = (
        "import zlib; from reput.kernels.compiled.tools.crc import CAN_FOLD, body_crc\n"
        "assert not CAN_FOLD\n"
        "assert body_crc(bytes(range(100))) == zlib.crc32(bytes(range(100))) & 0x7FFFFFFF"
    )
    source = str(Path(reput.__file__).parent.parent)
    environment = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# The bytes at which a UTF-8 decoder changes its mind.
EDGES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 fc fe ff")
FOURS = product(EDGES[EDGES.index(0xEF) :], EDGES, b"\x7f\x80\xbf\xc0", b"\x7f\x80\xbf\xc0")
SHORT = [*(bytes(text) for count in range(4) for text in product(EDGES, repeat=count)), *map(bytes, FOURS)]

texts = st.lists(st.sampled_from(TEXTS) | st.text(max_size=20).map(str.encode) | st.binary(max_size=20)).map(b"".join)


def test_hash_of_every_short_string() -> None:
    """Every short string of the bytes that matter to UTF-8 hashes as the plain twin hashes it."""
    for text in SHORT:
        assert java_hash(as_buffer(text), 0, len(text), 0) == java_string_hash_utf8(text), text


def test_topics_of_every_short_string() -> None:
    """A short string of UTF-8's edges is a folder's name where the plain twin says so."""
    for text in [*SHORT, *GOOD_TOPICS, *BAD_TOPICS, b"...", b".a", b"\xef\xbf\xbd", b"a" * 255, b"a" * 256]:
        begin = as_buffer(text).ctypes.data
        assert is_topic_folder_name(begin, begin + len(text)) == paths.is_topic_folder_name(text), text


@settings(max_examples=cases(150, 1000), deadline=None)
@given(texts, st.integers(-(1 << 31), (1 << 31) - 1), st.data())
def test_hash_of_any_bytes(text: bytes, seed: int, data: st.DataObject) -> None:
    """Any bytes hash as the plain twin hashes them, whatever bytes are around them; a seed goes on with a hash."""
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    continued = java_string_hash_utf8(text[begin:end]) + seed * 31 ** len(list(utf16_units(text[begin:end])))

    assert java_hash(as_buffer(text), begin, end, seed) == to_int32(continued)
