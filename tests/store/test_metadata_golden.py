"""Topics, groups and committed offsets of the stores that a whole broker wrote, against what it answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.store.metadata.tables import Table
from support import golden
from support.metadata import metadata_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.golden

OWN_GROUPS = ("CID_ONS", "CID_RMQ_SYS_", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER")
"""The beginnings of names of groups that a broker makes at each start (`SubscriptionGroupManager.init`)."""
OWN_TOPICS = (
    "BenchmarkTest", "OFFSET_MOVED_EVENT", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "TBW102", "rmq_sys_",
)  # fmt: skip
"""The same of topics (`TopicConfigManager.init`), but for those with the names of broker and cluster."""


def answers(name: str, kind: str) -> list[dict[str, Any]]:
    """The broker's answers of one kind."""
    return [line for line in golden.answers(name) if kind in line]


def settings(name: str) -> StoreConfig:
    """The settings of the broker that wrote a store."""
    return StoreConfig.from_properties(answers(name, "config")[0]["config"])


@pytest.fixture(params=[False, True], ids=["by files", "by settings"])
def config(request: pytest.FixtureRequest, name: str) -> StoreConfig | None:
    """No settings, or the broker's."""
    return settings(name) if request.param else None


@pytest.mark.behaviour("ConsumerOffsetManagerV2Test.testCommitOffset_Standard")
@pytest.mark.parametrize("name", golden.STORES_55)
def test_offsets(name: str, config: StoreConfig | None) -> None:
    """Every committed offset that the broker answered, and no other but those of its own groups."""
    found = metadata_of(golden.shared(name), config).read(Table.OFFSETS)
    wanted: dict[str, dict[int, int]] = {}
    for line in answers(name, "offset"):
        group, topic, queue_id = line["offset"]
        wanted.setdefault(f"{topic}@{group}", {})[queue_id] = line["at"]
    own = {key for key in found.values if key.split("@")[1].startswith(OWN_GROUPS)}
    assert wanted
    assert {key: queues for key, queues in found.values.items() if key not in own} == wanted
    assert not found.notes


@pytest.mark.behaviour(
    "RocksDBTopicConfigManagerTest.testDecodeTopicConfig", "TopicConfigManagerV2Test.testUpdateTopicConfig"
)
@pytest.mark.parametrize("name", golden.STORES_55)
def test_topics(name: str, config: StoreConfig | None) -> None:
    """Each topic's queues, permission and type; what a database lacks the broker makes at its start."""
    metadata = metadata_of(golden.shared(name), config)
    found = metadata.read(Table.TOPICS)
    known = {line["topic"]: line for line in answers(name, "topic")}
    for topic, values in found.values.items():
        found_values = {
            "topic": values["topicName"],
            "read": values["readQueueNums"],
            "write": values["writeQueueNums"],
            "perm": values["perm"],
            "type": values["attributes"].get("message.type", "NORMAL"),
        }
        assert found_values == known.pop(topic)
    broker = {topic.removesuffix("_REPLY_TOPIC") for topic in known if topic.endswith("_REPLY_TOPIC")}
    missing = {topic for topic in known if not topic.startswith(OWN_TOPICS)}
    assert missing <= {*broker, *(f"{name}_REPLY_TOPIC" for name in broker)}
    if not metadata.source(Table.TOPICS).is_database:
        assert not known


@pytest.mark.behaviour(
    "RocksDBSubscriptionGroupManagerTest.testDecodeSubscriptionGroup",
    "SubscriptionGroupManagerV2Test.testUpdateSubscriptionGroupConfig",
)
@pytest.mark.parametrize("name", golden.STORES_55)
def test_groups(name: str, config: StoreConfig | None) -> None:
    """Each group; what a database lacks the broker makes at its start."""
    metadata = metadata_of(golden.shared(name), config)
    found = metadata.read(Table.GROUPS)
    known = {line["group"] for line in answers(name, "group")}
    assert found.values.keys() <= known
    assert all(values["groupName"] == group for group, values in found.values.items())
    missing = known - found.values.keys()
    assert all(group.startswith(OWN_GROUPS) for group in missing)
    if metadata.chosen.has_every_topic:
        assert not missing


@pytest.mark.parametrize("name", golden.STORES_55)
def test_an_open_store_answers_like_the_broker(name: str) -> None:
    """The embedded store asks the source that counts, and changes nothing in the store's folder."""
    store = golden.shared(name)
    before = snapshot(store)
    with reput.MessageStore.open(store, settings(name), read_only=True) as opened:
        for line in answers(name, "offset"):
            assert opened.query_offset(*line["offset"]) == line["at"]
    assert snapshot(store) == before


def snapshot(store: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file of the store's configuration."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted((store / "config").rglob("*"))}
