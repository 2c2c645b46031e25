"""Plans give the same messages for any question; incomplete indexes lose or double no message."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.connect.plan import explain
from reput.errors import DamagedLogError, DamagedStoreError, DataLossError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import Entry, encode_entry
from support import frames, golden, inner, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    pass

MIDDLE_MS = "%(middle_ms)s"
"""In a question: when the middle one of the messages was stored."""


def basic() -> Path:
    """A golden store, for reading only."""
    return golden.shared("basic")


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"topic": "orders"},
    {"subscribe": "orders, clicks"},
    {"subscribePattern": "o.*|订单.*"},
    {"assign": '{"orders": [0, 1], "clicks": [2]}', "failOnMissingTopic": "false"},
    {"filter.tag": "A || B"},
    {"subExpression": "退款"},
    {"filter.tag": "*"},
    {"keys": "k44,k36"},
    {"keys": "k44", "topic": "clicks"},
    {"startingTimestamp": MIDDLE_MS},
    {"endingTimestamp": MIDDLE_MS},
    {"startingOffsetsByTimestamp": f'{{"orders": {{"0": {MIDDLE_MS}}}}}', "topic": "orders"},
    {
        "startingOffsets": '{"orders": {"0": 3}, "clicks": {"1": -1, "2": 5}}',
        "endingOffsets": '{"orders": {"b": {"0": 30}}}',
    },
    {"commitLogStart": 1_000_000, "commitLogEnd": 2_000_000},
    {
        "topic": "orders",
        "filter.tag": "A",
        "startingTimestamp": MIDDLE_MS,
        "columns": "topic,queueOffset,physicalOffset",
    },
    {"schema": "kafka", "includeHeaders": "true", "topic": "payments"},
]


@pytest.mark.golden
@pytest.mark.parametrize("question", QUESTIONS, ids=repr)
def test_plans_agree(question: dict[str, Any]) -> None:
    """The log plan and the queue plan give the same messages, whichever is chosen."""
    facts = golden.facts("basic")._asdict()
    asked = {name: value % facts if isinstance(value, str) else value for name, value in question.items()}
    by_log = frames.in_order(frames.table(basic(), scan="log", **asked))
    assert by_log
    assert frames.in_order(frames.table(basic(), scan="queue", **asked)) == by_log
    assert frames.in_order(frames.table(basic(), **asked)) == by_log


@pytest.mark.golden
def test_answers_about_pulls() -> None:
    """A pull that RocketMQ answered in full gives the same log offsets as a frame between the same queue offsets."""
    asked = 0
    for line in golden.answers("basic"):
        if "get" not in line or line["status"] != "FOUND" or line["get"][4] is not None:
            continue
        topic, queue_id, offset, _, _ = line["get"]
        edges = {"startingOffsets": offset, "endingOffsets": line["next"]}
        options = {name: json.dumps({topic: {str(queue_id): value}}) for name, value in edges.items()}
        found = frames.table(basic(), assign=json.dumps({topic: [queue_id]}), columns="physicalOffset", **options)
        assert found["physicalOffset"].to_pylist() == line["phys"]
        asked += 1
        if asked == 40:
            break
    assert asked


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "crash", "ext", "double", "rocksdb"])
def test_stores_of_every_kind_by_log(name: str) -> None:
    """The log is the truth: a store whose queues are of another kind gives all its messages by the log plan."""
    store = golden.shared(name)
    queues = [line for line in golden.answers(name) if "queue" in line]
    expected = sorted(entry[1] for line in queues for entry in line["entries"])
    found = sorted(frames.table(store, columns="physicalOffset")["physicalOffset"].to_pylist())
    # RocketMQ's answer goes to the end of the first queue file.
    assert set(expected) <= set(found)
    assert len(found) == len(set(found)) == sum(line["max"] - line["min"] for line in queues)


@pytest.mark.golden
@pytest.mark.parametrize("gone", [("consumequeue",), ("index",), ("consumequeue", "index")], ids=repr)
@pytest.mark.parametrize("scan", ["auto", "queue"])
def test_missing_indexes_hide_nothing(tmp_path: Path, gone: tuple[str, ...], scan: str) -> None:
    """Missing queues or IndexFiles hide no message, and double none, by topic and by key."""
    store = golden.unpack("basic", tmp_path)
    for folder in gone:
        shutil.rmtree(store / folder)
    for question in ({}, {"topic": "orders"}, {"keys": "k44"}):
        assert frames.in_order(frames.table(store, scan=scan, **question)) == frames.in_order(
            frames.table(basic(), **question)
        )


@pytest.mark.parametrize("question", [{"topic": "orders"}, {"subscribePattern": "ord.*"}, {}], ids=repr)
def test_one_topics_lost_queues_hide_no_key(tmp_path: Path, question: dict[str, str]) -> None:
    """A key leads to its messages although its topic's queues are missing: by name, or as topics.json has it."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(20):
        log.message(("orders", "clicks")[number % 2], keys=f"k{number}")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    shutil.rmtree(store / paths.CONSUME_QUEUE / "orders")
    inner.topics_json(store, {"orders": {}, "clicks": {}})
    plan = frames.plan(store, keys="k4", **question)
    assert plan.scan == "key"
    assert frames.rows_of(plan)["keys"].to_pylist() == ["k4"]


