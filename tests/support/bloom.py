"""The bits of a filter in bitmaps, as RocketMQ computes them. reput reads them from consumerFilter.json.

The hash is murmur3 (128 bits), of which two halves of 32 bits each are combined (Kirsch and Mitzenmacher).

    bits = BloomFilter().positions("group#topic")        with the broker's defaults: 3 of 112 bits

Source: `BloomFilter`, `BitsArray`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mmh3

from reput.dispatch import bloom

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class BloomFilter(bloom.BloomFilter):
    """The sizes of the filter, and its bits."""

    def positions(self, text: str) -> tuple[int, ...]:
        """Return the bits of a text, one for each hash; two may be equal."""
        low = mmh3.hash128(text.encode("utf-8", "replace"), 0, True) & 0xFFFFFFFFFFFFFFFF
        first, second = struct.unpack("<ii", struct.pack("<Q", low))
        found = []
        for number in range(1, self.hashes + 1):
            combined = (first + number * second + 0x80000000 & 0xFFFFFFFF) - 0x80000000
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
