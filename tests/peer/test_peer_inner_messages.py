"""Queues of batches and light message queues: both sides write the same stores and read them alike."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import ENTRY, QueueKey
from reput.log.encode.message import Message, PutStatus
from store.test_golden_answers import answer
from support import stores
from support.checked import assert_sound
from support.opened import BROKER_LIMITS

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from reput.store.read.view import StoreView

pytestmark = pytest.mark.peer

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=6000,
    mapper_file_size_batch_consume_queue=4600,
    max_hash_slot_num=500,
    max_index_num=2000,
    enable_lmq=True,
)
BATCHES_A_FILE = CONFIG.mapper_file_size_batch_consume_queue // BATCH_ENTRY_SIZE
BATCH = 0x80
COUNT = 2500


def options(peer: ModuleType) -> tuple[str, ...]:
    """The peer's options for the same settings and topics."""
    settings = ("enableLmq=true", "enableMultiDispatch=true", "mapperFileSizeBatchConsumeQueue=4600")
    return (*peer.GOLDEN_SETTINGS, "--batch-topic", "batches", *(word for one in settings for word in ("--set", one)))


def messages(seed: int, count: int = COUNT) -> list[dict[str, Any]]:
    """Messages of all sorts, as the peer's command `put` takes them."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        properties = {"UNIQ_KEY": f"U{seed}-{number}"}
        if rng.random() < 0.7:
            properties["TAGS"] = rng.choice(("paid", "sent", "退款"))
        message = {"topic": "orders", "queue": rng.randrange(3), "body": "x" * rng.randrange(300), "sysFlag": 0}
        match rng.randrange(5):
            case 0 | 1:
                message |= {"topic": "batches", "sysFlag": BATCH}
                properties["INNER_NUM"] = str(rng.randrange(1, 20))
            case 2:
                names = rng.sample(("%LMQ%a", "%LMQ%b", "%LMQ%订单", f"%LMQ%{rng.randrange(30)}"), rng.randrange(1, 4))
                properties["INNER_MULTI_DISPATCH"] = ",".join(names)
            case 3:
                message["topic"] = "batches"
        found.append({**message, "properties": properties})
    return found


def put_ours(store: reput.MessageStore, asked: dict[str, Any]) -> dict[str, Any]:
    """Our answer to a message for the peer's command `put`."""
    message = Message(
        asked["topic"], asked["body"].encode(), properties=asked["properties"], sys_flag=asked.get("sysFlag", 0)
    )
    result = store.put_message(message, asked["queue"])
    if result.status is not PutStatus.PUT_OK:
        return {"status": str(result.status.value)}
    return {"status": "PUT_OK", "offset": result.physical_offset, "queue_offset": result.queue_offset}


