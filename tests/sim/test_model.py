"""A store under hundreds of random operations, beside a model that is a few lists of Python.

A failing run names its seed: `test_model[flush-kernels-SEED]` repeats it. `REPUT_MODEL_SEED` adds to all seeds.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import random
import shutil
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput import kernels
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.own import files as own
from reput.kernels import SWITCH
from support import stores
from support.checked import assert_sound
from support.model import GROUPS, KEYS, QUEUES, TOPICS, Held, Model, as_columns
from support.search import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HISTORY = logging.getLogger("model")
"""The text with a failing run: its seed, and what it did."""
NEVER = 1 << 30
PAGE = 512
PATIENCE_S = 60
ASYNC = StoreConfig(
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
    clean_resource_interval=NEVER,
)
CONFIGS = {
    "async": ASYNC,
    "sync": replace(ASYNC, flush_disk_type="SYNC_FLUSH", enabled_append_prop_crc=True, force_verify_prop_crc=True),
    # Only the model writes the buffer out, so it knows what is readable.
    "buffered": replace(
        ASYNC,
        transient_store_pool_enable=True,
        commit_interval_commit_log=NEVER,
        flush_interval_commit_log=NEVER,
    ),
}


class Run:
    """The store and its model, and the operations on both."""

    def __init__(self, path: Path, config: StoreConfig, rng: random.Random, clock: list[int]) -> None:
        self.path = path
        self.config = config
        self.rng = rng
        self.clock = clock
        self.model = Model(rng)
        self.store = reput.MessageStore.open(path, config, create=True)

    @property
    def visible(self) -> int:
        """The log offset below which a message is readable: all that was put, unless it waits in a write buffer."""
        end = self.store.view.confirmed()
        if self.config.transient_store_pool_enable is None:
            assert not self.model.log or self.model.log[-1].place < end
        return end

    # --- writing -------------------------------------------------------------------------------

    def put(self) -> None:
        """One message."""
        message, queue_id = self.model.message()
        if self.rng.random() < 0.2:
            result = self.store.put_message_async(message, queue_id).result(PATIENCE_S)
        else:
            result = self.store.put_message(message, queue_id)
        assert result.status is reput.PutStatus.PUT_OK, result
        assert result.queue_offset == self.model.next_number(message, queue_id)
        self.take([(message, queue_id)], [result.physical_offset], result.store_timestamp)

    def take(self, batch: list[tuple[reput.Message, int]], places: list[int], time: int) -> None:
        """Add messages to the model. Their time is the clock's, or the last one after the clock went back."""
        assert time == max(self.clock[0], self.model.last_time)
        for (message, queue_id), place in zip(batch, places, strict=True):
            self.model.take(message, queue_id, place, time)
        self.clock[0] += self.rng.choice((0, 0, 1, 700))

    def put_many(self) -> None:
        """A batch of messages."""
        batch = self.model.batch(12)
        result = self.store.put_messages([message for message, _ in batch], [queue for _, queue in batch])
        self._took(batch, result)

    def put_columns(self) -> None:
        """A batch as Arrow columns."""
        batch = self.model.batch(20)
        self._took(batch, self.store.put_messages(as_columns(batch, self.rng)))

    def _took(self, batch: list[tuple[reput.Message, int]], result: reput.PutManyResult) -> None:
        assert result.status is reput.PutStatus.PUT_OK, result
        given: Counter[tuple[str, int]] = Counter()
        for (message, queue_id), number in zip(batch, result.queue_offsets.tolist(), strict=True):
            assert number == self.model.next_number(message, queue_id) + given[message.topic, queue_id]
            given[message.topic, queue_id] += 1
        self.take(batch, result.physical_offsets.tolist(), result.store_timestamp)

    def refused(self) -> None:
        """A batch with one message that cannot be stored: nothing of it is."""
        batch = self.model.batch(5)
        at = self.rng.randrange(len(batch))
        batch[at] = replace(batch[at][0], keys=["no key"]), batch[at][1]
        if self.rng.random() < 0.5:
            result = self.store.put_messages(as_columns(batch, self.rng))
        else:
            result = self.store.put_messages([message for message, _ in batch], [queue for _, queue in batch])
        assert result.status is reput.PutStatus.MESSAGE_ILLEGAL
        assert f"message {at}" in result.reason
        assert self.store.put_message(batch[at][0]).status is reput.PutStatus.MESSAGE_ILLEGAL

    def step_clock(self) -> None:
        """Somebody sets the clock, forward or back, by a little or by a lot."""
        self.clock[0] += self.rng.choice((-1, 1)) * self.rng.choice((1, 999, 60_000, 86_400_000))

    def flush(self) -> None:
        """Make all durable; it is then readable, too."""
        end = self.store.flush()
        assert not self.model.log or self.model.log[-1].place < end == self.visible

    def reput(self) -> None:
        """Catch the durable indexes up."""
        self.store.reput(spark=False)

    def delete(self) -> None:
        """Delete log files that are indexed; what they held is gone, the queues' numbers go on."""
        if self.store.delete_expired(manual=True):
            self.model.forget(self.store.view.log.min_offset)

    # --- reading -------------------------------------------------------------------------------

    def any_queue(self) -> tuple[str, int, list[Held], int]:
        """A queue, what is readable of it (expired messages too), and its first offset that is still there."""
        topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(QUEUES)
        held = self.model.queue(topic, queue_id, self.visible)
        return topic, queue_id, held, self.model.first[topic, queue_id]

    def get(self) -> None:
        """A pull from anywhere in a queue."""
        topic, queue_id, held, first = self.any_queue()
        offset, most = self.rng.randrange(first, len(held) + 2), self.rng.choice((1, 3, 32, 100))
        tag = self.rng.choice((None, "paid", "paid || sent"))
        result = self.store.get_message(topic, queue_id, offset, most, tag)
        wanted = [
            one.message.body
            for one in held[offset : max(result.next_offset, offset)]
            if tag is None or one.message.tags in tag.split(" || ")
        ]
        assert [message.body for message in result] == wanted
        assert len(wanted) <= most
        if offset < len(held):
            assert result.next_offset > offset
            assert (len(result) > 0) == (result.status is reput.GetStatus.FOUND)

    def by_time(self) -> None:
        """The offset for a time: around the times of the queue's messages, or far from them."""
        topic, queue_id, held, first = self.any_queue()
        near = self.rng.choice(held).time if held else self.clock[0]
        time = near + self.rng.choice((-86_400_000, -1, 0, 0, 1, 86_400_000))
        lower = next((n for n in range(first, len(held)) if held[n].time >= time), len(held))
        upper = next((n for n in range(len(held) - 1, first - 1, -1) if held[n].time <= time), first)
        if not held:
            lower = upper = 0
        assert self.store.offset_by_time(topic, queue_id, time) == lower
        assert self.store.offset_by_time(topic, queue_id, time, "upper") == upper

    def query(self) -> None:
        """The messages of a key: all, or the newest of those stored in a span of time."""
        topic, key, below = self.rng.choice(TOPICS), self.rng.choice(KEYS), self.visible
        if self.rng.random() < 0.3 and self.model.log:
            picked = self.rng.choice(self.model.log)
            topic, key = picked.message.topic, self.rng.choice([*picked.keys, key])
        held = self.model.with_key(topic, key, below)
        assert self._bodies(self.store.query_message(topic, key, 10_000)) == [one.message.body for one in held]
        begin, end = sorted(self.rng.choice([0, self.clock[0], *(one.time for one in held)]) for _ in range(2))
        most = self.rng.choice((1, 2, 64))
        inside = [one for one in held if begin <= one.time <= end]
        result = self.store.query_message(topic, key, most, begin, end)
        assert self._bodies(result) == [one.message.body for one in inside[-most:]]
        assert result.more == (len(inside) > most)

    def estimate(self) -> None:
        """Compare the number of messages of a range that match."""
        topic, queue_id, held, first = self.any_queue()
        begin, end = sorted(self.rng.randrange(len(held) + 2) for _ in range(2))
        tag = self.rng.choice([None, "paid"])
        matching = [one for one in held[max(begin, first) : end] if tag is None or one.message.tags == tag]
        assert self.store.estimate(topic, queue_id, begin, end, tag) == len(matching)

    def message_at(self) -> None:
        """A message by its place in the log; inside it there is none."""
        if self.model.log:
            held = self.rng.choice(self.model.log)
            found = self.store.message_at(held.place)
            assert (found is not None) == (held.place < self.visible)
            assert found is None or found.body == held.message.body
            assert self.store.message_at(held.place + 1) is None

    def beside(self) -> None:
        """A reader that opens the store beside its writer sees the same."""
        with reput.MessageStore.open(self.path, self.config, read_only=True) as reader:
            self.verify(reader)

    def image(self) -> None:
        """Open a copy of the open store's files, as after a crash: it has every message."""
        work = self.path.with_name("image")
        stores.copy(self.path, work)
        with reput.MessageStore.open(work, self.config, create=True) as other:
            self.verify(other)
        assert_sound(work, self.config)
        shutil.rmtree(work)

    @staticmethod
    def _bodies(messages: object) -> list[bytes]:
        return [message.body for message in messages]  # type: ignore[attr-defined]

    # --- consumer progress -----------------------------------------------------------------------

    def commit(self) -> None:
        """A group's offset, which a reset that waits keeps out."""
        place, offset = self._any_place(), self.rng.randrange(1000)
        assert self.store.commit_offset(*place, offset) == self.model.commit(*place, offset)

    def reset(self) -> None:
        """A group is sent somewhere, or takes the reset that waits."""
        place, offset = self._any_place(), self.rng.randrange(1000)
        if self.rng.random() < 0.5:
            self.store.reset_offset(*place, offset)
            self.model.reset(*place, offset)
        else:
            assert self.store.take_reset(*place) == self.model.resets.pop(place, None)

    def clone(self) -> None:
        """A group takes over another's offsets."""
        names = self.rng.choice(GROUPS), self.rng.choice(GROUPS), self.rng.choice(TOPICS)
        assert self.store.clone_offsets(*names) == self.model.clone(*names)

    def clean(self) -> None:
        """A group, a topic or one group in one topic is forgotten."""
        group, topic = self.rng.choice(
            [(self.rng.choice(GROUPS), None), (None, self.rng.choice(TOPICS)), self._any_place()[:2]]
        )
        assert self.store.clean_offsets(group=group, topic=topic) == self.model.clean(group, topic)

    def _any_place(self) -> tuple[str, str, int]:
        return self.rng.choice(GROUPS), self.rng.choice(TOPICS), self.rng.randrange(QUEUES)

    # --- open and close ----------------------------------------------------------------------------

    def reopen(self) -> None:
        """Close, with or without a catch-up, and open again."""
        self.store.close(reput=self.rng.random() < 0.5)
        self.open()

    def open(self) -> None:
        """Open the store; resets that nobody took are gone."""
        self.store = reput.MessageStore.open(self.path, self.config, create=True)
        self.model.resets.clear()

    def kill(self) -> None:
        """Let another process put messages and die, then open again: what was flushed or committed is there."""
        self.store.close(reput=self.rng.random() < 0.5)
        batch = self.model.batch(20, in_batch=False)
        actions = [self.rng.choice(("put", "put", "put", "flush", "reput")) for _ in batch]
        process = multiprocessing.get_context("fork").Process(
            target=_put_and_die, args=(self.path, self.config, batch, actions, self.clock[0])
        )
        process.start()
        process.join()
        assert process.exitcode == 9
        durable = self._power_fails() if self.rng.random() < 0.5 else -1
        self.open()
        self._find(batch, durable)

    def _power_fails(self) -> int:
        """Lose some of the pages of the log that were not flushed; returns the log offset up to which all were."""
        if self.rng.random() < 0.5:
            self._queues_run_ahead()
        marks = (self.path / paths.REPUT / own.WATERMARKS_NAME).read_bytes()
        flushed = int(struct.unpack_from("=q", marks, own.WATERMARKS.offsets["flushed_offset"])[0])
        for path in sorted((self.path / paths.COMMIT_LOG).iterdir()):
            start, data = int(path.name), bytearray(path.read_bytes())
            for page in range(0, len(data), PAGE):
                begin, end = max(page, flushed - start), page + PAGE
                if begin < end and self.rng.random() < 0.3:
                    data[begin:end] = bytes(end - begin)
            path.write_bytes(data)
        return flushed

    def _queues_run_ahead(self) -> None:
        """Have some pages of queues on disk that speak of records which are not flushed, as a follower may."""
        ahead = self.path.with_name("ahead")
        stores.copy(self.path, ahead)
        with reput.MessageStore.open(ahead, self.config, create=True) as store:
            store.reput(spark=False)
        for page in sorted(file for file in (ahead / paths.CONSUME_QUEUE).rglob("*") if file.is_file()):
            target = self.path / page.relative_to(ahead)
            target.parent.mkdir(parents=True, exist_ok=True)
            if self.rng.random() < 0.7:
                shutil.copy(page, target)
            elif not target.exists():
                target.write_bytes(bytes(page.stat().st_size))
        shutil.rmtree(ahead)

    def _find(self, batch: list[tuple[reput.Message, int]], durable: int) -> None:
        """Find the messages that are there: the first ones, in their order, and all that were durable."""
        left = 0
        place = self.model.log[-1].place if self.model.log else self.model.log_min_offset - 1
        for message, queue_id in batch:
            place = next((at for at in range(place + 1, self.visible) if self.store.message_at(at)), -1)
            found = None if place < 0 else self.store.message_at(place)
            if found is None:
                break
            assert (found.topic, found.queue_id, found.body) == (message.topic, queue_id, message.body)
            assert found.queue_offset == self.model.next_number(message, queue_id)
            self.model.take(message, queue_id, place, found.store_timestamp)
            left += 1
        end = self.visible
        if durable >= 0:
            assert end >= durable
        elif not self.config.transient_store_pool_enable:
            assert left == len(batch)
        assert not any(self.store.message_at(at) for at in range(place + 1, end) if place >= 0)

    # --- everything ------------------------------------------------------------------------------

    def verify(self, store: reput.MessageStore | None = None) -> None:
        """Every queue, key and committed offset, whole."""
        store, below = store or self.store, self.visible
        spans = {}
        for topic, queue_id in itertools.product(TOPICS, range(QUEUES)):
            held, first = self.model.queue(topic, queue_id, below), self.model.first[topic, queue_id]
            if held:
                spans[topic, queue_id] = first, len(held)
            found, offset = [], first
            while (result := store.get_message(topic, queue_id, offset)).next_offset > offset:
                found += list(result)
                offset = result.next_offset
            assert [message.body for message in found] == [one.message.body for one in held[first:]]
            for message, one in zip(found, held[first:], strict=True):
                assert _as_put(message, one), (message, one)
        assert {(topic, queue_id): (first, end) for topic, queue_id, first, end in store.queues()} == spans
        for topic, key in itertools.product(TOPICS, KEYS):
            bodies = [one.message.body for one in self.model.with_key(topic, key, below)]
            assert self._bodies(store.query_message(topic, key, 10_000)) == bodies
        if store is self.store:
            for place in itertools.product(GROUPS, TOPICS, range(QUEUES)):
                assert store.query_offset(*place) == self.model.query(*place)

    def check(self, work: Path) -> None:
        """`check` calls what is on disk now sound, and a store that is opened on it holds all that is readable."""
        shutil.rmtree(work, ignore_errors=True)
        stores.copy(self.path, work)
        assert_sound(work, self.config)


