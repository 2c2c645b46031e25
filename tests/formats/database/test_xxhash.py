"""XXH64."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.database.xxhash import xxhash64
from reput.kernels import table_kernels


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
    ],
)
def test_known_values(data: bytes, expected: int) -> None:
    """Published values; tables of RocksDB, whose blocks are checked wherever one is read, have longer ones."""
    assert xxhash64(data) == expected


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_the_kernel_says_the_same(data: bytes) -> None:
    """Both twins hash any bytes alike."""
    compiled, reference = (table_kernels(kind).hash_bytes(data) for kind in ("compiled", "reference"))

    assert compiled == reference
    assert compiled & 0xFFFFFFFFFFFFFFFF == xxhash64(data)
