"""The data source beside RocketMQ itself: a store that it has open, batches as its client takes them apart."""

from __future__ import annotations

import base64
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from reput.cli.main import run
from reput.connect.options.options import read_options
from reput.connect.stream import RocketmqStreamReader
from reput.connect.writer import RocketmqWriter
from reput.errors import StoreLockedError
from reput.formats.log.client_batch import InnerMessage, decode_messages, encode_messages
from reput.formats.log.properties import encode_properties, text_properties
from reput.formats.log.record import FLAG_INNER_BATCH, FLAG_NEED_UNWRAP, Record, encode_record
from reput.store.owner.holders import Writer
from support import frames

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer

BOTH = FLAG_INNER_BATCH | FLAG_NEED_UNWRAP
WAIT_S = 20


def test_batches_as_the_client_sees_them(peer: ModuleType) -> None:
    """RocketMQ's client and reput find the same messages in a batch's body, and refuse the same bodies."""
    rng = random.Random(5)
    bodies = []
    for _ in range(60):
        messages = [
            InnerMessage(
                rng.randrange(-(1 << 31), 1 << 31),
                rng.randbytes(rng.randrange(40)),
                encode_properties({b"TAGS": b"paid", f"序{number}".encode(): b"x" * rng.randrange(1, 20)}),
            )
            for number in range(rng.randrange(1, 6))
        ]
        body = bytearray(encode_messages(messages))
        if rng.random() < 0.5:
            # A body that was hurt, or cut.
            body[rng.randrange(len(body))] = rng.randrange(256)
            del body[rng.choice((len(body), rng.randrange(len(body)))) :]
        bodies.append(bytes(body))
    records = [
        Record(b"batches", body, queue_id=3, queue_offset=50, physical_offset=1000, sys_flag=BOTH, store_timestamp=7)
        for body in bodies
        if body
    ]
    lines = b"".join(base64.b64encode(encode_record(record)) + b"\n" for record in records)
    sound = 0
    for record, answer in zip(records, peer.run("unwrap", stdin=lines), strict=True):
        ours = decode_messages(record.body)
        assert (ours is None) == ("error" in answer)
        if ours is None:
            continue
        sound += 1
        for number, (one, theirs) in enumerate(zip(ours, answer["messages"], strict=True)):
            assert (theirs["topic"], theirs["queue"], theirs["queue_offset"]) == ("batches", 3, 50 + number)
            assert (theirs["flag"], base64.b64decode(theirs["body"])) == (one.flag, one.body)
            assert (theirs["stored"], theirs["offset"], theirs["sys_flag"]) == (7, 1000, BOTH)
            # The client's object says that its sender waits; the batch does not.
            assert theirs["properties"].pop("WAIT") == "true"
            assert theirs["properties"] == text_properties(one.properties)
    assert 20 < sound < len(records)


def messages(count: int) -> list[dict[str, Any]]:
    """Plain messages, messages for light queues, and batches, one of each in turn."""
    found: list[dict[str, Any]] = []
    for number in range(count):
        plain = {"topic": "orders", "queue": number % 2, "body": f"{number}", "sysFlag": 0, "properties": {"KEYS": "k"}}
        light = {**plain, "properties": {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "TAGS": "paid"}}
        body = encode_messages([InnerMessage(one, f"{number}-{one}".encode(), b"") for one in range(number % 4 + 1)])
        batch = {"topic": "batches", "queue": 0, "body": body.decode(), "sysFlag": BOTH}
        found += [plain, light, {**batch, "properties": {"INNER_NUM": str(number % 4 + 1)}}]
    return found


def awaited(store: Path, count: int, **options: Any) -> list[dict[str, Any]]:
    """Wait for `count` rows: RocketMQ's queues get entries some milliseconds after its answers."""
    until = time.monotonic() + WAIT_S
    while len(rows := frames.table(store, **options).to_pylist()) < count and time.monotonic() < until:
        time.sleep(0.1)
    return rows