def grown(folder: Path, indexed: int, more: int) -> Path:
    """A store whose indexes know its first `indexed` messages and not the `more` after them."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(indexed):
        log.message("orders", queue_id=number % 3, tags="paid", keys=f"k{number}")
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    for number in range(indexed, indexed + more):
        log.message("orders" if number % 2 else "late", queue_id=number % 3, tags="paid", keys=f"k{number}")
    log.write(store)
    return store


@pytest.mark.parametrize("gone", ["consumequeue", "index"])
def test_a_frontier_without_its_indexes(tmp_path: Path, gone: str) -> None:
    """Indexes that were deleted under reput's own frontier hide nothing either."""
    store = grown(tmp_path, 100, 0)
    assert frames.plan(store).snapshot.frontiers.queue_offset > 0
    shutil.rmtree(store / gone)
    for question in ({}, {"topic": "orders"}, {"subscribePattern": "ord.*"}, {"startingTimestamp": 1}):
        assert len(frames.table(store, **question)) == 100
        assert len(frames.table(store, scan="queue", **question)) == 100
    assert len(frames.table(store, keys="k20")) == 1


@pytest.mark.parametrize("scan", ["auto", "queue", "log"])
def test_behind_the_frontier_the_log_is_read(tmp_path: Path, scan: str) -> None:
    """Messages that no index knows yet are met once in every plan, by topic, by key and by offset."""
    store = grown(tmp_path, 200, 101)
    assert frames.plan(store).snapshot.frontiers.queue_offset < frames.plan(store).snapshot.end
    assert len(frames.table(store, scan=scan)) == 301
    assert len(frames.table(store, scan=scan, topic="orders")) == 200 + 50
    assert len(frames.table(store, scan=scan, topic="late")) == 51
    assert len(frames.table(store, scan=scan, keys="k250")) == 1
    assert len(frames.table(store, scan=scan, keys="k20")) == 1
    edges = {"startingOffsets": '{"orders": {"1": 60}}', "endingOffsets": '{"orders": {"1": 75}}'}
    found = frames.table(store, scan=scan, assign='{"orders": [1]}', **edges)
    assert found["queueOffset"].to_pylist() == list(range(60, 75))


PLACES = ("topic", "queueId", "queueOffset", "physicalOffset")


def places(store: Path, scan: str, **options: Any) -> list[tuple[Any, ...]]:
    """The places of a frame's messages."""
    found = frames.table(store, scan=scan, columns=",".join(PLACES), **options)
    return sorted(zip(*(found[name].to_pylist() for name in PLACES), strict=True))


