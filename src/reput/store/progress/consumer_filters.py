"""The SQL92 filters of consumer groups, which a broker keeps in config/consumerFilter.json; reput only reads them.

A filter is born when its group registers it, and again with a new expression. When the group leaves, its filter is
dead. The file keeps it for a day. Bitmaps are computed for dead filters too: their groups may come back. All
filters read from the file are dead until their groups register again.

Source: `ConsumerFilterManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from reput.dispatch.bloom import BloomFilter
from reput.files.backed_up import BackedUpFile, BackedUpKind
from reput.formats.config import consumer_filter
from reput.formats.config.consumer_filter import FilterData
from reput.times import now_ms

_DEAD_AT_LOAD_MS = 30 * 1000
_KIND: BackedUpKind[list[FilterData]] = BackedUpKind(
    consumer_filter.decode,
    [],
    consumer_filter.SIZE_LIMIT,
    "Consumers' filters were read from {}, which is older",
    "all groups register again, and bitmaps are not used until then",
)


class ConsumerFilters:
    """The filters of all groups.

    Args:
        config_folder: the store's `config`.
        bloom: gives filters their bits.
        clock_ms: returns the time.

    Attributes:
        notes: the problems that loading found.
    """

    def __init__(self, config_folder: Path, bloom: BloomFilter, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self.bloom = bloom
        self.notes: list[str] = []
        self._folder = config_folder
        self._clock_ms = clock_ms
        self._filters: dict[tuple[str, str], FilterData] = {}

    @classmethod
    def load(cls, config_folder: Path, bloom: BloomFilter, *, clock_ms: Callable[[], int] = now_ms) -> Self:
        """Read consumerFilter.json, or its .bak if it is missing or damaged. No file changes.

        As in RocketMQ the whole file is ignored if it was made for another Bloom filter: its bits mean nothing then.

        Raises:
            DamagedStoreError: the file is damaged, and its .bak is missing or damaged too.
        """
        registry = cls(config_folder, bloom, clock_ms=clock_ms)
        found = BackedUpFile(config_folder / consumer_filter.FILE_NAME, _KIND).load()
        registry.notes += found.notes
        for one in found.content:
            if (one.bits, len(one.bit_positions)) != (bloom.bits, bloom.hashes):
                registry.notes.append(
                    f"{config_folder / consumer_filter.FILE_NAME}: made for another Bloom filter ({one.bits} bits, "
                    f"here {bloom.bits}), so left out. maxErrorRateOfBloomFilter and expectConsumerNumUseFilter decide"
                )
                registry._filters = {}
                break
            dead_ms = one.dead_ms or max(one.born_ms, clock_ms() - _DEAD_AT_LOAD_MS)
            registry._filters[one.topic, one.group] = one._replace(dead_ms=dead_ms)
        return registry

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return a group's filter on a topic, dead or alive."""
        return self._filters.get((topic, group))

    def all(self) -> list[FilterData]:
        """Return all filters, dead and alive, by topic and group."""
        return [self._filters[key] for key in sorted(self._filters)]
