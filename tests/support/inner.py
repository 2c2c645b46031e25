"""A store with queues of batches and light message queues, and a model of it that is a few lists of Python.

python -m support.inner STORE KIND SEED [spark]   puts for ever and follows itself; a line every hundred messages
model = Model(); store = new_store(path); model.put(store, rng); model.compare(store, rng)
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH, Host
from reput.log.encode.message import Message, PutStatus
from support.records import LogBuilder
from support.switches import config_of

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=400,
    mapper_file_size_batch_consume_queue=46 * 10,
    max_hash_slot_num=32,
    max_index_num=40,
    enable_lmq=True,
    file_reserved_time=0,
    delete_when="",
    disk_max_used_space_ratio=95,
    disk_space_clean_forcibly_ratio=85,
    clean_file_forcibly_enable=False,
    clean_resource_interval=1 << 30,
)
_EXT = replace(CONFIG, mapped_file_size_consume_queue_ext=1000)
KINDS = {
    **{name: config_of(name, CONFIG) for name in ("file", "rocksdb", "double")},
    **{name: config_of(name, _EXT) for name in ("ext", "ext-double")},
}
"""Settings for every kind of queues."""
TOPICS = {"batches": {"queue.type": "BatchCQ"}, "orders": {}, "more": {"queue.type": "BatchCQ"}}
LAG_MAX = 1000
"""The number of messages that the program at the end lets wait for their indexes."""
LIGHT = ("%LMQ%a", "%LMQ%b", "%LMQ%订单")


def topics_json(store: Path, topics: dict[str, dict[str, str]]) -> None:
    """Write the topics of a store into its configuration, as a broker does."""
    table = {name: {"attributes": attributes, "topicName": name} for name, attributes in topics.items()}
    (store / paths.CONFIG).mkdir(parents=True, exist_ok=True)
    (store / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": table}), "utf-8")


def new_store(path: Path, config: StoreConfig = CONFIG) -> reput.MessageStore:
    """A new store with the topics above."""
    (path / paths.COMMIT_LOG).mkdir(parents=True)
    if Model(config).with_batches:
        topics_json(path, TOPICS)
    return reput.MessageStore.open(path, config, create=True)


def write_further(folder: Path, count: int) -> Path:
    """A store with a log alone: every second message is of topic side, the others give side/0 and %LMQ%a entries."""
    log = LogBuilder()
    for number in range(count):
        if number % 2 == 0:
            log.message("side", queue_offset=number, tags="paid", keys="k")
            continue
        more = {"INNER_MULTI_DISPATCH": "side,%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": f"{number},{number // 2}"}
        host = Host(bytes(16), 1) if number % 3 else Host(bytes(4), 1)
        log.message("orders" * (1 + number % 30), more=more, tags="paid", store_host=host, body=bytes(number % 40 + 1))
    return log.write(folder / "store", preallocated=True)


class Batch(NamedTuple):
    """A record in a queue: where its messages begin, how many there are, its log offset, its tag and time."""

    base: int
    messages: int
    offset: int
    tag: str
    time: int


class Model:
    """The messages that were put, queue by queue."""

    def __init__(self, config: StoreConfig = CONFIG) -> None:
        # In RocksDB there are no queues of batches.
        self.with_batches = config.store_type is None and not config.rocksdb_cq_double_write_enable
        self.queues: dict[tuple[str, int], list[Batch]] = {}

    def put(self, store: reput.MessageStore, rng: random.Random) -> None:
        """One message of any sort."""
        tag = rng.choice(("paid", "sent", ""))
        tags, queue_id, body = tag or None, rng.randrange(2), bytes(rng.randrange(200))
        match rng.randrange(0 if self.with_batches else 2, 4):
            case 0:
                topic, count, names = rng.choice(("batches", "more")), rng.randrange(1, 9), ()
                message = Message(topic, body, tags, properties={"INNER_NUM": str(count)}, sys_flag=FLAG_INNER_BATCH)
            case 1:
                topic, count, names = "batches", 1, ()
                message = Message(topic, body, tags, keys="k")
            case 2:
                topic, count, names = "orders", 1, tuple(rng.sample(LIGHT, rng.randrange(1, 4)))
                message = Message(topic, body, tags, properties={"INNER_MULTI_DISPATCH": ",".join(names)})
            case _:
                topic, count, names = "orders", 1, ()
                message = Message(topic, body, tags)
        result = store.put_message(message, queue_id)
        assert result.status is PutStatus.PUT_OK, result.reason
        for key in ((topic, queue_id), *((name, 0) for name in names)):
            queue = self.queues.setdefault(key, [])
            base = queue[-1].base + queue[-1].messages if queue else 0
            counted = count if key == (topic, queue_id) else 1
            queue.append(Batch(base, counted, result.physical_offset, tag, result.store_timestamp))
        assert result.queue_offset == self.queues[topic, queue_id][-1].base

    def compare(self, store: reput.MessageStore, rng: random.Random) -> None:
        """Every queue's span and content; pulls, look-ups by time and counts at places chosen at random."""
        assert {(info.topic, info.queue_id): info.max_offset for info in store.queues()} == {
            key: queue[-1].base + queue[-1].messages for key, queue in self.queues.items()
        }
        for key, every in self.queues.items():
            queue = [one for one in every if one.offset >= store.view.log.min_offset]
            if not queue:
                # All have expired: the queue only keeps its number.
                assert store.min_offset(*key) == store.max_offset(*key)
                continue
            assert store.min_offset(*key) == queue[0].base
            assert pulled(store, key) == [one.offset for one in queue]
            end = queue[-1].base + queue[-1].messages
            inside = rng.randrange(queue[0].base, end)
            holder = max((one for one in queue if one.base <= inside), key=lambda one: one.base)
            got = store.get_message(*key, inside, 1)
            assert got.physical_offsets.tolist() == [holder.offset]
            assert got.next_offset == holder.base + holder.messages
            assert store.store_time(*key, inside) == holder.time
            self.compare_filter(store, key, inside, end)

    def compare_filter(self, store: reput.MessageStore, key: tuple[str, int], begin: int, end: int) -> None:
        """Return the records that a subscription gets, and the number of their messages."""
        queue = [one for one in self.queues[key] if one.base + one.messages > begin]
        assert pulled(store, key, begin, "paid") == [one.offset for one in queue if one.tag == "paid"]
        wanted = sum(min(one.base + one.messages, end) - max(one.base, begin) for one in queue if one.tag == "paid")
        assert store.estimate(*key, begin, end, "paid") == wanted
        assert store.estimate(*key, begin, end, reput.SqlFilter("TAGS = 'paid'")) == wanted