def put_all(store: reput.MessageStore, topic: str, count: int) -> None:
    """Messages over two queues, each with its number as key."""
    for number in range(count):
        store.put_message(reput.Message(topic, b"x", keys=f"k{number}"), number % 2)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_deleted_topic_that_began_again(tmp_path: Path, rebuilt: bool) -> None:
    """Messages that their queue no longer leads to are in no plan's rows, by topic, by key or of the whole store."""
    with reput.MessageStore.open(tmp_path, create=True) as store:
        put_all(store, "other", 10)
        put_all(store, "orders", 200)
        store.delete_topic("orders")
        put_all(store, "orders", 6)
        put_all(store, "late", 10)
        store.reput(spark=False)
    if rebuilt:
        reput.rebuild(tmp_path, spark=False)
    rows = places(tmp_path, "queue")
    assert len({row[:3] for row in rows}) == len(rows) == 26
    for scan in ("log", "auto"):
        assert places(tmp_path, scan) == rows
        assert places(tmp_path, scan, minPartitions=7) == rows
        assert places(tmp_path, scan, topic="orders") == [row for row in rows if row[0] == "orders"]
    for key, count in (("k1", 3), ("k5", 3), ("k7", 2), ("k77", 0)):
        assert frames.plan(tmp_path, keys=key).scan == "key"
        assert len(places(tmp_path, "log", keys=key)) == count
        assert places(tmp_path, "auto", keys=key) == places(tmp_path, "log", keys=key)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "ext", "double", "rocksdb"])
def test_every_kind_that_began_again(tmp_path: Path, name: str) -> None:
    """It is so with each kind of queue, and of batches."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        store.delete_topic("orders")
        put_all(store, "orders", 4)
        store.reput(spark=False)
    rows = places(path, "queue")
    assert len([row for row in rows if row[0] == "orders"]) == 4
    gone = [row for row in places(path, "log") if row not in set(rows)]
    # Of queues without a new message nothing shows the log's reader that they were deleted.
    assert not [row for row in gone if row[:2] in {("orders", 0), ("orders", 1)}]
    assert {row[0] for row in gone} <= {"orders"}


def began_again(folder: Path) -> tuple[Path, Path, list[bytes]]:
    """A store whose queue has ten messages in the log and then three from 0 on; its file, and entries of all."""
    log = LogBuilder(file_size=1 << 16)
    log.message("other")
    placed = [log.message("orders") for _ in range(10)]
    placed += [log.message("orders", queue_offset=number) for number in range(3)]
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    entries = [encode_entry(Entry(one.offset, one.size, 0)) for one in placed]
    return store, next((store / paths.CONSUME_QUEUE / "orders" / "0").iterdir()), entries


def test_old_messages_that_have_their_entries(tmp_path: Path) -> None:
    """An older message to which its queue's entry leads counts, as others of its queue do not."""
    store, file, entries = began_again(tmp_path)
    file.write_bytes(b"".join([*entries[10:], *entries[3:10]]))
    rows = places(store, "log")
    assert [row[2] for row in rows if row[0] == "orders"] == list(range(10))
    assert len({row[3] for row in rows}) == 11


def test_a_queue_that_lies_hides_nothing(tmp_path: Path) -> None:
    """A queue whose first entry leads to another message is not believed: the log gives all its messages."""
    store, file, entries = began_again(tmp_path)
    file.write_bytes(entries[12] + file.read_bytes()[20:])
    assert len(places(store, "log", topic="orders")) == 13


def test_tasks_are_cut_at_records(tmp_path: Path) -> None:
    """Ranges of the log begin at records, below the frontier and above it, for tasks of any size."""
    store = grown(tmp_path, 400, 400)
    whole = frames.table(store)
    planned = frames.plan(store, minPartitions=50)
    assert planned.tasks > 20
    assert frames.in_order(frames.table(store, minPartitions=50)) == frames.in_order(whole)
    assert len(frames.table(store, maxRecordsPerPartition=10, scan="queue")) == 800


