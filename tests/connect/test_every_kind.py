"""Queues of every kind are read by the queue plan: RocksDB, ext, double write, queues of batches, light queues."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualTo

import reput
from reput.connect.cut.snapshot import take_snapshot
from reput.connect.options.filters import narrowed
from reput.connect.options.options import Scan, read_options
from reput.connect.options.selection import selection_of
from reput.connect.plan import plan_batch
from reput.errors import DamagedStoreError, DataLossError
from reput.formats import paths
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.properties import encode_properties
from reput.formats.log.record import FLAG_INNER_BATCH, FLAG_NEED_UNWRAP
from reput.log.encode.message import Message
from support import frames, golden, inner, stores

if TYPE_CHECKING:
    from pathlib import Path


QUESTIONS: list[dict[str, Any]] = [
    {"topic": "orders"},
    {"subscribePattern": "o.*|订单.*"},
    {"assign": '{"orders": [0, 1]}', "filter.tag": "paid || A"},
    {"topic": "orders", "startingOffsets": '{"orders": {"0": 3}}', "endingOffsets": '{"orders": {"0": 9}}'},
    {"topic": "orders", "columns": "topic,queueId,queueOffset,physicalOffset"},
]
BOTH = FLAG_INNER_BATCH | FLAG_NEED_UNWRAP


def topic_of(name: str) -> str:
    """The topic of a golden store that has the most queues with messages."""
    lines = [line for line in golden.answers(name) if "queue" in line and line["max"] > line["min"]]
    return max((line["queue"][0] for line in lines), key=[line["queue"][0] for line in lines].count)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "ext", "rocksdb"])
def test_tags_of_delayed_messages(name: str) -> None:
    """The option for tags finds what the column has, also in queues with a delayed message's time for its tag."""
    topic = {"topic": "SCHEDULE_TOPIC_XXXX", "columns": "tags,physicalOffset"}
    every = frames.table(golden.shared(name), **topic)
    wanted = frames.in_order(every.filter(pc.equal(every["tags"], "paid")))
    assert wanted
    for scan in ("queue", "log"):
        found = frames.table(golden.shared(name), scan=scan, **topic, **{"filter.tag": "paid"})
        assert frames.in_order(found) == wanted


@pytest.mark.golden
@pytest.mark.parametrize("name", ["ext", "double", "rocksdb", "batch"])
def test_golden_stores_of_every_kind(name: str) -> None:
    """RocketMQ's queues of each kind are read through them by offset, with the same result as from the log."""
    store, topic = golden.shared(name), topic_of(name)
    lines = [line for line in golden.answers(name) if "queue" in line and line["queue"][0] == topic]
    queue = max(lines, key=lambda line: line["max"] - line["min"])
    begin, end = queue["min"] + (queue["max"] - queue["min"]) // 3, queue["max"] - 3
    edge = {"startingOffsets": begin, "endingOffsets": end}
    options = {key: json.dumps({topic: {str(queue["queue"][1]): value}}) for key, value in edge.items()}
    options["assign"] = json.dumps({topic: [queue["queue"][1]]})
    plan = frames.plan(store, **options)
    assert plan.scan == "queue"
    assert plan.snapshot.frontiers.queue_offset > plan.snapshot.begin
    found = frames.table(store, **options)
    assert frames.in_order(found) == frames.in_order(frames.table(store, scan="log", **options))
    if name != "batch":
        assert found["queueOffset"].to_pylist() == list(range(begin, end))
    for question in ({}, {"topic": topic}, {"topic": topic, "filter.tag": "paid || created"}):
        assert frames.in_order(frames.table(store, scan="queue", **question)) == frames.in_order(
            frames.table(store, scan="log", **question)
        )


