"""A store under thousands of random operations, beside a model that is a few lists of Python.

A failing run names its seed: `test_model[SEED-...]` repeats it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.kernels import SWITCH, kernels
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=32,
    max_index_num=40,
    file_reserved_time=0,
    delete_when="",
    # However full the machine's disk is, only the model deletes.
    disk_max_used_space_ratio=95,
    disk_space_clean_forcibly_ratio=85,
    clean_file_forcibly_enable=False,
    clean_resource_interval=1 << 30,
)
TOPICS = ("a", "b", "订单")
KEYS = ("k1", "k2", "Aa", "BB")
TAGS = (None, "paid", "sent")


class Model:
    """What the store must hold: bodies, tags and places by queue and by key, committed offsets.

    `first` is each queue's first offset that is still there.
    """

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], list[tuple[bytes, str | None, int]]] = defaultdict(list)
        self.keys: dict[tuple[str, str], list[tuple[bytes, int]]] = defaultdict(list)
        self.first: dict[tuple[str, int], int] = defaultdict(int)
        self.progress: dict[tuple[str, str, int], int] = {}
        self.number = 0

    def message(self, rng: random.Random) -> tuple[reput.Message, int]:
        """A random message with a body of its own."""
        self.number += 1
        body = b"%d " % self.number + bytes(rng.choice((0, 10, 700)))
        keys = rng.sample(KEYS, rng.randrange(3))
        message = reput.Message(rng.choice(TOPICS), body, tags=rng.choice(TAGS), keys=keys or None)
        return message, rng.randrange(2)

    def take(self, message: reput.Message, queue_id: int, place: int) -> None:
        """The message was stored at this log offset."""
        self.queues[message.topic, queue_id].append((message.body, message.tags, place))
        for key in message.keys or ():
            self.keys[message.topic, key].append((message.body, place))

    def forget(self, log_min_offset: int) -> None:
        """The log begins there now."""
        for queue, held in self.queues.items():
            self.first[queue] = sum(place < log_min_offset for _, _, place in held)
        for key, found in self.keys.items():
            self.keys[key] = [(body, place) for body, place in found if place >= log_min_offset]


class Run:
    """The store and its model, and the operations on both."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path = path
        self.rng = rng
        self.model = Model()
        self.store = reput.MessageStore.open(path, CONFIG)

    def put(self) -> None:
        """One message."""
        message, queue_id = self.model.message(self.rng)
        result = self.store.put_message(message, queue_id)
        assert result.status is reput.PutStatus.PUT_OK, result
        assert result.queue_offset == len(self.model.queues[message.topic, queue_id])
        self.model.take(message, queue_id, result.physical_offset)

    def put_many(self) -> None:
        """A batch."""
        batch = [self.model.message(self.rng) for _ in range(self.rng.randrange(1, 12))]
        result = self.store.put_messages([message for message, _ in batch], [queue for _, queue in batch])
        assert result.status is reput.PutStatus.PUT_OK, result
        for (message, queue_id), place in zip(batch, result.physical_offsets.tolist(), strict=True):
            self.model.take(message, queue_id, place)

    def get(self) -> None:
        """A pull from anywhere in a queue."""
        if not self.model.queues:
            return
        (topic, queue_id), held = self.rng.choice(list(self.model.queues.items()))
        first = self.model.first[topic, queue_id]
        offset, most = self.rng.randrange(first, len(held) + 2), self.rng.choice((1, 3, 32, 100))
        tag = self.rng.choice((None, "paid", "paid || sent"))
        result = self.store.get_message(topic, queue_id, offset, most, tag)
        wanted = [
            body
            for body, tags, _ in held[offset : max(result.next_offset, offset)]
            if tag is None or tags in tag.split(" || ")
        ]
        assert [message.body for message in result] == wanted
        if offset < len(held):
            assert result.next_offset > offset
            assert (len(result) > 0) == (result.status is reput.GetStatus.FOUND)

    def query(self) -> None:
        """All messages of a key."""
        topic, key = self.rng.choice(TOPICS), self.rng.choice(KEYS)
        found = self.store.query_message(topic, key, 10_000)
        assert [message.body for message in found] == [body for body, _ in self.model.keys[topic, key]]

    def commit(self) -> None:
        """A group's offset."""
        place = self.rng.choice(("g1", "g2")), self.rng.choice(TOPICS), self.rng.randrange(2)
        self.model.progress[place] = self.rng.randrange(1000)
        self.store.commit_offset(*place, self.model.progress[place])

    def reput(self) -> None:
        """Catch the durable indexes up."""
        self.store.reput(spark=False)

    def delete(self) -> None:
        """Delete log files that are indexed; what they held is gone, the queues' numbers go on."""
        if self.store.delete_expired(manual=True):
            self.model.forget(self.store.view.log.min_offset)

    def reopen(self) -> None:
        """Close, with or without a catch-up, and open again."""
        self.store.close(reput=self.rng.random() < 0.5)
        self.open()

    def open(self) -> None:
        """Open the store, whose committed offsets must be the model's."""
        self.store = reput.MessageStore.open(self.path, CONFIG)
        for place, offset in self.model.progress.items():
            assert self.store.query_offset(*place) == offset

    def kill(self) -> None:
        """Let another process put messages and die, then open again."""
        self.store.close(reput=self.rng.random() < 0.5)
        batch = [self.model.message(self.rng) for _ in range(self.rng.randrange(1, 20))]
        at = self.rng.randrange(len(batch) + 1)
        process = multiprocessing.get_context("fork").Process(target=_put_and_die, args=(self.path, batch, at))
        process.start()
        process.join()
        assert process.exitcode == 9
        self.open()
        for message, queue_id in batch:
            number = len(self.model.queues[message.topic, queue_id])
            found = self.store.get_message(message.topic, queue_id, number, 1)
            assert [one.body for one in found] == [message.body]
            self.model.take(message, queue_id, int(found.physical_offsets[0]))

    def verify(self) -> None:
        """Every queue and key, whole."""
        for (topic, queue_id), held in self.model.queues.items():
            first = self.model.first[topic, queue_id]
            found, offset = [], first
            while (result := self.store.get_message(topic, queue_id, offset)).next_offset > offset:
                found += [message.body for message in result]
                offset = result.next_offset
            assert found == [body for body, _, _ in held[first:]]
        assert {(topic, queue_id): end for topic, queue_id, _, end in self.store.queues()} == {
            queue: len(held) for queue, held in self.model.queues.items() if held
        }


