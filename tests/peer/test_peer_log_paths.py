"""A log over several paths that RocketMQ writes: reput reads, checks and rebuilds it, and RocketMQ opens the result."""

from __future__ import annotations

import random
import shutil
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

import reput
from peer import peer as program
from peer import rounds
from peer.turns import Turn
from reput.config import StoreConfig, parse_properties
from reput.formats import paths
from support import stores
from support.checked import assert_sound
from support.search import takes_long

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.peer

MESSAGES = 1200
KIND = rounds.KINDS["file"]
CASES = [("store", "closed"), ("store", "killed"), pytest.param("broker", "closed", marks=takes_long)]


def open_turn(name: str, folder: Path, lines: list[str]) -> Turn:
    """Start RocketMQ on the store of a folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    options = [*KIND.options, *(word for line in lines for word in ("--set", line))]
    return Turn(program.turn_words(name, folder / "store", home, *options), home)


def alike(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same answers, with the messages of a key in any order: after a kill RocketMQ may index one a second time."""
    return [{**one, "phys": sorted(set(one["phys"]))} if "key" in one else one for one in answers]


@pytest.mark.parametrize(("name", "end"), CASES)
def test_a_log_over_two_paths(name: str, end: str, tmp_path: Path) -> None:
    """Each answer is RocketMQ's, all is sound, and a rebuild from the log alone has the same files and answers."""
    reason = program.available(name)
    if reason is not None:
        pytest.skip(reason)
    store, disks = tmp_path / "store", [tmp_path / "disk1", tmp_path / "disk2"]
    lines = [f"storePathCommitLog={disks[0]},{disks[1]}"]
    config = StoreConfig.from_properties(parse_properties(KIND.text)).updated(lines)
    rng = random.Random(f"{name} {end}")
    with open_turn(name, tmp_path, lines) as turn:
        turn.answer()
        put = list(islice(rounds.messages(rng, 0, KIND), MESSAGES))
        placed = list(turn.stream(put, most=20))
        assert {one["status"] for one in placed} == {"PUT_OK"}
        turn.ask([{"await": "dispatch"}])
        asked = list(questions(rng, put))
        wanted = turn.ask(asked)
        turn.close() if end == "closed" else turn.kill_now()
    assert all(len(list(disk.iterdir())) > 1 for disk in disks)
    assert not (store / paths.COMMIT_LOG).exists()

    def ours() -> list[dict[str, Any]]:
        with reput.MessageStore.open(store, config, read_only=True, limits=rounds.BROKER_LIMITS) as opened:
            for line, one in zip(put, placed, strict=True):
                message = opened.message_at(one["offset"])
                assert message is not None
                assert message.body == line["body"].encode()
            return [rounds.answer(opened, question) for question in asked]

    assert alike(ours()) == alike(wanted)
    assert_sound(store, config)
    before = stores.indexes(store)
    for folder in (paths.CONSUME_QUEUE, paths.INDEX):
        shutil.rmtree(store / folder)
    reput.rebuild(store, spark=False, config=config)
    if end == "closed":
        # The new checkpoint calls more durable.
        assert {**stores.indexes(store), paths.CHECKPOINT: b""} == {**before, paths.CHECKPOINT: b""}
    assert_sound(store, config)
    assert alike(ours()) == alike(wanted)
    with open_turn(name, tmp_path, lines) as turn:
        turn.answer()
        assert alike(turn.ask(asked)) == alike(wanted)
        turn.close()


def questions(rng: random.Random, put: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Questions about the log, each queue, and some keys."""
    asked: list[dict[str, Any]] = [{"log": []}]
    for topic in rounds.TOPICS:
        for queue_id in range(rounds.QUEUES):
            asked += [{"queue": [topic, queue_id]}, *({"get": [topic, queue_id, at, 32]} for at in range(0, 200, 32))]
    chosen = [one for one in rng.sample(put, 60) if "KEYS" in one["properties"]]
    return asked + [{"key": [one["topic"], one["properties"]["KEYS"].split()[0], 64]} for one in chosen]
