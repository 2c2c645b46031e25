"""RocketMQ takes over a store that reput wrote, and reput takes it back: nothing is lost, and both say the same."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import reput
from store.test_golden_answers import answer
from support import golden, kinds, stores
from support.checked import assert_sound
from support.opened import BROKER_LIMITS

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.peer

COUNT = 4000
"""Messages put: some five log files, and more than one file of each queue and of the index."""
APPENDED = 600
QUESTIONS_MIN = 5000

HOW = ("closed", "half indexed", "never indexed", "killed", "killed, never indexed")


class Ours(NamedTuple):
    """A store as reput left it, the same store beside it for reput to open, and how it was left."""

    store: Path
    twin: Path
    how: str


def write_store(path: Path, how: str) -> None:
    """Write a store and leave it: closed with its indexes complete, with half of them or none, or killed."""
    if how.startswith("killed"):
        kill_while_putting(path, indexed=how == "killed")
        return
    store = kinds.open_store(path)
    kinds.put_kinds(store, COUNT // 2, seed=1)
    if how == "half indexed":
        kinds.index_half(store)
    kinds.put_kinds(store, COUNT // 2, seed=2)
    store.close(reput=how == "closed")


def kill_while_putting(path: Path, *, indexed: bool) -> None:
    """Have another process put messages, and kill it while it does."""
    words = [sys.executable, "-m", "support.kinds", str(path), str(COUNT), *(["index"] if indexed else [])]
    folders = [str(Path(reput.__file__).parents[1]), str(Path(kinds.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        line = writer.stdout.readline()
        writer.kill()
    assert line == b"stored\n"


@pytest.fixture(scope="module", params=HOW)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store as reput left it, not to be changed, and how it was left."""
    path = tmp_path_factory.mktemp("left") / "store"
    write_store(path, request.param)
    return path, request.param


@pytest.fixture
def ours(left: tuple[Path, str], tmp_path: Path) -> Ours:
    """A store that reput wrote, twice."""
    path, how = left
    copies = tmp_path / "store", tmp_path / "twin"
    for copy in copies:
        stores.copy(path, copy)
    return Ours(*copies, how)


def log_files(store: Path) -> dict[str, str]:
    """The log's files, each with the hash of its bytes."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (store / "commitlog").iterdir()}


def content(store: reput.MessageStore) -> dict[tuple[str, int], list[bytes]]:
    """Every record of every queue, pulled as a consumer does."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for topic, queue_id, begin, _ in store.queues():
        records, offset = found.setdefault((topic, queue_id), []), begin
        while len(result := store.get_message(topic, queue_id, offset, 1000)):
            records += [bytes(message.raw) for message in result]
            offset = result.next_offset
    return found


def last_indexed(store: Path) -> int:
    """Return the log offset of the last record that the IndexFiles know, from the newest header; -1 without any."""
    newest = max((store / "index").iterdir(), default=None)
    return -1 if newest is None else int.from_bytes(newest.read_bytes()[24:32], "big")


def without_repeat(got: dict[str, Any], wanted: dict[str, Any], repeated: int) -> dict[str, Any]:
    """RocketMQ's answer as it would be, had it not indexed the last record again.

    Known exception: recovering an uncleanly closed store, RocketMQ dispatches its last log files again. It skips
    records below its newest IndexFile's end, but that end is the start of the last record indexed, which so gets its
    items twice. A full answer may lose its oldest record to that.
    """
    if "key" not in got or got["phys"].count(repeated) <= wanted["phys"].count(repeated):
        return got
    phys = list(got["phys"])
    phys.remove(repeated)
    return {**got, "phys": wanted["phys"][: len(wanted["phys"]) - len(phys)] + phys}


def ask(peer: ModuleType, store: Path, questions: list[dict[str, Any]], *options: str | int) -> list[dict[str, Any]]:
    """RocketMQ's answers about a store, which it opens, recovers and closes."""
    asked = store.parent / "questions.jsonl"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions))
    answers: list[dict[str, Any]] = peer.run("ask", store, asked, *options)
    return answers


def test_rocketmq_destroys_nothing(ours: Ours, peer: ModuleType) -> None:
    """RocketMQ loads the store, recovers it if need be, and every file of log and indexes is there as it was.

    But for a log file that was made ahead and holds no record yet.
    """
    before = log_files(ours.store)
    unclean = ours.how != "closed"

    opened = peer.run("open", ours.store, *peer.GOLDEN_SETTINGS)

    after = log_files(ours.store)
    assert (True, unclean) == (opened["load"], opened["abort"])
    assert set(opened["before"]) <= set(opened["after"])
    end = opened["max_physical_offset"]
    assert [name for name, digest in before.items() if int(name) < end and digest != after.get(name)] == []


