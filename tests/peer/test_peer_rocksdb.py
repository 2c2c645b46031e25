"""RocketMQ opens the RocksDB that reput rebuilt, converted or wrote, answers the same from it, and writes on."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import reput
from peer import peer as program
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.topics.lite_topics import is_light
from reput.queue.file_kind import FileKind
from support import databases, dying, golden, kinds, stores
from support.checked import assert_sound
from support.inner import topics_json
from support.search import takes_long
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import ModuleType

pytestmark = [pytest.mark.peer, pytest.mark.golden]

OPTIONS = {name: program.GOLDEN_KINDS[name] for name in ("rocksdb", "double")}
ROCKSDB = config_of("rocksdb", kinds.CONFIG)


def answers_of(path: Path) -> list[dict[str, object]]:
    """The golden answers."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", OPTIONS)
def test_rebuilt(
    name: str, peer: ModuleType, unpack: Callable[[str], Path], golden_answers: Callable[[str], Path]
) -> None:
    """Every golden question is answered from a rebuilt database as from RocketMQ's own."""
    store = unpack(name)
    reput.rebuild(store, spark=False, config=stores.GOLDEN)
    assert peer.run("ask", store, golden_answers(name), *peer.GOLDEN_SETTINGS, *OPTIONS[name]) == answers_of(
        golden_answers(name)
    )


def named(queues: Iterable[tuple[str, int]]) -> list[str]:
    """Options that let RocketMQ know these queues."""
    return [word for topic, queue_id in queues for word in ("--queue", f"{topic}@{queue_id}")]