@pytest.mark.parametrize("kind", list(inner.KINDS))
def test_narrow_questions_read_little(kind: str, tmp_path: Path) -> None:
    """In each kind a few offsets, or a moment, cost a small part of the log, and answers are those of the log."""
    config, path = inner.KINDS[kind], tmp_path / "store"
    model, rng = inner.Model(config), random.Random(7)
    with inner.new_store(path, config) as store:
        for _ in range(600):
            model.put(store, rng)
    stores.rebuild(path, config)
    conf = tmp_path / "broker.conf"
    conf.write_text("enableLmq=true\n" + ("storeType=defaultRocksDB\n" if kind == "rocksdb" else ""))
    narrow = {"topic": "orders", "config": str(conf)}
    narrow["startingOffsets"], narrow["endingOffsets"] = '{"orders": {"0": 20}}', '{"orders": {"0": 30, "1": 4}}'
    plan = frames.plan(path, **narrow)
    assert plan.scan == "queue"
    assert plan.bytes_to_read * 4 < plan.snapshot.end - plan.snapshot.begin
    for question in QUESTIONS:
        by_log = frames.in_order(frames.table(path, scan="log", config=conf, **question))
        assert frames.in_order(frames.table(path, scan="queue", config=conf, **question)) == by_log
    for key, queue in model.queues.items():
        if key[0] in inner.LIGHT:
            assert places(path, key[0], config=conf) == [one.offset for one in queue]


def places(store: Path, topic: str, **options: Any) -> list[int]:
    """Log offsets of a topic's messages, in order."""
    return sorted(frames.table(store, topic=topic, columns="physicalOffset", **options)["physicalOffset"].to_pylist())


def index(store: Path, is_indexed: bool) -> None:
    """Build the queues anew, or take them away."""
    if is_indexed:
        stores.rebuild(store, inner.CONFIG)
        return
    for folder in (paths.CONSUME_QUEUE, paths.BATCH_CONSUME_QUEUE):
        shutil.rmtree(store / folder)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_light_queues(is_indexed: bool, tmp_path: Path) -> None:
    """A light queue gives the records of other topics unchanged, by its own numbers."""
    path, model, rng = tmp_path / "store", inner.Model(), random.Random(3)
    with inner.new_store(path) as store:
        for _ in range(300):
            model.put(store, rng)
    index(path, is_indexed)
    name = inner.LIGHT[2]
    queue = model.queues[name, 0]
    assert frames.plan(path, topic=name).scan == ("queue" if is_indexed else "log")
    rows = frames.table(path, topic=name).sort_by("physicalOffset").to_pylist()
    assert [row["physicalOffset"] for row in rows] == [one.offset for one in queue]
    assert {row["topic"] for row in rows} == {"orders"}
    for number, row in enumerate(rows):
        reported = dict(row["properties"])
        names = reported["INNER_MULTI_DISPATCH"].split(",")
        assert reported["INNER_MULTI_QUEUE_OFFSET"].split(",")[names.index(name)] == str(number)
    edges = {"startingOffsets": json.dumps({name: {"0": 5}}), "endingOffsets": json.dumps({name: {"0": 9}})}
    assert places(path, name, **edges) == [one.offset for one in queue[5:9]]
    beside = frames.table(path, subscribe=f"orders,{name}", columns="physicalOffset")["physicalOffset"].to_pylist()
    own = [one.offset for one in (*model.queues["orders", 0], *model.queues["orders", 1])]
    assert sorted(beside) == sorted([*own, *(one.offset for one in queue)])
    # Nobody who does not ask for it by name gets a message twice.
    assert places(path, "orders") == sorted(own)
    everything = frames.table(path, columns="physicalOffset", subscribePattern=".*", scan="queue")
    assert len(set(everything["physicalOffset"].to_pylist())) == len(everything) == 300
    with pytest.raises(DataLossError, match="outside the queue"):
        frames.plan(path, topic=name, startingOffsets=json.dumps({name: {"0": len(queue) + 1}}))


def client_batch(number: int, count: int) -> Message:
    """A batch as a client makes it and a broker stores it."""
    body = encode_messages(
        [
            InnerMessage(
                number,
                f"{number}-{one}".encode(),
                encode_properties({b"TAGS": b"paid" if one % 2 else b"sent", b"KEYS": f"k{number}-{one}".encode()}),
            )
            for one in range(count)
        ]
    )
    return Message(
        "batches", body, "paid", keys=[f"k{number}-{one}" for one in range(count)],
        properties={"INNER_NUM": str(count)}, sys_flag=BOTH,
    )  # fmt: skip


