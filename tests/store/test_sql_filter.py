"""Pulls with a SQL92 filter give exactly the messages that match, whatever bitmaps say that can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats.queue.consume_queue import QueueKey
from reput.store.read.results import GetStatus
from reput.store.read.sql_filter import BloomBits
from reput.store.read.tag_filter import ALL_MESSAGES, TagFilter
from support import golden
from support.kinds import CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.store.read.view import StoreView

REGIONS = ("eu", "us")
COUNT = 300


@pytest.fixture
def store(tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A store of one queue: amounts 0 to 299, every second message in the EU."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as opened:
        for n in range(COUNT):
            properties = {"amount": str(n), "region": REGIONS[n % 2]}
            opened.put_message(reput.Message("orders", b"x" * n, tags="paid", properties=properties))
        yield opened


def pulled(store: reput.MessageStore, wanted: reput.SqlFilter) -> list[int]:
    """The queue offsets that pulls give, one pull after the other to the end."""
    found, offset = [], 0
    while True:
        result = store.get_message("orders", 0, offset, 32, wanted)
        if result.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            return found
        found += [message.queue_offset for message in result]
        offset = result.next_offset


@pytest.mark.parametrize("indexed", [False, True], ids=["tail", "files"])
def test_pull(store: reput.MessageStore, indexed: bool) -> None:
    """Matching messages come, in order and once, from the tail and from queue files alike."""
    if indexed:
        store.reput(spark=False)
    wanted = reput.SqlFilter("amount > 100 AND region = 'eu'")
    assert pulled(store, wanted) == list(range(102, COUNT, 2))
    assert pulled(store, reput.SqlFilter("amount > 1000")) == []
    assert pulled(store, reput.SqlFilter("amount > 298 OR TAGS = 'paid'")) == list(range(COUNT))


def test_statuses(store: reput.MessageStore) -> None:
    """A pull without a match is NO_MATCHED_MESSAGE and continues after all it looked at; a pull ends at its count."""
    nothing = store.get_message("orders", 0, 10, 32, reput.SqlFilter("amount < 10"))
    assert (nothing.status, nothing.next_offset, len(nothing)) == (GetStatus.NO_MATCHED_MESSAGE, COUNT, 0)
    some = store.get_message("orders", 0, 0, 3, reput.SqlFilter("amount >= 10"))
    assert [message.queue_offset for message in some] == [10, 11, 12]
    assert some.next_offset == 13
    assert (
        store.get_message("orders", 0, COUNT, 3, reput.SqlFilter("amount > 1")).status is GetStatus.OFFSET_OVERFLOW_ONE
    )


@pytest.mark.parametrize("indexed", ["tail", "files", "both"])
def test_estimate(store: reput.MessageStore, indexed: str) -> None:
    """An estimate counts what pulls give, over any part of a queue, wherever its entries are."""
    if indexed != "tail":
        store.reput(spark=False)
    if indexed == "both":
        store.put_message(reput.Message("orders", b"late", properties={"amount": "150", "region": "eu"}))
    for sql in ("amount > 100 AND region = 'eu'", "amount >= 0", "amount > 1000", "TAGS = 'paid'"):
        offsets = pulled(store, wanted := reput.SqlFilter(sql))
        for begin, end in ((0, 1 << 40), (-5, 10), (103, 155), (298, 301), (50, 50), (400, 500)):
            assert store.estimate("orders", 0, begin, end, wanted) == sum(begin <= one < end for one in offsets)


@pytest.mark.parametrize("indexed", [False, True], ids=["tail", "files"])
def test_many_filters_about_few_messages(store: reput.MessageStore, indexed: bool) -> None:
    """Filters that are asked together say what an estimate says of each alone, about few messages and about many."""
    if indexed:
        store.reput(spark=False)
    sql = ("amount > 150 AND region = 'eu'", "TRUE", "amount = 299", "region > 5", "color IS NULL", "FALSE")
    wanted = [*map(reput.SqlFilter, sql), TagFilter("paid || sent"), TagFilter("sent"), ALL_MESSAGES]
    for begin, end in (
        (0, 1),
        (-5, 2),
        (150, 158),
        (151, 152),
        (140, 152),
        (298, 301),
        (50, 50),
        (299, 300),
        (400, 401),
    ):
        expected = [store.estimate("orders", 0, begin, end, one) > 0 for one in wanted]
        assert store.view.have_matches("orders", 0, begin, end, wanted) == expected


def test_bad_filter() -> None:
    """A text that is no filter is refused before a store is asked."""
    with pytest.raises(reput.ConfigError, match="character 10"):
        reput.SqlFilter("amount > ")


def with_bitmaps(view: StoreView) -> tuple[str, int, list[bytes]]:
    """A golden queue, and the bitmaps of its messages."""
    assert view.ext is not None
    info = max(view.queues(), key=lambda queue: queue.max_offset)
    key = QueueKey(info.topic.encode(), info.queue_id)
    entries = view.queues_table.entries(key, 0, info.max_offset)
    codes = [int.from_bytes(entries[at + 12 : at + 20].tobytes(), signed=True) for at in range(0, len(entries), 20)]
    return info.topic, info.queue_id, [unit.bitmap for code in codes if (unit := view.ext.unit(key, code))]


def test_bitmaps() -> None:
    """Of messages that match, those whose bitmap lacks a bit do not come: where it can be believed, and only there."""
    store = reput.MessageStore.open(golden.shared("ext"), CONFIG, read_only=True)
    view = store.view
    topic, queue_id, bitmaps = with_bitmaps(view)
    positions, everything = (5, 77), reput.SqlFilter("TRUE")
    hit = [n for n, bitmap in enumerate(bitmaps) if not bitmap or all(bitmap[p // 8] >> p % 8 & 1 for p in positions)]
    assert 0 < len(hit) < len(bitmaps)

    def with_bits(bloom: BloomBits | None) -> list[int]:
        view.entry_reader.bloom_bits = lambda _topic, _wanted: bloom
        return [message.queue_offset for message in store.get_message(topic, queue_id, 0, len(bitmaps), everything)]

    assert with_bits(None) == list(range(len(bitmaps)))
    assert with_bits(BloomBits(positions, 112, born_ms=0)) == hit
    assert with_bits(BloomBits(positions, 112, born_ms=1 << 60)) == list(range(len(bitmaps)))
    assert with_bits(BloomBits(positions, 120, born_ms=0)) == list(range(len(bitmaps)))
    with_bits(BloomBits(positions, 112, born_ms=0))
    assert store.estimate(topic, queue_id, 0, len(bitmaps), everything) == len(hit)


@pytest.mark.parametrize("most", [0, 1, 3, 32, 100, 500])
@pytest.mark.parametrize(
    "sql", ["amount >= 0", "region = 'us'", "amount = 299", "amount IN ('5', '6', '290')", "amount < 0"]
)
def test_a_pull_ends_where_a_slow_one_does(store: reput.MessageStore, most: int, sql: str) -> None:
    """However many entries are looked at together, a pull gives what one after the other would, and ends there."""
    wanted = reput.SqlFilter(sql)
    for offset in (0, 1, 150, COUNT - 1):
        result = store.get_message("orders", 0, offset, most, wanted)
        found, number = [], offset
        while number < COUNT and len(found) < max(most, 1):
            (message,) = store.get_message("orders", 0, number, 1)
            found += [number] if wanted.compiled.matches(message.properties) else []
            number += 1
        assert [message.queue_offset for message in result] == found
        assert result.next_offset == number
