"""RocketMQ's own tests of offsets in RocksDB (broker module): one of ours for each, on stores that a broker wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from store.test_metadata_golden import settings
from support import golden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.golden

LIGHT_GROUP, LIGHT = "%LMQ%group", "%LMQ%parent"
STORES = ("config-v1", "config-v1-single", "config-v2")


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], reput.MessageStore]:
    """A function that opens a store whose offsets are in RocksDB, to write."""
    path, config = golden.unpack(request.param, tmp_path), settings(request.param)
    return lambda: reput.MessageStore.open(path, config, create=True)


@pytest.mark.behaviour(
    "ConsumerOffsetManagerV2Test.testCommitOffset_Standard",
    "ConsumerOffsetManagerV2Test.testCommitOffset_LMQ",
    "RocksDBConsumerOffsetManagerTest.testOffsetPersistInMemory",
    "RocksDBLmqConsumerOffsetManagerTest.testQueryOffsetForNonLmq",
    "RocksDBLmqConsumerOffsetManagerTest.testQueryOffsetForLmqGroupWithExistingOffset",
    "RocksDBLmqConsumerOffsetManagerTest.testQueryOffsetForLmqGroupWithoutExistingOffset",
    "RocksDBLmqConsumerOffsetManagerTest.testQueryOffsetForNonLmqGroup",
    "RocksDBLmqConsumerOffsetManagerTest.testCommitOffsetForLmq",
)
def test_commit_offset(opened: Callable[[], reput.MessageStore]) -> None:
    """Offsets of plain and of light groups are there after a restart; what nobody committed is -1."""
    committed = {("group", "orders", 0): 100, ("group", "orders", 3): 200, (LIGHT_GROUP, LIGHT, 0): 7}
    with opened() as store:
        for key, offset in committed.items():
            assert store.commit_offset(*key, offset)
    with opened() as store:
        assert {key: store.query_offset(*key) for key in committed} == committed
        assert store.query_offset("group", "orders", 1) == store.query_offset("%LMQ%other", LIGHT, 0) == -1


@pytest.mark.behaviour(
    "ConsumerOffsetManagerV2Test.testRemoveByTopicAtGroup",
    "ConsumerOffsetManagerV2Test.testRemoveByGroup",
    "RocksDBConsumerOffsetManagerTest.cleanOffsetByTopic_Exist",
    "RocksDBConsumerOffsetManagerTest.cleanOffsetByTopic_NotExist",
)
@pytest.mark.parametrize(
    ("cleaned", "gone"),
    [
        ({"group": "one", "topic": "a"}, {("one", "a")}),
        ({"group": "one"}, {("one", "a"), ("one", "b")}),
        ({"topic": "a"}, {("one", "a"), ("two", "a")}),
        ({"topic": "c"}, set()),
    ],
)
def test_clean_offsets(
    cleaned: dict[str, str], gone: set[tuple[str, str]], opened: Callable[[], reput.MessageStore]
) -> None:
    """A group in one topic, a group, or a topic is forgotten for good, and nothing else; an unknown one is no error."""
    every = {(group, topic) for group in ("one", "two") for topic in ("a", "b")}
    with opened() as store:
        for group, topic in every:
            store.commit_offset(group, topic, 0, 5)
    with opened() as store:
        assert store.clean_offsets(**cleaned) == len(gone)
    with opened() as store:
        assert {key for key in every if store.query_offset(*key, 0) == -1} == gone
