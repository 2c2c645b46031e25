"""RocketMQ's own tests of filters and of light queues' progress (broker module): one of ours under the name of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import reput
from reput.config import StoreConfig, parse_properties
from reput.dispatch.bitmaps import FilterBits, bitmaps_of
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey
from reput.log.encode.message import Message
from reput.queue.ext import ExtReader
from support import golden, stores
from support.bloom import BloomFilter, filter_key
from support.filters import raw
from support.registry import FilterRegistry, is_dead

if TYPE_CHECKING:
    from pathlib import Path

BLOOM = BloomFilter()
CONFIG = StoreConfig.from_properties(
    parse_properties(
        golden.CONFIG + "enableConsumeQueueExt=true\nmappedFileSizeConsumeQueueExt=65536\nenableCalcFilterBitMap=true\n"
    )
)
GROUPS = {f"group-{n}": f"a > {10 * n}" for n in range(8)}
LATE_MS = 1 << 50


def register(store: Path, born_ms: int, **filters: str) -> None:
    """Write the registry of a store with these groups' filters on topic t."""
    for name in (paths.CONFIG, paths.COMMIT_LOG):
        (store / name).mkdir(parents=True, exist_ok=True)
    registry = FilterRegistry.load(store / paths.CONFIG, BLOOM, clock_ms=lambda: born_ms)
    for group, sql in filters.items():
        assert registry.register("t", group, sql, 1)
    registry.persist()


def filled(store: Path) -> reput.MessageStore:
    """A store of 100 messages whose property a is their number, with its bitmaps computed."""
    opened = reput.MessageStore.open(store, CONFIG, create=True)
    for n in range(100):
        opened.put_message(Message("t", b"x", tags="even" if n % 2 == 0 else "odd", properties={"a": str(n)}))
    opened.reput(spark=False)
    return opened


def bitmaps(store: Path) -> list[bytes]:
    """The bitmaps of topic t's messages."""
    reader = ExtReader(store / paths.CONSUME_QUEUE_EXT, 65536)
    units = [reader.unit(QueueKey(b"t", 0), entry.tags_code) for entry in stores.entries(store, "t")[1]]
    return [unit.bitmap for unit in units if unit is not None]


# --- MessageStoreWithFilterTest --------------------------------------------------------------------


@pytest.mark.behaviour("MessageStoreWithFilterTest.testGetMessage_withFilterBitMap")
def test_get_message_with_filter_bit_map(tmp_path: Path) -> None:
    """Of each group exactly the messages that match come."""
    register(tmp_path / "store", 1000, **GROUPS)
    with filled(tmp_path / "store") as store:
        for n, (group, sql) in enumerate(GROUPS.items()):
            got = store.get_message("t", 0, 0, 100, reput.SqlFilter(sql, group=group))
            assert [message.queue_offset for message in got] == list(range(10 * n + 1, 100))


@pytest.mark.behaviour("MessageStoreWithFilterTest.testGetMessage_withFilterBitMapAndConsumerChanged")
def test_get_message_with_filter_bit_map_and_consumer_changed(tmp_path: Path) -> None:
    """Bitmaps of messages that were stored before the filter was born are not asked: what matches it comes."""
    register(tmp_path / "store", 1000, group="a > 95")
    with filled(tmp_path / "store") as store:
        store.close()
    (tmp_path / "store" / paths.CONFIG / "consumerFilter.json").unlink()
    register(tmp_path / "store", LATE_MS, group="a > 5")
    with reput.MessageStore.open(tmp_path / "store", CONFIG, read_only=True) as store:
        got = store.get_message("t", 0, 0, 100, reput.SqlFilter("a > 5", group="group"))
        assert [message.queue_offset for message in got] == list(range(6, 100))


