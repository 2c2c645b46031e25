"""Message stores of small files, filled and read as their users do.

with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
    placed = put(store, 20, keys="k")
    assert len(bodies(store)) == 20
"""

from __future__ import annotations

from pathlib import Path

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES, PullLimits
from support import golden

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
BROKER_LIMITS = PullLimits(BROKER_PULL_MESSAGES, BROKER_PULL_BYTES)
"""Pulls return as much as those of RocketMQ's broker."""


def put(store: reput.MessageStore, count: int, topic: str = "t", queue_id: int = 0, **values: object) -> list[int]:
    """Put messages whose bodies are their numbers; returns their places in the log."""
    placed = []
    for number in range(count):
        result = store.put_message(reput.Message(topic, str(number).encode(), **values), queue_id)  # type: ignore[arg-type]
        assert result.status is reput.PutStatus.PUT_OK, result.reason
        placed.append(result.physical_offset)
    return placed


def bodies(store: reput.MessageStore, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    """Return the bodies of all messages of a queue."""
    return [message.body for message in pulled(store, topic, queue_id)]


def pulled(store: reput.MessageStore, topic: str = "t", queue_id: int = 0) -> list[reput.StoredMessage]:
    """Pull all messages of a queue as a consumer does: a pull ends with the queue's file."""
    found, offset = [], store.min_offset(topic, queue_id)
    while True:
        result = store.get_message(topic, queue_id, offset)
        found += result.messages
        if result.next_offset == offset:
            return found
        offset = result.next_offset


def assert_keys_found(store: reput.MessageStore, name: str) -> None:
    """Every question by key of the golden store `name` is answered as RocketMQ answered it."""
    for line in golden.answers(name):
        if "key" in line:
            found = store.query_message(*line["key"])
            assert [message.physical_offset for message in found] == line["phys"]


def forget_known_good(store: Path) -> None:
    """Remove the files that say how much of a closed store's log was good once, as if it had never been synced."""
    for name in (own.WATERMARKS_NAME, own.FRONTIER_NAME, own.GIVEN_OFFSETS_NAME):
        (store / paths.REPUT / name).unlink(missing_ok=name == own.GIVEN_OFFSETS_NAME)
    (store / paths.CHECKPOINT).unlink()