@pytest.fixture(params=[True, False], ids=["indexed", "not indexed"])
def batches(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with batches of 1 to 7 messages, and a plain message after each."""
    path = tmp_path / "store"
    with inner.new_store(path) as store:
        for number in range(40):
            store.put_message(client_batch(number, number % 7 + 1), 0)
            store.put_message(Message("batches", b"alone", "paid", keys=f"a{number}"), 0)
            store.put_message(Message("orders", b"x" * 300), 0)
    index(path, request.param)
    return path


@pytest.mark.parametrize("batches", [True], indirect=True)
def test_batches_that_began_again(batches: Path) -> None:
    """A deleted topic of batches that began again has its new messages in every plan, and not the old ones."""
    with reput.MessageStore.open(batches, inner.CONFIG, create=True) as store:
        store.delete_topic("batches")
        store.put_message(client_batch(3, 4), 0)
        store.put_message(Message("batches", b"alone", "paid", keys="a3"), 0)
        store.reput(spark=False)
    for scan in ("log", "queue", "auto"):
        found = frames.table(batches, scan=scan, subscribePattern="batches", columns="queueOffset")
        assert sorted(found["queueOffset"].to_pylist()) == [0, 1, 2, 3, 4]
        assert len(frames.table(batches, scan=scan, topic="batches", keys="k3-2")) == 1


@pytest.mark.parametrize("scan", ["auto", "queue", "log"])
def test_batches_are_their_messages(batches: Path, scan: str) -> None:
    """Each message of a batch is a row with its own number, body, flag and properties, and its record's place."""
    rows = frames.table(batches, topic="batches", scan=scan).sort_by("queueOffset").to_pylist()
    bodies = [
        body
        for number in range(40)
        for body in (*(f"{number}-{one}".encode() for one in range(number % 7 + 1)), b"alone")
    ]
    assert [row["body"] for row in rows] == bodies
    assert [row["queueOffset"] for row in rows] == list(range(len(rows)))
    first = rows[0]
    assert (first["flag"], dict(first["properties"])) == (0, {"TAGS": "sent", "KEYS": "k0-0"})
    assert (first["keys"], first["tags"], first["physicalOffset"]) == ("k0-0", "sent", 0)
    with reput.MessageStore.open(batches, inner.CONFIG, read_only=True) as store:
        whole = store.message_at(rows[5]["physicalOffset"])
        assert whole is not None
        assert rows[5]["storeSize"] == whole.record.size
        assert rows[5]["offsetMsgId"] == whole.message_id
    edges = {"startingOffsets": '{"batches": {"0": 8}}', "endingOffsets": '{"batches": {"0": 25}}'}
    inside = frames.table(batches, topic="batches", scan=scan, **edges).sort_by("queueOffset")
    assert inside["body"].to_pylist() == bodies[8:25]
    sent = frames.table(batches, topic="batches", scan=scan, **{"filter.tag": "paid"})
    assert sorted(sent["queueOffset"].to_pylist()) == [row["queueOffset"] for row in rows if row["tags"] == "paid"]
    assert frames.table(batches, scan=scan, keys="k3-2")["body"].to_pylist() == [b"3-2"]
    few = frames.table(batches, topic="batches", scan=scan, maxRecordsPerPartition=3, columns="queueOffset")
    assert sorted(few["queueOffset"].to_pylist()) == list(range(len(rows)))


@pytest.mark.parametrize("of_topic", [{}, {"topic": "batches"}, {"topic": "orders"}], ids=repr)
def test_filters_on_keys_of_messages_in_batches(tmp_path: Path, of_topic: dict[str, str]) -> None:
    """A filter on keys finds messages inside batches, whose keys no index item has; others still by IndexFiles."""
    message = InnerMessage(0, b"x", encode_properties({b"KEYS": b"k7", b"UNIQ_KEY": b"U7"}))
    with inner.new_store(tmp_path / "store") as store:
        for _ in range(3):
            body = encode_messages([message, message._replace(properties=b"")])
            store.put_message(Message("batches", body, properties={"INNER_NUM": "2"}, sys_flag=BOTH), 0)
            store.put_message(Message("orders", b"x", keys="k7", properties={"UNIQ_KEY": "U7"}), 0)
        store.reput(spark=False)
    options = read_options({"path": str(tmp_path / "store"), **of_topic})
    for one in (EqualTo(("keys",), "k7"), EqualTo(("uniqKey",), "U7")):
        for scan in ("auto", "log"):
            plan = plan_batch(replace(options, scan=Scan(scan)), narrowed(selection_of(options), [one]))
            found = frames.rows_of(plan).filter(pc.field(one.attribute[0]) == one.value)
            assert len(found) == (3 if of_topic else 6)
            assert (plan.scan == "key") == (scan == "auto" and of_topic == {"topic": "orders"})


def test_batches_by_time(batches: Path) -> None:
    """Bounds by time and by offset know where a queue of batches ends, whether it is indexed or not."""
    total = sum(number % 7 + 2 for number in range(40))
    with pytest.raises(DataLossError, match=f"0 to {total}"):
        frames.plan(batches, topic="batches", startingOffsets=json.dumps({"batches": {"0": total + 1}}))
    stored = (
        frames.table(batches, topic="batches", columns="storeTimestamp")["storeTimestamp"].cast("int64").to_pylist()
    )
    by_time = {
        "startingOffsetsByTimestamp": json.dumps({"batches": {"0": max(stored) // 1000 + 1}}),
        "topic": "batches",
    }
    with pytest.raises(DataLossError, match="no message was stored"):
        frames.plan(batches, startingOffsetsByTimestampStrategy="error", **by_time)


def test_lost_batch_files_are_told(tmp_path: Path) -> None:
    """A missing file of batches makes a plan read the log; if the file goes missing after the plan, a task says so."""
    path = tmp_path / "store"
    with inner.new_store(path) as store:
        for number in range(40):
            store.put_message(client_batch(number, 3), 0)
        store.put_message(Message("orders", b""), 0)
    stores.rebuild(path, inner.CONFIG)
    files = sorted((path / paths.BATCH_CONSUME_QUEUE / "batches" / "0").iterdir())
    assert len(files) > 2
    question = {"topic": "batches", "scan": "queue"}
    strict, tolerant = (frames.plan(path, failOnDataLoss=value, **question) for value in ("true", "false"))
    files[1].unlink()
    with pytest.raises(DamagedStoreError, match="reput rebuild --only queue"):
        frames.rows_of(strict)
    found = frames.rows_of(tolerant)["queueOffset"].to_pylist()
    assert 0 < len(set(found)) == len(found) < 120
    assert sorted(frames.table(path, **question)["queueOffset"].to_pylist()) == list(range(120))


def test_a_store_with_queues_of_batches_alone_is_read_by_them(tmp_path: Path) -> None:
    """The queues of batches answer for a store without others; the log was read before, since no file had entries."""
    path = tmp_path / "store"
    with inner.new_store(path) as store:
        for number in range(4):
            store.put_message(client_batch(number, 3), 0)
    stores.rebuild(path, inner.CONFIG)
    assert not any((path / paths.CONSUME_QUEUE).iterdir())
    found = take_snapshot(str(path), inner.CONFIG)
    assert found.frontiers.queue_offset == found.end
    assert found.tails == {}
    assert len(frames.table(path, topic="batches")) == 12


def test_a_queue_of_batches_that_is_gone_is_no_empty_queue(tmp_path: Path) -> None:
    """A queue of batches that is deleted after the plan makes its task raise an error instead of returning no row."""
    path = tmp_path / "store"
    with inner.new_store(path) as store:
        for number in range(4):
            store.put_message(client_batch(number, 3), 0)
        store.put_message(Message("orders", b""), 0)
    stores.rebuild(path, inner.CONFIG)
    question = {"topic": "batches", "scan": "queue"}
    strict, tolerant = (frames.plan(path, failOnDataLoss=value, **question) for value in ("true", "false"))
    shutil.rmtree(path / paths.BATCH_CONSUME_QUEUE / "batches")
    with pytest.raises(DamagedStoreError, match="reput rebuild --only queue"):
        frames.rows_of(strict)
    assert not len(frames.rows_of(tolerant))