def test_converted_and_appended_to(peer: ModuleType, tmp_path: Path) -> None:
    """A store of files becomes one of RocksDB: RocketMQ appends to it, and reput reads old and new."""
    store = golden.unpack("basic", tmp_path)
    reput.convert(store, to="rocksdb", spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(store, ROCKSDB, read_only=True) as opened:
        before = {(topic, queue): end for topic, queue, _, end in opened.queues()}
    peer.run("append", store, 200, *peer.GOLDEN_SETTINGS, *OPTIONS["rocksdb"], *named(before))
    with reput.MessageStore.open(store, ROCKSDB, create=True) as opened:
        after = {(topic, queue): end for topic, queue, _, end in opened.queues()}
        assert sum(after.values()) == sum(before.values()) + 200
        assert all(after[key] >= end for key, end in before.items())
        opened.put_message(reput.Message("orders", b"ours"), 0)
        opened.reput(spark=False)
    assert_sound(store, ROCKSDB)


@pytest.mark.parametrize("how", ["closed", "half indexed"])
def test_written_by_reput(how: str, peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ has every message of a RocksDB store that reput wrote, also if the database lacks the end of the log."""
    path = tmp_path / "store"
    store = kinds.open_store(path, ROCKSDB)
    kinds.put_kinds(store, 300, 1)
    store.reput(spark=False)
    kinds.put_kinds(store, 300, 2)
    spans = {(topic, queue): (begin, end) for topic, queue, begin, end in store.queues()}
    store.close(reput=how == "closed")
    twin = stores.copy(path, tmp_path / "twin")
    _, *queues = peer.run("dump", path, *peer.GOLDEN_SETTINGS, *OPTIONS["rocksdb"], *named(spans))
    found = {tuple(queue["queue"]): (queue["min"], queue["max"]) for queue in queues}
    assert found == spans
    with kinds.open_store(twin, ROCKSDB) as store:
        store.reput(spark=False)
    ours = databases.entries(databases.rocksdb(twin))
    for queue in queues:
        topic, queue_id = queue["queue"]
        mine = ours[next(key for key in ours if key.topic.decode() == topic and key.queue_id == queue_id)]
        assert [[offset, *entry] for offset, entry in mine.items()] == [entry[:4] for entry in queue["entries"]]
    peer.run("append", path, 50, *peer.GOLDEN_SETTINGS, *OPTIONS["rocksdb"], *named(spans))
    with kinds.open_store(path, ROCKSDB) as store:
        assert sum(end for _, _, _, end in store.queues()) == sum(end for _, end in spans.values()) + 50
    assert_sound(path, ROCKSDB)


LIGHT = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true")


def light_messages(seed: int, count: int) -> list[dict[str, Any]]:
    """Messages for the peer's command `put`; most have entries in light queues, too."""
    rng, found = random.Random(seed), []
    for number in range(count):
        properties = {"UNIQ_KEY": f"U{seed}-{number}", "TAGS": rng.choice(("paid", "sent", "退款"))}
        if rng.random() < 0.7:
            names = rng.sample(("%LMQ%a", "%LMQ%b", "%LMQ%订单", f"%LMQ%{rng.randrange(20)}"), rng.randrange(1, 4))
            properties["INNER_MULTI_DISPATCH"] = ",".join(names)
        found.append(
            {"topic": "orders", "queue": rng.randrange(3), "body": "x" * rng.randrange(99), "properties": properties}
        )
    return found


def without_begins(content: dict[str, dict[bytes, bytes]]) -> dict[str, dict[bytes, bytes]]:
    """A database's content but for where queues begin, which RocketMQ writes when somebody asks."""
    ends = {key: value for key, value in content[fmt.OFFSET_FAMILY].items() if b"\x01min\x01" not in key}
    return {**content, fmt.OFFSET_FAMILY: ends}


def test_light_queues(peer: ModuleType, tmp_path: Path) -> None:
    """Light queues have the keys and values in our database that they have in RocketMQ's, and each goes on with it."""
    config, store = replace(ROCKSDB, enable_lmq=True), tmp_path / "store"
    options = (*peer.GOLDEN_SETTINGS, *OPTIONS["rocksdb"], *LIGHT)

    def put(seed: int) -> None:
        lines = "\n".join(json.dumps(one) for one in light_messages(seed, 400)).encode()
        assert {one["status"] for one in peer.run("put", store, *options, stdin=lines)} == {"PUT_OK"}

    put(1)
    theirs = without_begins(databases.content(store))
    copy = stores.copy(store, tmp_path / "copy")
    reput.rebuild(copy, spark=False, config=config, only="queue")
    assert without_begins(databases.content(copy)) == theirs
    assert sum(b"%LMQ%" in key for key in theirs[fmt.ENTRY_FAMILY]) > 300
    with reput.MessageStore.open(store, config, create=True) as opened:
        for one in light_messages(2, 300):
            message = reput.Message(one["topic"], one["body"].encode(), properties=one["properties"])
            assert opened.put_message(message, one["queue"]).status is reput.PutStatus.PUT_OK
        spans = {(topic, queue): (begin, end) for topic, queue, begin, end in opened.queues()}
    _, *queues = peer.run("dump", stores.copy(store, tmp_path / "asked"), *options, *named(spans))
    assert {tuple(queue["queue"]): (queue["min"], queue["max"]) for queue in queues} == spans
    ours = databases.entries(databases.rocksdb(store))
    for queue in queues:
        topic, queue_id = queue["queue"]
        mine = ours[QueueKey(topic.encode(), queue_id)]
        assert [[offset, *entry] for offset, entry in mine.items()] == [entry[:4] for entry in queue["entries"]]
    put(3)
    assert_sound(store, config)


def test_killed(peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ recovers the entries in the database's own log after a kill, and the rest from the CommitLog."""
    path = tmp_path / "store"
    dying.run(path, 2, "after")
    assert max(file.stat().st_size for file in (path / "consumequeue").glob("*.log")) > 0
    with reput.MessageStore.open(path, dying.BOTH, read_only=True) as store:
        spans = {(topic, queue): (begin, end) for topic, queue, begin, end in store.queues()}
    _, *queues = peer.run("dump", path, *peer.GOLDEN_SETTINGS, *OPTIONS["rocksdb"], *named(spans))
    assert {tuple(queue["queue"]): (queue["min"], queue["max"]) for queue in queues} == spans


DOUBLE = "rocksdbCQDoubleWriteEnable=true"
LIGHT_ALONE = "combineCQUseRocksdbForLmq=true"
SELECTIVE = "rocksdbCQSelectiveDoubleWriteEnable=true"
PARENT = "sessions"
LITE_QUEUES = {f"%LMQ%${PARENT}${name}" for name in ("user-1", "会话")}


class Placed(NamedTuple):
    """Settings, and the kinds of topics that files and database have with them."""

    settings: tuple[str, ...]
    files: str
    database: str


PLACED = {
    "light alone": Placed((DOUBLE, LIGHT_ALONE), "plain parent", "plain parent light lite"),
    "separate": Placed(
        ("storeType=defaultRocksDB", "useSeparateStorePathForRocksdbCQ=true"), "", "plain parent light lite"
    ),
    "selective": Placed((DOUBLE, SELECTIVE), "plain parent light lite", "parent lite"),
    # RocketMQ then keeps light queues of other topics nowhere.
    "light alone and selective": Placed((DOUBLE, LIGHT_ALONE, SELECTIVE), "plain parent", "parent lite"),
}


IN_THE_SUITE = ("separate", "light alone and selective")
"""Placements that have all rules between them."""


def kinds_of(topics: Iterable[bytes]) -> str:
    """The kinds of some topics: plain ones, the parent of lite topics, light queues, and those that are lite topics."""
    lite = {name.encode() for name in LITE_QUEUES}
    found = {
        "lite" if topic in lite else "light" if is_light(topic) else "parent" if topic == PARENT.encode() else "plain"
        for topic in topics
    }
    return " ".join(sorted(found, key=("plain", "parent", "light", "lite").index))


def lite_messages(seed: int, count: int) -> list[dict[str, Any]]:
    """Messages with light queues, and as many of lite topics."""
    rng, found = random.Random(seed), light_messages(seed, count)
    for number in range(count):
        queue = rng.choice(sorted(LITE_QUEUES))
        properties = {
            "UNIQ_KEY": f"L{seed}-{number}",
            "__LITE_TOPIC": queue.split("$")[2],
            "INNER_MULTI_DISPATCH": queue,
        }
        found.append({"topic": PARENT, "queue": rng.randrange(3), "body": f"lite {number}", "properties": properties})
    rng.shuffle(found)
    return found


@pytest.mark.parametrize(
    "placed", [name if name in IN_THE_SUITE else pytest.param(name, marks=takes_long) for name in PLACED]
)
def test_placed_queues(placed: str, peer: ModuleType, tmp_path: Path) -> None:
    """Both sides put turn about into queues of one placement, find every queue alike, and leave each in its place."""
    store, sets, has_place = tmp_path / "store", PLACED[placed].settings, " ".join(PLACED[placed][1:]).split()
    config = kinds.CONFIG.updated([*sets, "enableLmq=true", "enableMultiDispatch=true"])
    options = (
        *peer.GOLDEN_SETTINGS,
        *(word for one in sets for word in ("--set", one)),
        *LIGHT,
        "--lite-topic",
        PARENT,
    )
    topics_json(store, {PARENT: {"message.type": "LITE"}})
    for seed in (1, 3):
        lines = "\n".join(json.dumps(one) for one in lite_messages(seed, 100)).encode()
        assert {one["status"] for one in peer.run("put", store, *options, stdin=lines)} == {"PUT_OK"}
        assert_sound(store, config)
        with reput.MessageStore.open(store, config, create=True) as opened:
            for one in lite_messages(seed + 1, 75):
                message = reput.Message(one["topic"], one["body"].encode(), properties=one["properties"])
                assert opened.put_message(message, one["queue"]).status is reput.PutStatus.PUT_OK
            spans = {
                (topic, queue): (begin, end)
                for topic, queue, begin, end in opened.queues()
                if kinds_of([topic.encode()]) in has_place
            }
            pulled = {key: opened.get_message(*key, begin, 1000) for key, (begin, _) in spans.items()}
            places = {key: got.physical_offsets.tolist() for key, got in pulled.items()}
        asked = [{"get": [*key, at, 32, None]} for key, (begin, end) in spans.items() for at in range(begin, end, 32)]
        questions = tmp_path / "questions.jsonl.gz"
        with gzip.open(questions, "wt", encoding="utf-8") as lines_of:
            lines_of.writelines(f"{json.dumps(one)}\n" for one in asked)
        theirs: dict[tuple[str, int], list[int]] = {key: [] for key in spans}
        for one in peer.run("ask", stores.copy(store, tmp_path / f"asked-{seed}"), questions, *options, *named(spans)):
            theirs[one["get"][0], one["get"][1]] += one["phys"]
        assert theirs == places
    files = {queue.key.topic for queue in FileKind(store / paths.CONSUME_QUEUE, 0).queues()}
    in_database = {queue.key.topic for queue in databases.rocksdb(store).queues()}
    assert (kinds_of(files), kinds_of(in_database)) == PLACED[placed][1:]
    built = stores.copy(store, tmp_path / "built")
    reput.rebuild(built, spark=False, config=config)
    assert without_begins(databases.queues_content(built)) == without_begins(databases.queues_content(store))
    assert {queue.key.topic for queue in FileKind(built / paths.CONSUME_QUEUE, 0).queues()} == files
