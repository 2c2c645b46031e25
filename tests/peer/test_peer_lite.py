"""Lite topics beside a whole broker 5.5.0: those that it wrote, and those that it would delete."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import reput
from peer import peer as program
from peer.turns import Turn
from reput.cli.main import cli
from reput.config import StoreConfig, parse_properties
from reput.formats.topics.lite_topics import LITE_TOPIC, light_queue_of
from support import golden, lite_stores
from support.checked import assert_sound
from support.search import takes_long

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peer

LIGHT = "enableLmq=true\nenableMultiDispatch=true\n"
KINDS = {
    "file": LIGHT,
    "rocksdb": LIGHT + "storeType=defaultRocksDB\n",
    "light in rocksdb": LIGHT + "rocksdbCQDoubleWriteEnable=true\ncombineCQUseRocksdbForLmq=true\n",
}
PARENTS = {"sessions": 60, "forever": -1, "empty": 5}
NAMES = ("user-1", "user-2", "会话", "a b")
GROUPS = ("agents", "审计")
MESSAGES = 300


def open_broker(folder: Path, kind: str) -> Turn:
    """Start a broker on the store of a folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    options = [word for line in (golden.CONFIG + KINDS[kind]).split() for word in ("--set", line)]
    return Turn(program.turn_words("broker", folder / "store", home, *options), home)


@pytest.fixture(autouse=True)
def _broker() -> None:
    """Skip without Maven or Java."""
    reason = program.available("broker")
    if reason is not None:
        pytest.skip(reason)


def config_of(kind: str) -> StoreConfig:
    """The same settings for reput."""
    return StoreConfig.from_properties(parse_properties(golden.CONFIG + KINDS[kind]))


def lite(store: Path) -> list[dict[str, Any]]:
    """The lines of `reput lite --json`, without any setting."""
    done = CliRunner().invoke(cli, ["lite", str(store), "--json"], standalone_mode=False)
    assert done.exception is None, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.behaviour(
    "AbstractLiteLifecycleManagerTest.testGetLiteTopicCount",
    "AbstractLiteLifecycleManagerTest.testCollectByParentTopic",
)
@pytest.mark.parametrize("kind", [next(iter(KINDS)), *(pytest.param(kind, marks=takes_long) for kind in [*KINDS][1:])])
def test_lite_topics_that_a_broker_wrote(kind: str, tmp_path: Path) -> None:
    """`reput lite` has the parents, lite topics, messages and lags of the broker, and each queue its messages."""
    rng, store = random.Random(kind), tmp_path / "store"
    with open_broker(tmp_path, kind) as turn:
        turn.answer()
        make_parents(turn, PARENTS)
        turn.ask([{"new-topic": "orders", "queues": 2, "attributes": {}}, *({"new-group": one} for one in GROUPS)])
        put = list(lines(rng))
        assert {one["status"] for one in turn.stream(put, most=20)} == {"PUT_OK"}
        turn.ask([{"await": "dispatch"}])
        theirs = {parent: turn.ask([{"lite": parent}])[0]["topics"] for parent in PARENTS}
        queues = {name: end for topics in theirs.values() for name, end in topics.items()}
        committed = {(rng.choice(GROUPS), name): rng.randrange(end + 1) for name, end in queues.items()}
        turn.ask([{"commit": [group, name, 0, at]} for (group, name), at in committed.items()])
        turn.ask([{"persist": []}])
        gets = turn.ask([{"get": [name, 0, at, 32]} for name, end in queues.items() for at in range(0, end, 32)])
        turn.close()
    counted = Counter(
        light_queue_of(one["topic"].encode(), one["lite"].encode()).decode() for one in put if "lite" in one
    )
    assert queues == counted
    *found, last = lite(store)
    assert {one["queue"]: one["messages"] for one in found} == queues
    assert {one["parent"]: one["expiration_minutes"] for one in found} == {"sessions": 60, "forever": -1}
    assert not any(one["is_expired"] for one in found)
    assert {parent: one["lite_topics"] for parent, one in last["parents"].items()} == {
        parent: len(topics) for parent, topics in theirs.items() if topics
    }
    assert {(lag["group"], one["queue"]): lag["offset"] for one in found for lag in one["lags"]} == committed
    with reput.MessageStore.open(store, read_only=True) as opened:
        for got in gets:
            ours = opened.get_message(*got["get"])
            assert ours.physical_offsets.tolist() == got["phys"]
            topic, _, offset, _ = got["get"]
            named = [message.properties[LITE_TOPIC.decode()] for message in ours]
            assert set(named) == {topic.split("$")[2]}
            assert ours.next_offset == got["next"] > offset
    assert_sound(store)
    assert_sound(store, config_of(kind))


def make_parents(turn: Turn, parents: dict[str, int]) -> None:
    """Make topics of type LITE, whose lite topics expire after some minutes."""
    for parent, minutes in parents.items():
        attributes = {"+message.type": "LITE", "+lite.topic.expiration": str(minutes)}
        turn.ask([{"new-topic": parent, "queues": 2, "attributes": attributes}])


def lines(rng: random.Random) -> list[dict[str, Any]]:
    """Messages of lite topics, and plain ones."""
    made: list[dict[str, Any]] = []
    for number in range(MESSAGES):
        line = {"topic": "orders", "queue": rng.randrange(2), "body": f"message {number}", "flag": 0, "sysFlag": 0}
        line["properties"] = {"UNIQ_KEY": f"U{number}", "TAGS": "paid"}
        if rng.random() < 0.8:
            line |= {"topic": rng.choice(("sessions", "forever")), "lite": rng.choice(NAMES)}
        made.append(line)
    return made


@takes_long
@pytest.mark.parametrize("kind", KINDS)
def test_lite_topics_that_a_broker_would_delete(kind: str, tmp_path: Path) -> None:
    """Of lite topics with messages of a day ago, and some with a fresh one, both sides call the same ones expired."""
    config = config_of(kind)
    store = lite_stores.make(tmp_path / "store", config, days_ago=1)
    fresh = light_queue_of(b"sessions", lite_stores.USERS[1].encode()).decode()
    with reput.MessageStore.open(store, config) as opened:
        properties = {LITE_TOPIC.decode(): lite_stores.USERS[1], "INNER_MULTI_DISPATCH": fresh}
        opened.put_message(reput.Message("sessions", b"a fresh one", properties=properties), 0)
    ours = {one["queue"] for one in lite(store)[:-1] if one["is_expired"]}
    asked_ms = time.time_ns() // 1_000_000
    with open_broker(tmp_path, kind) as turn:
        turn.answer()
        if kind == "rocksdb":
            # This broker keeps topics in RocksDB, and takes none from a topics.json of the same data version.
            make_parents(turn, lite_stores.LITE_TOPICS)
        theirs = set(turn.ask([{"expired": []}])[0]["expired"])
        turn.close()
    assert theirs == ours
    assert theirs == {one.decode() for one in lite_stores.LITE_QUEUES if b"$sessions$" in one} - {fresh}
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        assert {one.queue for one in opened.lite_topics(at_ms=asked_ms) if one.is_expired} == theirs
    assert_sound(store, config)