def pulled(
    store: reput.MessageStore, key: tuple[str, int], offset: int | None = None, tags: str | None = None
) -> list[int]:
    """Return the places of the records that a consumer gets that pulls a few messages at a time."""
    offset = store.min_offset(*key) if offset is None else offset
    found: list[int] = []
    while True:
        got = store.get_message(*key, offset, 7, tags)
        found += got.physical_offsets.tolist()
        if got.next_offset == offset or got.status.name.startswith("OFFSET"):
            return found
        offset = got.next_offset


def main() -> None:
    """Put until killed."""
    path, name, seed, *engine = sys.argv[1:]
    rng, model = random.Random(int(seed)), Model(KINDS[name])
    spark: dict[str, Any] = {"master": "local[1]"} if engine else {"spark": False}
    store = reput.MessageStore.open(path, KINDS[name], follow=True, create=True, **spark)
    for queue in store.queues():
        # What an earlier life has put is not looked at: the model only has to know where numbers go on.
        model.queues[queue.topic, queue.queue_id] = [Batch(0, queue.max_offset, 0, "", 0)]
    while True:
        for _ in range(100):
            model.put(store, rng)
        while store.lag().messages > LAG_MAX:
            # What nobody follows yet would have to be followed, and rebuilt, after the kill.
            time.sleep(0.01)
        sys.stdout.write("stored\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