def _as_put(message: reput.StoredMessage, held: Held) -> bool:
    put = held.message
    properties = dict(put.properties or {})
    return (
        message.physical_offset == held.place
        and message.store_timestamp == held.time
        and message.born_timestamp == (held.time if put.born_timestamp is None else put.born_timestamp)
        and message.tags == put.tags
        and message.unique_key == put.unique_key
        and sorted([*message.keys, *([put.unique_key] if put.unique_key else [])]) == sorted(held.keys)
        and message.flag == put.flag
        and all(message.properties.get(name) == value for name, value in properties.items())
    )


def _put_and_die(
    path: Path, config: StoreConfig, batch: list[tuple[reput.Message, int]], actions: list[str], now: int
) -> None:
    store = reput.MessageStore.open(path, config, create=True)
    for (message, queue_id), action in zip(batch, actions, strict=True):
        if action == "reput":
            store.reput(spark=False)
        elif action == "flush":
            store.flush()
        store.put_message(message, queue_id)
    os._exit(9)


WEIGHTS = {
    "put": 40,
    "put_many": 6,
    "put_columns": 6,
    "refused": 1,
    "step_clock": 3,
    "flush": 3,
    "reput": 3,
    "delete": 1,
    "get": 30,
    "by_time": 8,
    "query": 8,
    "estimate": 4,
    "message_at": 4,
    "beside": 1,
    "image": 1,
    "commit": 4,
    "reset": 3,
    "clone": 1,
    "clean": 1,
    "reopen": 1,
    "kill": 1,
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time at which messages are stored (ms), as a list of one number to be set."""
    now = [1_700_000_000_000]
    monkeypatch.setattr("reput.log.append.append._time_ns", lambda: now[0] * 1_000_000)
    return now


@pytest.fixture(params=["compiled", "reference"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both kinds of kernels."""
    monkeypatch.setenv(SWITCH, request.param)
    forget_choices()
    yield request.param
    forget_choices()


def choices() -> dict[str, Any]:
    """Everything in `reput.kernels` that chooses kernels, by name."""
    return {name: choice for name, choice in vars(kernels).items() if isinstance(choice, kernels._KernelChoice)}


def forget_choices() -> None:
    """Have every function of `reput.kernels` that keeps its choice of kernels choose anew."""
    for choice in choices().values():
        choice.cache_clear()


def test_every_choice_follows_the_switch(kind: str) -> None:
    """No function that chooses kernels keeps what it chose for another test."""
    assert {"encode_kernels", "backlog_kernels", "table_kernels"} < set(choices())
    for choice in choices().values():
        assert not choice._loaded
        assert choice() == choice(kind)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("flush", list(CONFIGS))
def test_model(flush: str, kind: str, seed: int, clock: list[int], tmp_path: Path) -> None:
    """After any operations in any order the store answers as the model does, and its indexes are sound."""
    seed += int(os.environ.get("REPUT_MODEL_SEED", "0"))
    steps = cases(90, 5000) if kind == "compiled" else cases(25, 800)
    HISTORY.warning("seed %d, %s, %s kernels, %d steps", seed, flush, kind, steps)
    run = Run(tmp_path / "store", CONFIGS[flush], random.Random(f"{flush} {seed}"), clock)
    operations: dict[str, Callable[[], None]] = {name: getattr(run, name) for name in WEIGHTS}
    for step in range(steps):
        name = run.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        HISTORY.warning("%d: %s", step, name)
        operations[name]()
        run.check(tmp_path / "copy")
        if step % 50 == 49:
            run.verify()
    run.verify()
    run.store.close()
    assert_sound(run.path, run.config)
