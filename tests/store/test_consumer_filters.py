"""The registry of consumers' filters: who counts, since when, and what is left of it in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.dispatch.bloom import BloomFilter
from reput.errors import DamagedStoreError
from reput.formats import consumer_filter
from reput.store.progress.consumer_filters import KEPT_DEAD_MS, ConsumerFilters

if TYPE_CHECKING:
    from pathlib import Path

BLOOM = BloomFilter()


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        """The time now (ms)."""
        return self.ms


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    return Clock()


@pytest.fixture
def filters(tmp_path: Path, clock: Clock) -> ConsumerFilters:
    """An empty registry."""
    return ConsumerFilters.load(tmp_path, BLOOM, clock_ms=clock)


def test_register(filters: ConsumerFilters, clock: Clock) -> None:
    """A newer client with another expression is born anew; with the same it goes on; an older one is not heard."""
    assert filters.register("t", "g", "a > 5", 7)
    born = clock.ms
    clock.ms += 1000
    assert not filters.register("t", "g", "a > 6", 7)
    assert not filters.register("t", "g", "a > 6", 6)
    assert filters.register("t", "g", "a > 5", 8)
    found = filters.get("t", "g")
    assert found is not None
    assert (found.expression, found.client_version, found.born_ms) == ("a > 5", 8, born)
    assert filters.register("t", "g", "a > 6", 9)
    found = filters.get("t", "g")
    assert found is not None
    assert (found.expression, found.born_ms, found.bit_positions) == ("a > 6", clock.ms, BLOOM.positions("g#t"))


def test_refused(filters: ConsumerFilters) -> None:
    """Tags, nothing and what is no filter are not taken, and leave the old filter as it was."""
    filters.register("t", "g", "a > 5", 7)
    assert not filters.register("t", "g", "paid", 8, "TAG")
    assert not filters.register("t", "g", "", 8)
    assert not filters.register("t", "g", "a >", 8)
    found = filters.get("t", "g")
    assert found is not None
    assert (found.expression, found.is_dead) == ("a > 5", False)


def test_unregister(filters: ConsumerFilters, clock: Clock) -> None:
    """A group that goes is dead on all topics, and alive again when it registers with the same version."""
    for topic in ("t", "u"):
        filters.register(topic, "g", "a > 5", 7)
    filters.register("t", "other", "a > 5", 7)
    clock.ms += 5
    filters.unregister("g")
    assert [(one.topic, one.group, one.is_dead) for one in filters.all()] == [
        ("t", "g", True),
        ("t", "other", False),
        ("u", "g", True),
    ]
    assert filters.register("t", "g", "a > 9", 7)
    found = filters.get("t", "g")
    assert found is not None
    assert (found.expression, found.is_dead) == ("a > 5", False)


def test_persist(filters: ConsumerFilters, tmp_path: Path, clock: Clock) -> None:
    """What is written is read again, all dead since half a minute; who was dead for a day is not written."""
    filters.register("t", "gone", "a > 5", 7)
    filters.unregister("gone")
    clock.ms += KEPT_DEAD_MS
    filters.register("订单", "g", "a = 'it''s \"quoted\"'", 7)
    filters.persist()
    clock.ms += 100_000
    again = ConsumerFilters.load(tmp_path, BLOOM, clock_ms=clock).all()
    assert [(one.topic, one.expression, one.dead_ms) for one in again] == [
        ("订单", "a = 'it''s \"quoted\"'", clock.ms - 30_000)
    ]


def test_another_bloom_filter(filters: ConsumerFilters, tmp_path: Path) -> None:
    """Made for another Bloom filter the whole file is left out, and that is said."""
    filters.register("t", "g", "a > 5", 7)
    filters.persist()
    other = ConsumerFilters.load(tmp_path, BloomFilter(10, 128))
    assert not other.all()
    assert "another Bloom filter" in other.notes[0]


def test_damaged_file(filters: ConsumerFilters, tmp_path: Path) -> None:
    """A damaged file gives way to its .bak, and that is said; without one it is an error that names the file."""
    filters.register("t", "g", "a > 5", 7)
    filters.persist()
    filters.persist()
    path = tmp_path / consumer_filter.FILE_NAME
    path.write_bytes(path.read_bytes()[:100])
    again = ConsumerFilters.load(tmp_path, BLOOM)
    assert len(again.all()) == 1
    assert "not JSON" in again.notes[0]
    (tmp_path / consumer_filter.BACKUP_NAME).unlink()
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
    """Each thing that a file must not hold is told with its place."""
    with pytest.raises(DamagedStoreError, match=reason):
        consumer_filter.decode(text.encode(), "consumerFilter.json")
