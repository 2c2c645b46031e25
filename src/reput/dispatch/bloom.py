"""The Bloom filter with which RocketMQ marks, on a message, the SQL92 filters that it matches.

Each consumer group's filter on a topic has `hashes` bits out of `bits`. A message's bitmap has the bits of all filters
that it matches. So a missing bit proves that a filter did not match; present bits prove nothing.

    bits = BloomFilter().positions("group#topic")        with the broker's defaults: 3 of 112 bits

The hash is murmur3 (128 bits), of which two halves of 32 bits each are combined (Kirsch and Mitzenmacher). Bit i is bit
i % 8, from the lowest, of byte i // 8.

Source: `BloomFilter`, `BitsArray`, `BrokerConfig.maxErrorRateOfBloomFilter` and `expectConsumerNumUseFilter`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mmh3

from reput.errors import ConfigError

DEFAULT_ERROR_PERCENT = 20
DEFAULT_EXPECTED = 32
_INT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter for `expected` texts that reports an absent text as present in `error_percent` of 100 cases.

    Raises:
        ConfigError: no filter has these two values.
    """

    error_percent: int = DEFAULT_ERROR_PERCENT
    expected: int = DEFAULT_EXPECTED
    hashes: int = field(init=False)
    bits: int = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.error_percent < 100 or self.expected < 1:
            raise ConfigError(
                f"maxErrorRateOfBloomFilter={self.error_percent}, expectConsumerNumUseFilter={self.expected}: a rate "
                "of 1 to 99 and at least one consumer are needed"
            )
        rate = self.error_percent / 100.0
        # The peer's divisions in the peer's order: one rounding more or less would change `bits`.
        hashes = math.ceil(_log(0.5, rate))
        bits = math.ceil(self.expected * _log(2, 1 / rate) * _log(2, math.e))
        object.__setattr__(self, "hashes", hashes)
        object.__setattr__(self, "bits", 8 * math.ceil(bits / 8.0))

    @property
    def size(self) -> int:
        """Bytes of a bitmap."""
        return self.bits // 8

    def positions(self, text: str) -> tuple[int, ...]:
        """Return the bits of a text, one for each hash; two may be equal."""
        low = mmh3.hash128(text.encode("utf-8", "replace"), 0, True) & 0xFFFFFFFFFFFFFFFF
        first, second = struct.unpack("<ii", struct.pack("<Q", low))
        found = []
        for number in range(1, self.hashes + 1):
            combined = _to_int32(first + number * second)
            found.append((~combined if combined < 0 else combined) % self.bits)
        return tuple(found)

    def bitmap(self, entries: Iterable[Sequence[int]]) -> bytes:
        """Return the bitmap with all these bits."""
        bitmap = bytearray(self.size)
        for positions in entries:
            for position in positions:
                bitmap[position // 8] |= 1 << position % 8
        return bytes(bitmap)


def filter_key(group: str, topic: str) -> str:
    """Return the text whose bits mark a consumer group's filter on a topic."""
    return f"{group}#{topic}"


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)


def _to_int32(value: int) -> int:
    return (value + 0x80000000 & _INT) - 0x80000000
