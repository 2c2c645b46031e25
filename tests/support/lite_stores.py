"""Stores with light queues and lite topics that reput writes.

store = make(path, config)              two topics, light queues of both, and lite topics of `sessions` and `forever`
put_more(store, config)                 as many messages again
answers(store)                          every queue with the log offsets of its messages
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.topics.lite_topics import EXPIRATION, LITE, LITE_TOPIC, MESSAGE_TYPE, light_queue_of

if TYPE_CHECKING:
    from pathlib import Path

USERS = ("user-1", "user-2", "会话")
EXPIRATION_MINUTES = 60
LITE_TOPICS = {"sessions": EXPIRATION_MINUTES, "forever": -1}
"""The topics of type LITE, and the time after which their lite topics expire."""
PLAIN_LIGHT = "%LMQ%mqtt"
LITE_QUEUES = (
    *(light_queue_of(b"sessions", user.encode()) for user in USERS),
    light_queue_of(b"forever", USERS[0].encode()),
)
LIGHT = (PLAIN_LIGHT.encode(), *LITE_QUEUES)
MESSAGES = 60
_DAY_NS = 86_400 * 10**9
_WRITES = ("enableLmq=true", "enableMultiDispatch=true")


def make(path: Path, config: StoreConfig | None = None, *, days_ago: int = 0) -> Path:
    """Write a store whose messages were stored some days ago."""
    topics = {"orders": {"topicName": "orders"}}
    for topic, minutes in LITE_TOPICS.items():
        topics[topic] = {"topicName": topic, "attributes": {MESSAGE_TYPE: LITE, EXPIRATION: str(minutes)}}  # type: ignore[dict-item]
    (path / paths.CONFIG).mkdir(parents=True)
    (path / paths.COMMIT_LOG).mkdir()
    (path / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    put_more(path, config, days_ago=days_ago)
    return path


def put_more(store: Path, config: StoreConfig | None = None, *, days_ago: int = 0) -> None:
    """Put messages into each topic, and build the indexes."""
    given = (config or StoreConfig()).updated(_WRITES)
    with (
        mock.patch("reput.log.append.append._time_ns", partial(_earlier, days_ago)),
        reput.MessageStore.open(store, given) as opened,
    ):
        for number in range(MESSAGES):
            opened.put_message(message(number), queue_id=0)
        opened.reput(spark=False)


def _earlier(days: int) -> int:
    return time.time_ns() - days * _DAY_NS


def message(number: int) -> reput.Message:
    """A plain message, one that names a light queue, or one of a lite topic."""
    body = f"message {number}".encode()
    if number % 3 == 0:
        return reput.Message("orders", body, properties={"INNER_MULTI_DISPATCH": PLAIN_LIGHT} if number % 2 else None)
    parent, user = ("forever", USERS[0]) if number % 11 == 1 else ("sessions", USERS[number % len(USERS)])
    user = USERS[0] if number % 4 == 0 else user
    queue = light_queue_of(parent.encode(), user.encode()).decode()
    return reput.Message(parent, body, properties={LITE_TOPIC.decode(): user, "INNER_MULTI_DISPATCH": queue})


def answers(store: Path, config: StoreConfig | None = None) -> dict[tuple[str, int], list[int]]:
    """The log offsets of the messages of each queue."""
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        return {
            (queue.topic, queue.queue_id): opened.get_message(
                queue.topic, queue.queue_id, queue.min_offset, 1000
            ).physical_offsets.tolist()
            for topic in opened.topics()
            for queue in opened.queues(topic)
        }