@pytest.mark.behaviour("MessageStoreWithFilterTest.testGetMessage_withFilter_checkTagsCode")
def test_get_message_with_filter_check_tags_code(tmp_path: Path) -> None:
    """With ext and bitmaps a subscription to tags gets its messages: their units have the tags codes."""
    register(tmp_path / "store", 1000, **GROUPS)
    with filled(tmp_path / "store") as store:
        got = store.get_message("t", 0, 0, 100, "even")
        assert [message.queue_offset for message in got] == list(range(0, 100, 2))


# --- CommitLogDispatcherCalcBitMapTest -------------------------------------------------------------


@pytest.mark.behaviour("CommitLogDispatcherCalcBitMapTest.testDispatch_filterDataIllegal")
def test_dispatch_filter_data_illegal() -> None:
    """A filter that cannot be asked counts as one that matches, so no pull misses a message; RocketMQ sets no bit."""
    columns = raw([{"a": str(n)} for n in range(20)])
    positions = BLOOM.positions(filter_key("group", "t"))
    rows = bitmaps_of([FilterBits.of("a >", positions)], columns, 14)
    assert [row.tobytes() for row in rows] == [BLOOM.bitmap([positions])] * 20


@pytest.mark.behaviour("CommitLogDispatcherCalcBitMapTest.testDispatch_blankFilterData")
def test_dispatch_blank_filter_data(tmp_path: Path) -> None:
    """Without a filter on the topic no message has a bitmap."""
    with filled(tmp_path / "store"):
        assert bitmaps(tmp_path / "store") == [b""] * 100


@pytest.mark.behaviour("CommitLogDispatcherCalcBitMapTest.testDispatch")
def test_dispatch(tmp_path: Path) -> None:
    """A message's bits are those of the groups whose filters match it, and no others."""
    register(tmp_path / "store", 1000, **GROUPS)
    with filled(tmp_path / "store"):
        expected = [
            BLOOM.bitmap([BLOOM.positions(filter_key(group, "t")) for n, group in enumerate(GROUPS) if a > 10 * n])
            for a in range(100)
        ]
        assert bitmaps(tmp_path / "store") == expected
        assert np.unpackbits(np.frombuffer(expected[99], dtype=np.uint8)).sum() <= 3 * len(GROUPS)


# --- ConsumerFilterManagerTest ---------------------------------------------------------------------


@pytest.mark.behaviour("ConsumerFilterManagerTest.testPersist")
def test_persist(tmp_path: Path) -> None:
    """A registry that was written is all there again, and dead, until its clients come back."""
    register(tmp_path / "store", 1000, **GROUPS)
    registry = FilterRegistry.load(tmp_path / "store" / paths.CONFIG, BLOOM, clock_ms=lambda: 2_000_000)
    assert {one.group: one.expression for one in registry.all()} == GROUPS
    assert all(is_dead(one) for one in registry.all())
    assert registry.register("t", "group-1", GROUPS["group-1"], 1)
    assert [one.group for one in registry.all() if not is_dead(one)] == ["group-1"]


# --- LmqConsumerOffsetManagerTest ------------------------------------------------------------------


@pytest.mark.behaviour("LmqConsumerOffsetManagerTest.testOffsetManage")
def test_offset_manage(tmp_path: Path) -> None:
    """A light queue's progress is what was committed, and -1 where nothing was."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        store.commit_offset("%LMQ%group", "%LMQ%topic", 0, 10)
        assert store.query_offset("%LMQ%group", "%LMQ%topic", 0) == 10
        assert store.query_offset("%LMQ%other", "%LMQ%topic", 0) == -1


@pytest.mark.behaviour("LmqConsumerOffsetManagerTest.testOffsetManage1")
@pytest.mark.parametrize("group", ["%LMQ%group", "group"])
def test_offset_manage1(group: str, tmp_path: Path) -> None:
    """Written and read again, two light queues and one other are as they were."""
    committed = {("%LMQ%1222", 0): 10, ("%LMQ%1333", 0): 20, ("orders", 3): 30}
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        for (topic, queue_id), offset in committed.items():
            store.commit_offset(group, topic, queue_id, offset)
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        for (topic, queue_id), offset in committed.items():
            assert store.query_offset(group, topic, queue_id) == offset
