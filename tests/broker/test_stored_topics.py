"""Topics of a store that no broker has served: the broker makes them, with the type that their queues have."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.remoting import Client, bodies
from reput.formats.queue.queue_types import BATCH, QUEUE_TYPE
from reput.formats.topics.system_topics import SCHEDULE_TOPIC
from reput.formats.wire.codes import ResponseCode
from support import golden, stores
from support.checked import assert_sound, rules_of

if TYPE_CHECKING:
    from pathlib import Path


def configurations(store: Path) -> dict[str, Any]:
    """The topics as RocketMQ reads them."""
    topics: dict[str, Any] = json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    return topics


def offsets(store: Path) -> dict[tuple[str, int], int]:
    """The next offset of each queue."""
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        return {(queue.topic, queue.queue_id): queue.max_offset for queue in opened.queues()}


def without_queues(store: Path) -> None:
    """Leave the log alone."""
    for name in ("consumequeue", "batchconsumequeue", "index", "checkpoint"):
        path = store / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def wanted(store: Path) -> dict[str, tuple[int, dict[str, str]]]:
    """The number of queues and the attributes that each topic of a store without topics is to have."""
    counts: dict[str, int] = {}
    for topic, queue_id in offsets(store):
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    del counts[SCHEDULE_TOPIC]
    return {topic: (count, {QUEUE_TYPE: BATCH} if topic == "batches" else {}) for topic, count in counts.items()}


@pytest.mark.golden
@pytest.mark.parametrize("has_queues", [True, False])
@pytest.mark.parametrize("name", ["batch", "basic"])
def test_queues_without_topics_made_a_served_store_unservable(name: str, has_queues: bool, tmp_path: Path) -> None:
    """The first serve makes the topics as their queues are; the store stays sound, and the next serve answers, too."""
    store = golden.unpack(name, tmp_path)
    if not has_queues:
        without_queues(store)
    topics, before = wanted(store), offsets(store)
    sent = "batches" if name == "batch" else "orders"
    for number in range(2):
        with reput.serve(store, config=stores.GOLDEN) as running, Client(running.address) as client:
            assert client.put(sent, b"plain", 0).code == ResponseCode.SUCCESS
            assert bodies(client.pull(sent, 0, before[sent, 0] + number)) == [b"plain"]
        assert_sound(store, stores.GOLDEN)
        assert ("queue-of-deleted-topic", "note") not in rules_of(store, stores.GOLDEN)
        found = configurations(store)
        shown = {topic: (found[topic]["readQueueNums"], found[topic]["attributes"]) for topic in topics}
        assert shown == topics
    after = offsets(store)
    assert {queue: end for queue, end in after.items() if queue in before} == before | {(sent, 0): before[sent, 0] + 2}


def test_a_topic_that_a_broker_has_deleted_stays_so(tmp_path: Path) -> None:
    """Queues of a topic that is not among a broker's topics make no topic."""
    store = tmp_path / "store"
    with reput.serve(store, topics={"orders": 2}) as running, Client(running.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
    path = store / "config" / "topics.json"
    document = json.loads(path.read_text())
    del document["topicConfigTable"]["orders"]
    path.write_text(json.dumps(document))
    with reput.serve(store):
        pass
    assert "orders" not in configurations(store)
