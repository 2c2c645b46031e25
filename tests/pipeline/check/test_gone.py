"""check: queues that a broker deleted on purpose are a note, and queues that are lost are damage."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import fs
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.config import StoreConfig
    from reput.pipeline.check.report import Finding

DELETED = ("queue-of-deleted-topic", "note")
LOST = ("queue-missing", "damage")


def topics_and_offsets(
    store: Path, topics: Sequence[str], changed_ms: int, offsets: dict[str, dict[int, int]], batches: str = ""
) -> None:
    """Write the topics of a broker, with the time at which they were changed last, and its committed offsets.

    `batches`: a topic of batches among them.
    """
    config = store / "config"
    config.mkdir(exist_ok=True)
    types = {batches: {"queue.type": "BatchCQ"}}
    version = {"counter": 9, "stateVersion": 0, "timestamp": changed_ms}
    table = {topic: {"topicName": topic, "attributes": types.get(topic, {})} for topic in topics}
    (config / "topics.json").write_text(json.dumps({"dataVersion": version, "topicConfigTable": table}))
    (config / "consumerOffset.json").write_text(json.dumps({"dataVersion": version, "offsetTable": offsets}))


def findings(store: Path, config: StoreConfig) -> list[Finding]:
    """The findings of a check about queues that are not there."""
    found = reput.check(store, spark=False, config=config).findings
    return [one for one in found if one.rule in {DELETED[0], LOST[0]}]


def sorts(store: Path) -> list[tuple[str, str]]:
    """The rules and severities of these findings."""
    return [(one.rule, one.severity) for one in findings(store, stores.SMALL)]


@pytest.mark.golden
def test_the_queues_of_a_deleted_topic_are_a_note(tmp_path: Path) -> None:
    """RocketMQ removes a deleted topic's queues at once and its messages when they expire: that is no damage."""
    store = golden.unpack("basic", tmp_path)
    shutil.rmtree(store / "consumequeue" / "audit")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text('{"topicConfigTable":{"orders":{}}}')

    report = reput.check(store, spark=False, config=stores.GOLDEN)
    assert report.sound
    assert {finding.rule for finding in report.findings} == {"queue-of-deleted-topic"}
    assert any("audit" in note for note in reput.rebuild(store, spark=False, config=stores.GOLDEN).notes)


@pytest.mark.golden
@pytest.mark.parametrize(("name", "topic"), [("basic", "orders"), ("rocksdb", "orders"), ("batch", "batches")])
def test_a_topic_that_was_deleted_and_made_again_was_damage(name: str, topic: str, tmp_path: Path) -> None:
    """A topic without queues, changed after its messages, in which no group has an offset, was made again."""
    store = golden.unpack(name, tmp_path)
    times = reput.scan(store, topics=topic, columns=["storeTimestamp"]).read_all()["storeTimestamp"]
    last_ms = max(time.timestamp() * 1000 for time in times.to_pylist())
    on_disk = StoreOnDisk.find(store, stores.GOLDEN, Purpose.CHECK)
    owner, aside = fs.owner_of(store), tmp_path / "aside"
    gone = [key for kind in on_disk.kinds for key in kind.delete(topic.encode(), None, owner, aside)]
    batches = topic if name == "batch" else ""
    topics_and_offsets(store, ["audit", topic], int(last_ms) + 1, {"payments@billing": {0: 5}}, batches)

    found = findings(store, stores.GOLDEN)
    assert {one.detail.partition(":")[0] for one in found if topic in one.detail} == set(map(str, gone))
    assert {(one.rule, one.severity) for one in found} == {DELETED}
    topics_and_offsets(store, ["audit", topic], int(last_ms) - 60_000_000, {}, batches)
    assert LOST[0] in {one.rule for one in findings(store, stores.GOLDEN)}


class Store:
    """A store of two topics; the queues of `orders` are gone, and the topics were changed after the last message."""

    def __init__(self, folder: Path) -> None:
        self.log = LogBuilder()
        for number in range(12):
            self.log.message("orders", queue_id=number % 3)
            self.log.message("payments")
        self.changed_ms = self.log.placed[-1].record.store_timestamp + 1
        self.folder = folder

    def write(self, lost: Sequence[int] = (0, 1, 2)) -> Path:
        """Write the store; the queues `lost` of `orders` have no folder."""
        store = stores.with_log(self.folder, self.log)
        stores.rebuild(store)
        shutil.rmtree(store / "reput")
        for queue in lost:
            shutil.rmtree(store / "consumequeue" / "orders" / str(queue))
        topics_and_offsets(store, ["orders", "payments"], self.changed_ms, {"payments@billing": {0: 12}})
        return store


def test_new_messages_after_a_topic_was_made_again(tmp_path: Path) -> None:
    """The queues that have no new message are those of the topic that was deleted."""
    made = Store(tmp_path)
    made.log.message("orders", queue_id=1, queue_offset=0)
    assert sorts(made.write(lost=(0, 2))) == [DELETED, DELETED]


def test_a_queue_beside_older_ones_is_lost(tmp_path: Path) -> None:
    """A deletion takes all queues of a topic, so a queue is lost if another one has messages as old."""
    assert sorts(Store(tmp_path).write(lost=(1,))) == [LOST]


def test_a_queue_with_a_committed_offset_is_lost(tmp_path: Path) -> None:
    """A deletion takes the offsets of all groups, so a queue is lost if a group has one in it; 0 says nothing."""
    made = Store(tmp_path)
    store = made.write()
    offsets = {"payments@billing": {0: 12}, "orders@billing": {1: 3, 2: 0}}
    topics_and_offsets(store, ["orders", "payments"], made.changed_ms, offsets)
    assert sorted(sorts(store)) == sorted([LOST, DELETED, DELETED])


def test_a_queue_of_a_topic_that_was_not_changed_is_lost(tmp_path: Path) -> None:
    """A deletion dates the topics, so a queue is lost if they were changed last before its last message."""
    made = Store(tmp_path)
    store = made.write()
    topics_and_offsets(store, ["orders", "payments"], made.log.placed[0].record.store_timestamp, {})
    assert sorts(store) == [LOST]


def test_queues_without_any_committed_offsets_are_lost(tmp_path: Path) -> None:
    """A broker leaves a file of offsets, so a copy without one shows nothing."""
    made = Store(tmp_path)
    store = made.write()
    (store / "config" / "consumerOffset.json").unlink()
    assert sorts(store) == [LOST]
    (store / "config" / "consumerOffset.json").write_text("{")
    assert sorts(store) == [LOST]
