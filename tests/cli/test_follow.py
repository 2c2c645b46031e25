"""`reput follow`: ends when caught up or at a signal, says where it is, and refuses what it cannot do."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest

import reput
from reput.cli.follow import _LiveLine
from reput.cli.main import run
from reput.pipeline.follow.follow import Follow, FollowProgress
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.frontier import read_frontier
from reput.store.disk.layout import find_store
from reput.store.info.info import store_info
from support import golden, stores
from support.broker import broker_at_work
from support.checked import assert_sound
from support.disks import spoiled_disk
from support.processes import in_session
from support.records import LogBuilder

SMALL = ("--set", "mappedFileSizeConsumeQueue=200", "--set", "maxHashSlotNum=16", "--set", "maxIndexNum=8")
LOOP = ("--no-spark", *SMALL)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that has nothing but its log."""
    log = LogBuilder(4096)
    for number in range(50):
        log.message("ab"[number % 2], keys=f"k{number % 5}", tags="t")
    return stores.with_log(tmp_path, log)


@contextlib.contextmanager
def following(store: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A follower in a process and a session of its own, which has taken in the store's messages."""
    with subprocess.Popen(
        [sys.executable, "-m", "reput", "follow", store, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(reput.__file__).parents[1])},
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            assert "error" not in json.loads(line), line
            if json.loads(line)["messages"] == 50:
                break
        yield process


def test_until_caught_up(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with exit code 0, says what it did on stderr, and leaves a sound store."""
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 0
    reported = capsys.readouterr()
    assert reported.out == ""
    assert "caught up; 50 messages in " in reported.err
    assert_sound(store, stores.SMALL)


def test_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each line is one document; the last says that nothing is left."""
    assert run(["follow", str(store), "--until-caught-up", "--json", *LOOP]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["lag_bytes"] == 0
    assert lines[-1]["messages"] == 50
    assert lines[-1]["durable"] == lines[-1]["frontier"]


def test_quiet(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --quiet a run that works says nothing."""
    assert run(["follow", str(store), "--until-caught-up", "--quiet", *LOOP]) == 0
    reported = capsys.readouterr()
    assert (reported.out, reported.err) == ("", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(number: signal.Signals, store: Path) -> None:
    """SIGTERM ends it cleanly with 0, Ctrl-C with 130; what was taken in is durable either way."""
    with following(store, *LOOP) as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == (0 if number is signal.SIGTERM else 130), errors
    assert "Traceback" not in errors
    assert_sound(store, stores.SMALL)
    assert stores.leftovers(store) == []


@pytest.mark.spark
def test_sigterm_to_all_of_it(store: Path) -> None:
    """SIGTERM to every process of a follower on Spark, as a service's stop sends it, is a good end: exit code 0."""
    with following(store, "--master", "local[1]", *SMALL) as process:
        # Spark's own processes have groups of their own.
        for one in in_session(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors
    assert_sound(store, stores.SMALL)
    until = time.monotonic() + 120
    while (left := in_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


def test_refusals(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No store, a broker, a second follower, options that contradict: exit code 2 and a reason."""
    assert run(["follow", str(tmp_path / "nowhere"), *LOOP]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert run(["follow", str(store), "--master", "local[2]", *LOOP]) == 2
    assert "give one of them" in capsys.readouterr().err
    with broker_at_work(store):
        assert run(["follow", str(store), *LOOP]) == 2
    assert "running broker" in capsys.readouterr().err
    first = Follow(store, LoopEngine(), stores.SMALL)
    assert run(["follow", str(store), "--json", *LOOP]) == 2
    reported = capsys.readouterr()
    assert json.loads(reported.out)["error"]["kind"] == "StoreLockedError"
    assert "Stop it first, or keep it" in reported.err
    first.close()


def test_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage in the log ends it with exit code 1, naming the offset; what came before is indexed."""
    log = LogBuilder(4096)
    placed = [log.message("a", keys="k") for _ in range(20)]
    store = stores.with_log(tmp_path, log)
    file = store / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[placed[5].offset + 4] ^= 0xFF
    file.write_bytes(data)
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 1
    assert f"{placed[5].offset}" in capsys.readouterr().err
    assert len(stores.entries(store, "a")[1]) == 5


def test_a_cut_queue_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cut queue file is reported by name with the remedy and exit code 1, and nothing is called caught up."""
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 0
    cut = max((store / "consumequeue" / "a" / "0").iterdir())
    for size in (100, 33):
        os.truncate(cut, size)
        capsys.readouterr()
        assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 1
        reported = capsys.readouterr().err
        assert str(cut) in reported
        assert "reput rebuild" in reported
        assert "caught up" not in reported
    os.truncate(cut, 0)
    assert run(["rebuild", str(store), *LOOP]) == 0
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 0
    assert_sound(store, stores.SMALL)


def test_follow_says_caught_up_and_then_fails(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a full disk nothing is called caught up before the error: the line says how far the indexes lag."""
    with spoiled_disk("open_sized", errno.ENOSPC, 1, "consume"):
        assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 2
    reported = capsys.readouterr().err
    assert "No space left on device" in reported
    assert "caught up" not in reported
    assert " to index (about " in reported
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "caught up" in line]
    assert len(lines) == 1
    assert lines[0].startswith("caught up; 50 messages")
    assert_sound(store, stores.SMALL)


def test_a_line_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The live line is silent where it would repeat itself, and an error leaves nothing called caught up."""
    line = _LiveLine(as_json=False, quiet=False)
    done = FollowProgress("catching up", frontier=7, durable=7)
    line.show(done)
    line.end(replace(done, state="idle"), failed=False)
    assert capsys.readouterr().err.count("caught up") == 1
    _LiveLine(as_json=False, quiet=False).end(done, failed=True)
    assert capsys.readouterr().err == ""


def no_spark(*_: object, **__: object) -> None:
    """In place of the start of Spark."""
    pytest.fail("Spark was started")


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "ext", "batch", "rocksdb", "double"])
def test_nothing_to_do_on_a_brokers_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a store that RocketMQ closed it ends without Spark, and leaves a frontier, so that the next one knows.

    Databases and queue files say by their last entry how far they are. Records after it that have no entry there are
    taken in, and give no new entries.
    """
    monkeypatch.setattr("reput.pipeline.spark.session.start_context", no_spark)
    store = golden.unpack(name, tmp_path)
    assert read_frontier(find_store(store, reput.StoreConfig())) is None
    end = store_info(store).log.max_offset
    later = takewhile(lambda record: not record.is_queued or record.is_batch, reversed(golden.records(store)))
    for taken in ({0, len(list(later))}, {0}):
        assert run(["follow", str(store), "--until-caught-up"]) == 0
        reported = capsys.readouterr().err
        assert any(f"caught up; {count} messages in" in reported for count in taken)
        assert "Starting" not in reported
        frontier = read_frontier(find_store(store, reput.StoreConfig()))
        assert frontier is not None
        assert (frontier.queue_offset, frontier.index_offset) == (end, end)
    assert_sound(store)
    with reput.MessageStore.open(store, reput.StoreConfig(), create=True) as opened:
        assert opened.behind_bytes == 0


def test_nothing_to_do_on_a_store_of_ours(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store whose indexes are complete needs neither Spark nor compiled kernels, with any engine."""
    assert run(["follow", str(store), "--until-caught-up", *LOOP]) == 0
    monkeypatch.setattr("reput.pipeline.spark.session.start_context", no_spark)
    for engine in (("--spark",), ("--master", "local[1]"), ("--no-spark",), ()):
        capsys.readouterr()
        assert run(["follow", str(store), "--until-caught-up", *engine, *SMALL]) == 0
        assert "caught up; 0 messages" in capsys.readouterr().err
    code = (
        "import sys; from reput.cli.main import run\n"
        f"assert run({['follow', str(store), '--until-caught-up', '--quiet', *SMALL]!r}) == 0\n"
        "assert not {'pyspark', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_little_to_do_needs_no_spark(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little log is taken in by this process where no engine was asked for, more by Spark."""
    started = []

    def start_context(*_: object, **__: object) -> None:
        started.append(1)
        raise reput.EngineError("no Spark here")

    monkeypatch.setattr("reput.pipeline.spark.session.start_context", start_context)
    for asked in (("--spark",), ("--master", "local[1]")):
        assert run(["follow", str(store), "--until-caught-up", *asked, *SMALL]) == 2
    monkeypatch.setattr("reput.api.LITTLE_BYTES", 1000)
    assert run(["follow", str(store), "--until-caught-up", *SMALL]) == 2
    assert len(started) == 3
    monkeypatch.undo()
    monkeypatch.setattr("reput.pipeline.spark.session.start_context", no_spark)
    assert run(["follow", str(store), "--until-caught-up", *SMALL]) == 0
    assert_sound(store, stores.SMALL)


@pytest.mark.parametrize("verb", ["rebuild", "check", "follow", "export", "convert"])
def test_the_wait_for_spark_is_told(
    verb: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every verb that starts Spark says so before it waits, unless it runs with --quiet."""

    def launch(*_: object) -> None:
        assert ("Starting Spark ...\n" in capsys.readouterr().err) == (quiet == ())
        raise OSError("no Java here")

    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr("reput.pipeline.spark.session._launch_gateway", launch)
    more = {"export": ("--folder", str(tmp_path / "out")), "convert": ("--to", "both")}
    for quiet in ((), ("--quiet",)):
        assert run([verb, str(store), "--spark", *SMALL, *more.get(verb, ()), *quiet]) == 2
        assert "no Java here" in capsys.readouterr().err
