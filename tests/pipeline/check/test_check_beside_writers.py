"""A check beside a process that appends judges what is confirmed and indexed, and finds nothing else."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.check.rules import NOTE
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import find_store
from reput.store.owner.holders import Who
from reput.store.owner.owner import own_store
from support import inner, stores
from support.broker import broker_at_work, indexed_store
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.config import StoreConfig
    from reput.pipeline.check.report import CheckReport

STAGES = ("decode", "reorder", "batches", "rocksdb", "queues", "index")
AGAIN = "looked at again"
PATIENCE_S = 120


class AtEveryStage(ProgressListener):
    """Does something whenever a check comes to a stage, or to one of that name alone."""

    def __init__(self, action: Callable[[], object], name: str = "") -> None:
        self.action = action
        self.name = name
        self.came = 0

    def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - a listener's arguments
        """Act."""
        assert name in STAGES
        if self.name in ("", name):
            self.came += 1
            self.action()


def check(store: Path, config: StoreConfig = CONFIG, listener: ProgressListener | None = None) -> CheckReport:
    """A check without Spark."""
    return reput.check(store, spark=False, config=config, listener=listener)


def assert_one_clean_look(report: CheckReport) -> None:
    """Nothing was found, and nothing had to be looked at twice."""
    assert [one for one in report.findings if one.severity != NOTE] == []
    assert not [note for note in report.notes if AGAIN in note]


@pytest.mark.parametrize("name", inner.KINDS)
def test_a_writer_goes_on_at_every_stage(name: str, tmp_path: Path) -> None:
    """A check reports on what was there before, whatever a writer puts and indexes between its stages."""
    config, path, rng = inner.KINDS[name], tmp_path / "store", random.Random(2)
    model = inner.Model(config)
    with inner.new_store(path, config) as store:

        def go_on() -> None:
            for _ in range(rng.randrange(1, 30)):
                model.put(store, rng)
            if rng.random() < 0.7:
                store.reput(spark=False)

        for _ in range(6):
            before = marks_of(store.layout)
            listener = AtEveryStage(go_on)
            report = check(path, config, listener)
            assert_one_clean_look(report)
            assert listener.came
            assert (report.held_by, report.log_max_offset) == (Who.WRITER, before["confirmed_offset"])
            assert report.indexes_to == before["frontier_offset"]
    assert_sound(path, config)


@pytest.mark.parametrize("name", inner.KINDS)
def test_a_writer_that_never_rests(name: str, tmp_path: Path) -> None:
    """Beside a process that puts and follows itself without a pause, every check is clean at its first look."""
    config, path = inner.KINDS[name], tmp_path / "store"
    inner.new_store(path, config).close()
    command = [sys.executable, "-m", "support.inner", str(path), name, "1"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"stored\n"
        reading = threading.Thread(target=process.stdout.read)
        reading.start()
        try:
            seen: list[tuple[int, int]] = []
            # On a busy machine the writer may not get on between two checks, or between thirty.
            deadline = time.monotonic() + PATIENCE_S
            while len(set(seen)) < 3 and time.monotonic() < deadline:
                report = check(path, config)
                assert_one_clean_look(report)
                assert (report.held_by, report.held_by_pid) == (Who.WRITER, process.pid)
                seen.append((report.log_max_offset, report.messages))
            assert seen == sorted(seen)
            assert len(set(seen)) == 3
        finally:
            process.kill()
            reading.join()


@pytest.mark.parametrize("beside_writer", [False, True])
def test_a_follower_publishes_while_check_runs(tmp_path: Path, beside_writer: bool) -> None:
    """Indexes that a follower brings forward at every stage are judged up to where the check found its frontier."""
    store = reput.MessageStore.open(tmp_path, CONFIG, create=True)
    put(store, 200, keys="k")
    if not beside_writer:
        store.close(reput=False)
    follower = Follow(tmp_path, LoopEngine(), CONFIG, max_batch_bytes=1500)
    frontiers = []
    for _ in range(6):
        report = check(tmp_path, CONFIG, AtEveryStage(follower.step))
        assert_one_clean_look(report)
        assert report.held_by == (Who.WRITER if beside_writer else Who.FOLLOWER)
        assert report.messages == 200
        frontiers.append(report.indexes_to)
    assert frontiers == sorted(set(frontiers))
    follower.close()
    store.close()
    assert_sound(tmp_path, CONFIG)


def broken(path: Path, offset: int) -> None:
    """Change a byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("file", "offset", "rule"),
    [
        (f"{paths.CONSUME_QUEUE}/t/0/{0:020d}", 25, "queue-entry-wrong"),
        (paths.INDEX, 40 + 16 * 4 + 20 + 2, "index-item-without-record"),
        (f"{paths.COMMIT_LOG}/{0:020d}", 100, "log-record"),
    ],
)
def test_damage_below_the_frontier_is_found(tmp_path: Path, file: str, offset: int, rule: str) -> None:
    """Damage in what is indexed is found beside a writer too; it counts when a second look has found it."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 40, keys="k")
        store.reput(spark=False)
        path = tmp_path / file
        broken(min(path.iterdir()) if path.is_dir() else path, offset)
        report = check(tmp_path, listener=AtEveryStage(lambda: put(store, 3, keys="k")))
        assert rule in {one.rule for one in report.findings if one.severity == "damage"}
        assert [note for note in report.notes if f"{AGAIN}: 2 looks. The earlier ones saw: " in note and rule in note]
        assert report.exit_code == 1


def test_damage_between_frontier_and_confirmed(tmp_path: Path) -> None:
    """The log is judged up to what is confirmed, though no index knows of its end yet."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 10)
        store.reput(spark=False)
        placed = put(store, 10)
        assert_one_clean_look(check(tmp_path))
        broken(tmp_path / paths.COMMIT_LOG / f"{0:020d}", placed[-1] + 88)
        (found,) = check(tmp_path).findings
        assert (found.rule, found.severity, found.offset) == ("log-record", "damage", placed[-1])
        broken(tmp_path / paths.COMMIT_LOG / f"{0:020d}", placed[-1] + 88)