def test_an_imitation_is_no_message(tmp_path: Path) -> None:
    """A body that imitates a record in its place is not cut at, and not read as one."""
    log = LogBuilder(file_size=1 << 16)
    for _ in range(60):
        log.message("orders", body=b"x" * 100)
        log.imitation("orders")
    store = stores.with_log(tmp_path, log)
    for _ in range(2):
        assert len(frames.table(store, minPartitions=40)) == 120
        stores.rebuild(store)


def test_damage_is_told_or_passed_over(tmp_path: Path) -> None:
    """A damaged record is an error that names its place; with failOnDataLoss=false the others are read."""
    store = grown(tmp_path, 300, 0)
    file = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(file.read_bytes())
    place = frames.table(store)["physicalOffset"].to_pylist()[20]
    data[place + 4 : place + 8] = b"\xff" * 4
    file.write_bytes(data)
    with pytest.raises(DamagedLogError, match=f"log offset {place}"):
        frames.table(store, scan="log")
    with pytest.raises(DamagedLogError, match=f"log offset {place}"):
        frames.table(store, scan="queue")
    for scan in ("log", "queue"):
        assert len(frames.table(store, scan=scan, failOnDataLoss="false")) == 299


def test_a_queue_that_lies_is_found_out(tmp_path: Path) -> None:
    """An entry that leads to another queue's message is an error, never a message in the wrong queue."""
    store = grown(tmp_path, 300, 0)
    queues = sorted((store / paths.CONSUME_QUEUE / "orders").iterdir())
    first, second = (next(queue.iterdir()) for queue in queues[:2])
    first.write_bytes(second.read_bytes())
    with pytest.raises(DamagedStoreError, match="another queue"):
        frames.table(store, scan="queue", assign='{"orders": [0]}')


@pytest.mark.golden
def test_offsets_that_are_gone(tmp_path: Path) -> None:
    """An offset before the first message, or after the last, is an error; without failOnDataLoss it is cut."""
    store = golden.unpack("basic", tmp_path)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    queue = next(line for line in golden.answers("expired") if "queue" in line and line["min"] > 0)
    topic, queue_id = queue["queue"]
    assign = json.dumps({topic: [queue_id]})
    for option, offset in (("startingOffsets", 0), ("startingOffsets", queue["max"] + 1), ("endingOffsets", 1 << 40)):
        edge = {option: json.dumps({topic: {str(queue_id): offset}}), "assign": assign}
        with pytest.raises(DataLossError, match=f"{queue['min']} to {queue['max']}"):
            frames.table(store, **edge)
        rows = frames.table(store, failOnDataLoss="false", **edge)["queueOffset"].to_pylist()
        assert rows == ([] if offset == queue["max"] + 1 else list(range(queue["min"], queue["max"])))


@pytest.mark.golden
def test_a_time_without_messages(tmp_path: Path) -> None:
    """A starting time after a queue's last message gives nothing, or an error if the strategy asks for one."""
    options = {"startingOffsetsByTimestamp": '{"orders": {"0": 4000000000000}}', "assign": '{"orders": [0]}'}
    assert len(frames.table(basic(), **options)) == 0
    with pytest.raises(DataLossError, match="4000000000000"):
        frames.table(basic(), startingOffsetsByTimestampStrategy="error", **options)