def _put_and_die(path: Path, batch: list[tuple[reput.Message, int]], reput_at: int) -> None:
    store = reput.MessageStore.open(path, CONFIG)
    for number, (message, queue_id) in enumerate(batch):
        if number == reput_at:
            store.reput(spark=False)
        store.put_message(message, queue_id)
    os._exit(9)


WEIGHTS = {
    "put": 40,
    "put_many": 8,
    "get": 30,
    "query": 8,
    "commit": 4,
    "reput": 3,
    "delete": 1,
    "reopen": 1,
    "kill": 1,
}


@pytest.mark.parametrize(("kind", "steps"), [("compiled", 1500), ("reference", 300)])
@pytest.mark.parametrize("seed", range(4))
def test_model(seed: int, kind: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done in whatever order, the store answers as the model does, and its indexes are sound."""
    monkeypatch.setenv(SWITCH, kind)
    kernels.cache_clear()
    rng = random.Random(seed)
    run = Run(tmp_path / "store", rng)
    operations: dict[str, Callable[[], None]] = {name: getattr(run, name) for name in WEIGHTS}
    for step in range(steps):
        operations[rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]()
        if step % 100 == 99:
            run.verify()
            run.store.close()
            assert_sound(run.path, CONFIG)
            run.open()
    run.verify()
    run.store.close()
    assert_sound(run.path, CONFIG)
    kernels.cache_clear()
