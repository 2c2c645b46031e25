"""The size of the Bloom filter with which RocketMQ marks, on a message, the SQL92 filters that it matches.

Each consumer group's filter on a topic has `hashes` bits out of `bits`, which consumerFilter.json lists. A message's
bitmap has the bits of all filters that it matches. So a missing bit proves that a filter did not match; present bits
prove nothing. Bit i is bit i % 8, from the lowest, of byte i // 8.

Source: `BloomFilter`, `BrokerConfig.maxErrorRateOfBloomFilter` and `expectConsumerNumUseFilter`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from reput.errors import ConfigError

DEFAULT_ERROR_PERCENT = 20
DEFAULT_EXPECTED = 32


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


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)