def test_entries_behind_the_frontier_are_passed_over(tmp_path: Path) -> None:
    """Entries that an indexer has half written above the frontier are no finding, in queues nor in IndexFiles."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 12, keys="k")
        store.reput(spark=False)
        put(store, 5, keys="k")
        queue = tmp_path / paths.CONSUME_QUEUE / "t" / "0" / f"{20 * 10:020d}"
        data = bytearray(queue.read_bytes())
        data[40:47] = b"\x00\x00\x00\x00\x00\x00\xff"
        queue.write_bytes(data)
        (queue.parent / f"{20 * 20:020d}").write_bytes(b"")
        (tmp_path / paths.INDEX / "20991122000000000").write_bytes(b"")
        assert_one_clean_look(check(tmp_path))
        for path in (queue.parent / f"{20 * 20:020d}", tmp_path / paths.INDEX / "20991122000000000"):
            path.unlink()
    assert_sound(tmp_path, CONFIG)


def test_beside_a_broker(tmp_path: Path) -> None:
    """Beside a live broker the log is judged up to what its queues refer to, whatever the broker writes after that."""
    store, log = indexed_store(tmp_path)
    end = log.end
    for number in range(5):
        log.message("orders", keys=f"l{number}")
    log.write(store)
    with broker_at_work(store) as pid:
        report = check(store, stores.SMALL)
        assert_one_clean_look(report)
        assert (report.held_by, report.held_by_pid, report.log_max_offset) == (Who.BROKER, pid, end)
        assert report.messages == 30
        last = store / paths.COMMIT_LOG / f"{end // 4096 * 4096:020d}"
        broken(last, end % 4096 + 90)
        assert_one_clean_look(check(store, stores.SMALL))
        broken(store / paths.CONSUME_QUEUE / "orders" / "0" / f"{0:020d}", 5)
        assert [one.rule for one in check(store, stores.SMALL).findings] == ["queue-entry-wrong"]


@pytest.mark.parametrize("stage", ["decode", "queues", "index"])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_writer_comes_and_goes(tmp_path: Path, stage: str, indexed: bool) -> None:
    """A program that opens the store while a check looks, puts and closes it, makes the check look again at most."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 12, keys="k")
        store.reput(spark=False)

    def come_and_go() -> None:
        if listener.came < 3:
            with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
                put(store, 7, keys="k")
                if indexed:
                    store.reput(spark=False)

    listener = AtEveryStage(come_and_go, stage)
    report = check(tmp_path, listener=listener)
    assert report.sound, report.findings


def test_queues_are_deleted_while_check_runs(tmp_path: Path) -> None:
    """A writer that deletes a topic's queues makes a check look again, and the second look says what is there."""
    (tmp_path / paths.COMMIT_LOG).mkdir()
    inner.topics_json(tmp_path, {"other": {}})
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 12, topic="t")
        put(store, 12, topic="other")
        store.reput(spark=False)
        # The second look finds the topic gone: nobody deletes it twice.
        names = iter(["t"])
        listener = AtEveryStage(lambda: [store.delete_topic(name) for name in names], "queues")
        report = check(tmp_path, listener=listener)
        assert {one.rule for one in report.findings} == {"queue-deleted"}
        assert [note for note in report.notes if AGAIN in note]


def test_check_waits_for_a_program_that_opens(tmp_path: Path) -> None:
    """A store that is just being opened is no store in which a job is at work: the check waits for its writer."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 12)
    layout, opening = find_store(tmp_path, CONFIG), threading.Event()

    def open_slowly() -> None:
        with own_store(layout, holder=own.HOLDER_WRITER):
            opening.set()
            time.sleep(0.5)

    thread = threading.Thread(target=open_slowly)
    thread.start()
    opening.wait(10)
    assert check(tmp_path).messages == 12
    thread.join()


def test_the_command_beside_a_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reput check` says whose store it is and how far it was checked, and ends with 0."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 12)
        store.reput(spark=False)
        assert run(["check", str(tmp_path), "--no-spark"]) == 0
    out, err = capsys.readouterr()
    assert "sound up to here; the store is in use" in out
    assert "note: a reput program that puts messages, process " in err