TOPICS_JSON = '{"topicConfigTable": {"batches": {"topicName": "batches", "attributes": {"queue.type": "BatchCQ"}}}}'


def refuses_writers(store: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> None:
    """Beside the broker nobody follows and nobody writes."""
    words = [word for one in settings for word in ("--set", one)]
    capsys.readouterr()
    assert run(["follow", str(store), "--until-caught-up", "--no-spark", *words]) == 2
    assert "a running broker holds this store" in capsys.readouterr().err
    with pytest.raises(StoreLockedError, match="live broker"):
        RocketmqWriter({"path": str(store), "topic": "x"}, StructType([StructField("body", StringType())]))


def test_beside_a_live_broker(peer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RocketMQ has the store open: all that its queues refer to is read, and nobody else may write or follow."""
    store = tmp_path / "store"
    words = ("--batch-topic", "batches", "--set", "enableLmq=true", "--set", "enableMultiDispatch=true")
    # A broker writes it beside its store; this one gets its topics from options.
    (store / "config").mkdir(parents=True)
    (store / "config" / "topics.json").write_text(TOPICS_JSON)
    asked = messages(40)
    with peer.holding(store, *peer.GOLDEN_SETTINGS, *words) as put:
        places = [put(one)["offset"] for one in asked]
        orders = [place for place, one in zip(places, asked, strict=True) if one["topic"] == "orders"]
        rows = awaited(store, len(orders), topic="orders")
        assert sorted(row["physicalOffset"] for row in rows) == orders
        assert frames.plan(store).snapshot.writer is Writer.BROKER
        light = awaited(store, 40, topic="%LMQ%a", scan="queue")
        assert [row["physicalOffset"] for row in light] == orders[1::2]
        inner = awaited(store, 100, topic="batches", scan="queue")
        expected = [f"{number}-{one}".encode() for number in range(40) for one in range(number % 4 + 1)]
        assert [row["body"] for row in inner] == expected
        assert [row["queueOffset"] for row in inner] == list(range(100))
        stream = RocketmqStreamReader(read_options({"path": str(store), "startingOffsets": "earliest"}))
        end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
        assert end["offset"] > max(orders)
        refuses_writers(store, capsys)
        later = put({**messages(1)[0], "body": "later"})
        rows = awaited(store, len(orders) + 1, topic="orders")
        assert max(row["physicalOffset"] for row in rows) == later["offset"]
    after = frames.table(store, topic="orders")
    assert sorted(after["physicalOffset"].to_pylist()) == [*orders, later["offset"]]


def test_beside_a_live_broker_with_rocksdb(
    peer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its queues are read as far as RocketMQ has written them out, which it does without a log of its own: a prefix."""
    store, settings = tmp_path / "store", ("storeType=defaultRocksDB", "enableLmq=true", "enableMultiDispatch=true")
    conf = tmp_path / "broker.conf"
    conf.write_text("\n".join(settings) + "\n")
    asked = [one for one in messages(60) if one["topic"] == "orders"]
    with peer.holding(store, *peer.GOLDEN_SETTINGS, *(word for one in settings for word in ("--set", one))) as put:
        places = [put(one)["offset"] for one in asked]
        # Perhaps nothing is written out yet, and this program keeps no config/topics.json: then the topic is unknown.
        read = frames.table(store, topic="orders", config=conf, failOnMissingTopic="false")
        found = read.sort_by("physicalOffset")["physicalOffset"].to_pylist()
        assert found == places[: len(found)]
        refuses_writers(store, capsys, settings[0])
    for scan in ("queue", "log"):
        after = frames.table(store, topic="orders", config=conf, scan=scan)
        assert sorted(after["physicalOffset"].to_pylist()) == places
        light = frames.table(store, topic="%LMQ%b", config=conf, scan=scan)
        assert sorted(light["physicalOffset"].to_pylist()) == places[1::2]
    assert frames.plan(store, topic="orders", config=conf, scan="queue").scan == "queue"
