"""The filters of consumers, as they are read from a broker's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError
from reput.files.backed_up import backup_of
from reput.formats.config import consumer_filter
from reput.store.progress.consumer_filters import ConsumerFilters
from support.bloom import BloomFilter
from support.registry import FilterRegistry
from support.waiting import Clock

if TYPE_CHECKING:
    from pathlib import Path

BLOOM = BloomFilter()


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    return Clock()


@pytest.fixture
def filters(tmp_path: Path, clock: Clock) -> FilterRegistry:
    """An empty registry."""
    return FilterRegistry.load(tmp_path, BLOOM, clock_ms=clock)


def test_filters_are_dead_when_they_are_read(filters: FilterRegistry, tmp_path: Path, clock: Clock) -> None:
    """Filters that a broker wrote are read again, and are dead since half a minute."""
    filters.register("订单", "g", "a = 'it''s \"quoted\"'", 7)
    filters.persist()
    clock.now_ms += 100_000
    again = ConsumerFilters.load(tmp_path, BLOOM, clock_ms=clock).all()
    assert [(one.topic, one.expression, one.dead_ms) for one in again] == [
        ("订单", "a = 'it''s \"quoted\"'", clock.now_ms - 30_000)
    ]


def test_another_bloom_filter(filters: FilterRegistry, tmp_path: Path) -> None:
    """Made for another Bloom filter the whole file is left out, and that is said."""
    filters.register("t", "g", "a > 5", 7)
    filters.persist()
    other = ConsumerFilters.load(tmp_path, BloomFilter(10, 128))
    assert not other.all()
    assert "another Bloom filter" in other.notes[0]


def test_damaged_file(filters: FilterRegistry, tmp_path: Path) -> None:
    """A damaged file gives way to its .bak, and that is said; without one it is an error that names the file."""
    filters.register("t", "g", "a > 5", 7)
    filters.persist()
    filters.persist()
    path = tmp_path / consumer_filter.FILE_NAME
    path.write_bytes(path.read_bytes()[:100])
    again = ConsumerFilters.load(tmp_path, BLOOM)
    assert len(again.all()) == 1
    assert "not JSON" in again.notes[0]
    backup_of(path).unlink()
    with pytest.raises(DamagedStoreError, match=r"consumerFilter\.json: not JSON.*Put a good copy"):
        ConsumerFilters.load(tmp_path, BLOOM)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "an object is needed"),
        ('{"filterDataByTopic":5}', "dict is needed"),
        ('{"filterDataByTopic":{"t":{"groupFilterData":{"g":[]}}}}', "group 'g'"),
        ('{"filterDataByTopic":{"t":{"groupFilterData":{"g":{"bornTime":-5}}}}}', "out of range"),
        ('{"filterDataByTopic":{"t":{"groupFilterData":{"g":{"bornTime":"5"}}}}}', "int is needed"),
        (
            '{"filterDataByTopic":{"t":{"groupFilterData":{"g":{"bloomFilterData":{"bitNum":8,"bitPos":[8]}}}}}}',
            "below bitNum 8",
        ),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_wrong_contents(text: str, reason: str) -> None:
    """Each thing that a file must not hold is reported with its place."""
    with pytest.raises(DamagedStoreError, match=reason):
        consumer_filter.decode(text.encode(), "consumerFilter.json")