def test_items_of_records_that_were_cut(tmp_path: Path) -> None:
    """An index item that leads to no record is passed over, one that leads to a damaged record is an error."""
    store = grown(tmp_path, 50, 0)
    places = frames.table(store)["physicalOffset"].to_pylist()
    for index in (store / paths.INDEX).iterdir():
        index.write_bytes(index.read_bytes().replace(places[7].to_bytes(8), (places[7] + 3).to_bytes(8)))
    assert frames.plan(store, keys="k7").scan == "key"
    assert len(frames.table(store, keys="k7")) == 0
    assert len(frames.table(store, keys="k7,k8")) == 1
    file = store / paths.COMMIT_LOG / paths.offset_name(0)
    log = bytearray(file.read_bytes())
    log[places[8] + 88] ^= 1
    file.write_bytes(log)
    with pytest.raises(DamagedLogError, match=f"log offset {places[8]}"):
        frames.table(store, keys="k8")
    assert len(frames.table(store, keys="k8", failOnDataLoss="false")) == 0


def test_a_store_without_messages(tmp_path: Path) -> None:
    """A frame of an empty store has all columns and no row, whatever is asked."""
    reput.MessageStore.open(tmp_path, create=True).close()
    for question in ({}, {"subscribePattern": "o.*"}, {"keys": "k"}, {"scan": "queue"}, {"startingTimestamp": 5}):
        assert len(frames.table(tmp_path, **question)) == 0


@pytest.mark.golden
@pytest.mark.parametrize("question", [{}, {"startingOffsets": '{"orders": {"0": 700}}'}], ids=repr)
@pytest.mark.parametrize("scan", ["auto", "queue"])
@pytest.mark.parametrize("hurt", ["cut", "cut at an entry", "gap"])
def test_a_queue_that_is_not_whole_hides_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hurt: str, scan: str, question: dict[str, Any]
) -> None:
    """A queue whose file was cut, or is missing in the middle, is read from the log, with a warning."""
    store = golden.unpack("basic", tmp_path)
    files = sorted((store / paths.CONSUME_QUEUE / "orders" / "0").iterdir())
    if hurt == "gap":
        files[1].unlink()
    else:
        os.truncate(files[2], 3333 if hurt == "cut" else 3340)
    asked = {"topic": "orders", "scan": scan, **question}
    expected = frames.table(basic(), **{**asked, "scan": "log"})
    with caplog.at_level("WARNING", "reput.connect"):
        assert frames.in_order(frames.table(store, **asked)) == frames.in_order(expected)
    assert "All of the log is read instead" in caplog.text


def test_a_queue_that_ends_before_its_records_do(tmp_path: Path) -> None:
    """Entries missing below the frontier are noticed, because the log above it continues with higher numbers."""
    store = grown(tmp_path, 400, 400)
    for file in sorted((store / paths.CONSUME_QUEUE / "orders" / "0").iterdir())[1:]:
        file.write_bytes(bytes(file.stat().st_size))
    assert frames.plan(store, scan="queue", topic="orders").scan == "log"
    assert len(frames.table(store, scan="queue", topic="orders")) == len(
        frames.table(store, scan="log", topic="orders")
    )


@pytest.mark.parametrize("question", [{}, {"topic": "orders"}, {"keys": "k44", "topic": "clicks"}])
def test_a_plan_lists_a_store_once(question: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan lists the IndexFiles once, and reads the frontier and topics.json once."""
    path = golden.unpack("basic", tmp_path)
    reput.rebuild(path, spark=False)
    (path / paths.CONFIG).mkdir(exist_ok=True)
    (path / paths.CONFIG / "topics.json").write_text('{"topicConfigTable":{}}')
    seen: Counter[str] = Counter()
    list_dir, read_bytes = fs.list_dir, fs.read_bytes

    def listed(folder: Path | str) -> Any:
        seen[Path(folder).name] += 1
        return list_dir(folder)

    def read(file: Path | str, *args: int) -> bytes | None:
        seen[Path(file).name] += 1
        return read_bytes(file, *args)

    monkeypatch.setattr(fs, "list_dir", listed)
    monkeypatch.setattr(fs, "read_bytes", read)
    explain({"path": str(path), **question})
    assert [seen[name] for name in (paths.INDEX, own.FRONTIER_NAME, "topics.json")] == [1, 1, 1]
