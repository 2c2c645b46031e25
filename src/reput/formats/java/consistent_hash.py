"""The bucket of a key that stays the same for most keys when there is one bucket more.

Source: Guava's `Hashing.consistentHash`, by which RocketMQ's proxy gives each message group its queue.
"""

from __future__ import annotations

from typing import Final

_FACTOR: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1
_UNIT: Final = float(1 << 31)


def consistent_bucket(key: int, buckets: int) -> int:
    """Return the bucket of a key of 64 bits, from 0 to one less than `buckets`."""
    state, candidate = key & _MASK, 0
    while True:
        state = state * _FACTOR + 1 & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / _UNIT))
        if following >= buckets:
            return candidate
        candidate = following