def put_theirs(peer: ModuleType, store: Path, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The peer's answers."""
    lines = "\n".join(json.dumps(one) for one in asked).encode()
    answers: list[dict[str, Any]] = peer.run("put", store, *options(peer), stdin=lines)
    return answers


def topics_json(store: Path) -> None:
    """Say that `batches` has queues of batches, as a broker does."""
    (store / "config").mkdir(parents=True, exist_ok=True)
    table = {"batches": {"attributes": {"queue.type": "BatchCQ"}, "topicName": "batches"}}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def write_ours(path: Path, seed: int, *, indexed: bool = True) -> None:
    """A store that we wrote, or go on with; its indexes are incomplete unless `indexed`."""
    (path / "commitlog").mkdir(parents=True, exist_ok=True)
    topics_json(path)
    store = reput.MessageStore.open(path, CONFIG, create=True)
    for one in messages(seed):
        assert put_ours(store, one)["status"] == "PUT_OK"
    store.close(reput=indexed)


def questions(dumped: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Pulls and look-ups by time and key over all queues."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = [{"log": []}]
    for line in dumped[1:]:
        topic, queue_id = line["queue"]
        found.append({"queue": [topic, queue_id]})
        end = line["max"]
        for offset in {0, 1, end - 1, end, end + 1, *(rng.randrange(end) for _ in range(12))}:
            for most in (1, 7, 32, 100):
                found += [{"get": [topic, queue_id, offset, most, tags]} for tags in (None, "paid", "退款 || sent")]
    for topic in ("batches", "orders", "%LMQ%a"):
        found += [{"key": [topic, f"U{seed}-{number}", 8, 0, 1 << 62]} for number in range(0, COUNT, 97)]
    return found


def time_questions(store: reput.MessageStore, seed: int) -> list[dict[str, Any]]:
    """Look-ups by time around the times of some messages of every queue."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = []
    for topic, queue_id, first, end in store.queues():
        times = {store.store_time(topic, queue_id, rng.randrange(first, end)) for _ in range(25)}
        found += [{"time": [topic, queue_id, time + shift]} for time in times for shift in (-1, 0, 1)]
        found += [{"time": [topic, queue_id, time]} for time in (0, max(times) + 100_000)]
    return found


def is_neighbour(store: reput.MessageStore, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Return True if RocketMQ answers a time with another batch of that time, or one on the other side of a gap.

    It searches in one file of the queue by halves, and stops at the first match. Their number decides which of several
    batches of one time it finds. In a gap with UPPER it also decides between the one before, the one after and none.
    With LOWER it finds the one before only where the gap is between two files.
    """
    if "time" not in theirs or theirs["time"][0] != "batches":
        return False
    topic, queue_id, _ = theirs["time"]

    def stored(offset: int) -> int:
        return store.store_time(topic, queue_id, offset)

    def number(offset: int) -> int:
        return store.view.open_kinds.batches.number_of(QueueKey(topic.encode(), queue_id), "base_offset", offset)

    lower, upper = stored(ours["lower"]), stored(ours["upper"])
    after = number(ours["lower"])
    before_the_gap = after % BATCHES_A_FILE == 0 and number(theirs["lower"]) == after - 1
    # Where it finds none it says so, and the answer becomes the queue's first offset.
    either = {upper, lower, stored(store.min_offset(topic, queue_id))}
    return (stored(theirs["lower"]) == lower or before_the_gap) and stored(theirs["upper"]) in either


def dumped_by_us(view: StoreView, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The peer's dump as we would give it: whole queues, not just their first files."""
    found = []
    for line in lines:
        if "log" in line:
            found.append(answer(view, line))
            continue
        topic, queue_id = line["queue"]
        entries, offset = [], view.min_offset(topic, queue_id)
        while offset < view.max_offset(topic, queue_id):
            rows = answer_entries(view, line, offset)
            entries += rows
            offset = rows[-1][0] + rows[-1][4]
        found.append({**line, "min": view.min_offset(topic, queue_id), "max": offset, "entries": entries})
    return found


def answer_entries(view: StoreView, line: dict[str, Any], offset: int) -> list[list[int]]:
    """The rest of a queue file, as the peer's iterator gives it."""
    topic, queue_id = line["queue"]
    key = QueueKey(topic.encode(), queue_id)
    if line["type"] == "BatchCQ":
        number = view.open_kinds.batches.number_of(key, "base_offset", offset)
        rows = view.open_kinds.batches.entries_from(key, number, 1 << 20).tolist()
        return [[base, physical, size, code, count] for physical, size, code, _, base, count, _, _ in rows]
    data = view.queues_table.entries(key, offset, view.max_offset(topic, queue_id)).tobytes()
    return [[offset + n, *values, 1] for n, values in enumerate(ENTRY.struct.iter_unpack(data))]


def assert_same_answers(peer: ModuleType, theirs: Path, ours: Path, folder: Path, seed: int) -> None:
    """RocketMQ over one copy of a store and we over the other say the same about every queue and every question."""
    dump = peer.run("dump", theirs, *options(peer))
    asked = questions(dump, seed)
    with reput.MessageStore.open(ours, CONFIG, read_only=True) as store:
        asked += time_questions(store, seed)
    path = folder / "questions.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in asked))
    answers = peer.run("ask", theirs, path, *options(peer))
    with reput.MessageStore.open(ours, CONFIG, read_only=True, limits=BROKER_LIMITS) as store:
        assert dumped_by_us(store.view, dump) == dump
        pairs = ((line, answer(store.view, line)) for line in answers)
        different = [(line, own) for line, own in pairs if own != line and not is_neighbour(store, line, own)]
    assert different == []
    assert len(answers) > 3000


def index_files(store: Path) -> dict[str, bytes]:
    """All queue files, and the IndexFiles by number."""
    found = {}
    for folder in ("consumequeue", "batchconsumequeue"):
        for path in (store / folder).rglob("*"):
            if path.is_file():
                found[str(path.relative_to(store))] = path.read_bytes()
    for number, path in enumerate(sorted((store / "index").iterdir())):
        found[f"index {number}"] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def theirs(peer: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that the peer wrote, not to be changed."""
    path = tmp_path_factory.mktemp("theirs") / "store"
    assert {one["status"] for one in put_theirs(peer, path, messages(1))} == {"PUT_OK"}
    return path


def test_their_store_is_read_as_they_read_it(peer: ModuleType, theirs: Path, tmp_path: Path) -> None:
    """Whole queues, pulls and look-ups of a store that RocketMQ wrote are answered as RocketMQ does."""
    copies = [stores.copy(theirs, tmp_path / name) for name in ("theirs", "ours")]
    topics_json(copies[1])
    assert_same_answers(peer, *copies, tmp_path, seed=1)
    assert_sound(copies[1], CONFIG)


@pytest.mark.parametrize("configured", [True, False])
def test_their_store_is_rebuilt_as_it_was(configured: bool, theirs: Path, tmp_path: Path) -> None:
    """Rebuilt from the log alone, every file of queues and index is RocketMQ's, byte for byte."""
    store = stores.copy(theirs, tmp_path / "store")
    wanted = index_files(store)
    for folder in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(store / folder)
    if configured:
        topics_json(store)
    reput.rebuild(store, spark=False, config=CONFIG, split_mb=0.1)
    assert index_files(store) == wanted


def test_puts_get_the_same_places_and_numbers(peer: ModuleType, tmp_path: Path) -> None:
    """Message for message RocketMQ and we give the same place, the same number, or refuse."""
    asked = messages(3, 400)
    more: list[dict[str, Any]] = [
        {"topic": "orders", "sysFlag": BATCH, "properties": {"INNER_NUM": "3"}},
        {"topic": "unknown", "sysFlag": BATCH, "properties": {"INNER_NUM": "3"}},
        {"topic": "orders", "properties": {"INNER_NUM": "3"}},
        {"topic": "batches", "properties": {"INNER_NUM": "3"}},
        {"topic": "batches", "sysFlag": BATCH, "properties": {}},
        {"topic": "batches", "sysFlag": BATCH, "properties": {"INNER_NUM": "32767"}},
        {"topic": "%RETRY%g", "properties": {"INNER_MULTI_DISPATCH": "%LMQ%a"}},
        {"topic": "batches", "properties": {}},
    ]
    asked += [{"queue": 1, "body": "more", **one} for one in more]
    theirs = put_theirs(peer, tmp_path / "theirs", asked)
    (tmp_path / "ours" / "commitlog").mkdir(parents=True)
    topics_json(tmp_path / "ours")
    with reput.MessageStore.open(tmp_path / "ours", CONFIG, create=True) as store:
        ours = [put_ours(store, one) for one in asked]
    assert ours == theirs
    assert [one["status"] for one in ours].count("MESSAGE_ILLEGAL") == 4


@pytest.mark.parametrize("indexed", [True, False], ids=["closed with its indexes", "closed without"])
def test_they_take_over_our_store(indexed: bool, peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ opens a store that we wrote, with its indexes or with none, and answers as we do."""
    write_ours(tmp_path / "ours", 5, indexed=indexed)
    theirs = stores.copy(tmp_path / "ours", tmp_path / "theirs")
    assert_same_answers(peer, theirs, tmp_path / "ours", tmp_path, seed=5)


def test_each_goes_on_where_the_other_ended(peer: ModuleType, tmp_path: Path) -> None:
    """Written by RocketMQ, by us, by RocketMQ and by us again, no number is given twice, and all is sound."""
    store = tmp_path / "store"
    assert {one["status"] for one in put_theirs(peer, store, messages(1, 300))} == {"PUT_OK"}
    write_ours(store, 2)
    assert {one["status"] for one in put_theirs(peer, store, messages(3, 300))} == {"PUT_OK"}
    write_ours(store, 4)
    assert_sound(store, CONFIG)
    report = reput.check(store, spark=False, config=CONFIG)
    assert [finding.rule for finding in report.findings if finding.rule == "queue-offsets"] == []
    copies = [stores.copy(store, tmp_path / name) for name in ("theirs", "ours")]
    assert_same_answers(peer, *copies, tmp_path, seed=4)