def test_rocketmq_answers_as_we_do(ours: Ours, peer: ModuleType) -> None:
    """RocketMQ answers every question about the store as our own store does, each having recovered it itself."""
    repeated = last_indexed(ours.store)
    with reput.MessageStore.open(ours.twin, kinds.CONFIG, limits=BROKER_LIMITS, create=True) as store:
        theirs = ask(peer, ours.store, list(kinds.questions(store)), *peer.GOLDEN_SETTINGS)
        pairs = [(line, answer(store.view, line)) for line in theirs]

    different = [(got, wanted) for got, wanted in pairs if without_repeat(got, wanted, repeated) != wanted]
    assert len(pairs) > QUESTIONS_MIN
    assert different == []


def test_a_long_backlog(peer: ModuleType, tmp_path: Path) -> None:
    """RocketMQ indexes a backlog of more than ten log files whole when its configuration lets it go back that far.

    By itself it goes back at most commitLogRecoverMaxNum files, 10, and would leave what is older out of its queues.
    """
    config = replace(kinds.CONFIG, mapped_file_size_commit_log=1 << 16)
    path, twin = tmp_path / "store", tmp_path / "twin"
    store = kinds.open_store(path, config)
    kinds.put_kinds(store, COUNT // 4, seed=1)
    store.close(reput=False)
    stores.copy(path, twin)
    settings = [*peer.GOLDEN_SETTINGS, "--commitlog-file", 1 << 16, "--set", "commitLogRecoverMaxNum=1000"]

    with reput.MessageStore.open(twin, config, limits=BROKER_LIMITS, create=True) as store:
        theirs = ask(peer, path, list(kinds.questions(store)), *settings)
        wanted = [answer(store.view, line) for line in theirs]

    assert len(log_files(twin)) > 10
    assert wanted == theirs


def test_both_write_on(ours: Ours, peer: ModuleType) -> None:
    """RocketMQ appends at the ends of our queues; reput notices, reads both parts, and leaves a sound store."""
    with kinds.open_store(ours.twin) as store:
        written = content(store)
    opened = peer.run("append", ours.store, APPENDED, *peer.GOLDEN_SETTINGS)
    assert [opened[count] for count in ("appended", "read_back", "found_by_key")] == [APPENDED] * 3
    for queue in opened["queues"]:
        assert queue["first"] == len(written[queue["topic"], queue["queue"]])
    with kinds.open_store(ours.store) as store:
        found = content(store)
        assert {key: records[: len(written[key])] for key, records in found.items()} == written
        assert sum(map(len, found.values())) == sum(map(len, written.values())) + APPENDED
        kinds.put_kinds(store, 50, seed=3)
    assert_sound(ours.store, kinds.CONFIG)


def test_rocketmq_cut_below_our_frontier(peer: ModuleType, tmp_path: Path) -> None:
    """The log decides after RocketMQ has cut a torn record that our indexes know, and put others in its place.

    Known exception: RocketMQ's recovery cuts log and queues, never an IndexFile. The torn record's items stay; our
    answers leave them out, `check` names them, and a rebuild of the index removes them.
    """
    path = tmp_path / "store"
    write_store(path, "closed")
    with kinds.open_store(path) as store:
        store.put_message(reput.Message("orders", b"torn later" * 50, tags="paid", keys="torn"))
        written = content(store)
    golden.damage(path, "torn")
    (path / "abort").touch()

    appended = peer.run("append", path, APPENDED, *peer.GOLDEN_SETTINGS)

    written["orders", 0].pop()
    assert appended["read_back"] == APPENDED
    with kinds.open_store(path) as store:
        found = content(store)
        assert {key: records[: len(written[key])] for key, records in found.items()} == written
        assert sum(map(len, found.values())) == sum(map(len, written.values())) + APPENDED
        assert not len(store.query_message("orders", "torn"))
        kinds.put_kinds(store, 50, seed=3)
    report = reput.check(path, spark=False, config=kinds.CONFIG)
    assert {finding.rule for finding in report.findings if finding.severity == "damage"} <= {
        "index-item-without-record"
    }
    reput.rebuild(path, spark=False, config=kinds.CONFIG, only="index")
    assert_sound(path, kinds.CONFIG)
