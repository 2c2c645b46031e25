"""The Bloom filter has the bits that RocketMQ's has."""

from __future__ import annotations

import pytest

from reput.errors import ConfigError
from support.bloom import BloomFilter, filter_key

# Error rate, expected number, text; hashes, bits, positions: as RocketMQ's own BloomFilter answered.
KNOWN = [
    (20, 32, "g#t", 3, 112, (22, 87, 58)),
    (10, 128, "group-é#topic", 4, 616, (402, 516, 507, 117)),
]


@pytest.mark.parametrize(("error", "expected", "text", "hashes", "bits", "positions"), KNOWN)
def test_known_bits(error: int, expected: int, text: str, hashes: int, bits: int, positions: tuple[int, ...]) -> None:
    """Sizes and positions are RocketMQ's."""
    bloom = BloomFilter(error, expected)
    assert (bloom.hashes, bloom.bits, bloom.positions(text)) == (hashes, bits, positions)


def may_hold(bitmap: bytes, positions: tuple[int, ...]) -> bool:
    """Return true if a bitmap has all these bits."""
    return all(bitmap[position // 8] >> position % 8 & 1 for position in positions)


def test_bitmap() -> None:
    """A bitmap has the bits of all that went in, lowest bit first, and shows what is not in it."""
    bloom = BloomFilter()
    keys = [filter_key(f"group-{n}", "orders") for n in range(3)]
    bitmap = bloom.bitmap(map(bloom.positions, keys))
    assert len(bitmap) == bloom.size == 14
    assert all(may_hold(bitmap, bloom.positions(key)) for key in keys)
    assert bloom.bitmap([(0, 9)]) == b"\x01\x02" + bytes(12)
    others = [may_hold(bitmap, bloom.positions(filter_key(f"other-{n}", "orders"))) for n in range(200)]
    assert sum(others) < 20
    assert not may_hold(bytes(14), bloom.positions(keys[0]))


@pytest.mark.parametrize(("error", "expected"), [(0, 32), (100, 32), (20, 0)])
def test_no_filter(error: int, expected: int) -> None:
    """Rates and numbers that make no filter are refused, by RocketMQ's names for them."""
    with pytest.raises(ConfigError, match="maxErrorRateOfBloomFilter"):
        BloomFilter(error, expected)
