"""A head start: tasks run in threads of this process, and those of a long stage then in Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark import SparkContext

import reput
from reput.errors import AccessError, DamagedStoreError, EngineError
from reput.pipeline.spark import head_start
from reput.pipeline.spark.head_start import HeadStartEngine
from reput.pipeline.spark.listener import ProgressListener
from support import stores
from support.processes import in_session
from support.records import LogBuilder
from support.waiting import wait_until

SMALL = ("--set", "mappedFileSizeConsumeQueue=200", "--set", "maxHashSlotNum=16", "--set", "maxIndexNum=8")


class Notes(ProgressListener):
    """A listener that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


@pytest.fixture
def _worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark be worth its start as soon as a stage has a pace."""
    monkeypatch.setattr(head_start, "WORTH_S", 0.0)


def _where(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.spark
@pytest.mark.usefixtures("_worth")
def test_a_long_stage_has_its_rest_in_spark(spark: SparkContext) -> None:
    """The first tasks run in this process, the others in Spark; results and progress are those of one stage."""
    seen: list[tuple[int, int]] = []
    engine = HeadStartEngine(lambda: spark, threads=1)
    results = engine.run(_where, range(5), lambda finished, total: seen.append((finished, total)))
    assert [number for number, _ in results] == [0, 1, 2, 3, 4]
    assert [process == os.getpid() for _, process in results] == [True, True, False, False, False]
    assert seen[:2] == [(1, 5), (2, 5)]
    assert seen[-1] == (5, 5)
    assert sorted(seen) == seen
    assert {total for _, total in seen} == {5}


@pytest.mark.spark
@pytest.mark.usefixtures("_worth")
def test_a_later_stage_is_sparks_alone(spark: SparkContext) -> None:
    """Once Spark is there, it has all tasks, also those of jobs in the background."""
    engine = HeadStartEngine(lambda: spark, threads=1)
    assert engine.start(_where, [1]) is None
    engine.run(_where, range(4), lambda *_: None)
    [(number, process)] = engine.run(_where, [7], lambda *_: None)
    assert number == 7
    assert process != os.getpid()
    started = engine.start(_where, [1])
    assert started is not None
    [(number, process)] = started.results()
    assert number == 1
    assert process != os.getpid()


@pytest.mark.usefixtures("_worth")
@pytest.mark.parametrize(
    "error", [EngineError("no Java found"), AccessError("no Java found"), OSError("no Java found")]
)
def test_a_start_that_fails_is_noted(error: Exception) -> None:
    """Threads of this process do all tasks if Spark does not start, and the listener learns why, once."""
    listener = Notes()

    def start() -> SparkContext:
        raise error

    engine = HeadStartEngine(start, listener, 2)
    for _ in range(2):
        results = engine.run(_where, range(9), lambda *_: None)
        assert results == [(number, os.getpid()) for number in range(9)]
    assert listener.notes == ["Spark did not start, so threads of this process do all tasks: no Java found"]


@pytest.mark.usefixtures("_worth")
def test_without_pyspark_threads_do_all_tasks() -> None:
    """A long stage stays in this process if there is no Spark to start."""
    assert len(HeadStartEngine(None, threads=2).run(_where, range(40), lambda *_: None)) == 40


@pytest.mark.parametrize(("task_s", "tasks", "is_long"), [(1.0, 30, False), (1.0, 40, True), (5.0, 7, False)])
def test_the_pace_of_a_stage_decides(task_s: float, tasks: int, is_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is started if the tasks that are left would take longer than it is worth; the first one does not count."""
    now = [0.0]
    monkeypatch.setattr("reput.pipeline.spark.head_start.time.monotonic", lambda: now[0])
    started: list[int] = []

    def work(number: int) -> int:
        now[0] += 100.0 if number == 0 else task_s
        return number

    def start() -> SparkContext:
        started.append(1)
        raise EngineError("not here")

    assert HeadStartEngine(start, threads=1).run(work, range(tasks), lambda *_: None) == list(range(tasks))
    assert bool(started) == is_long


def test_the_first_error_in_the_order_of_tasks_is_raised() -> None:
    """A failed task ends the stage: no further task begins, and the running ones end first."""
    seen: list[int] = []
    later = threading.Event()

    def fail(number: int) -> int:
        seen.append(number)
        if number == 3:
            # The task after it fails before.
            assert later.wait(30)
            raise DamagedStoreError("task 3")
        if number == 4:
            later.set()
            raise DamagedStoreError("task 4")
        return number

    with pytest.raises(DamagedStoreError, match="task 3"):
        HeadStartEngine(None, threads=2).run(fail, range(100), lambda *_: None)
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_threads_take_tasks_at_once() -> None:
    """There are as many tasks at a time as threads."""
    both = threading.Barrier(2, timeout=30)
    assert HeadStartEngine(None, threads=2).run(lambda _: both.wait() >= 0, range(2), lambda *_: None) == [True, True]


def test_a_small_job_does_not_wait_for_spark(tmp_path: Path) -> None:
    """A rebuild ends with the indexes of any other, and starts no JVM."""
    log = LogBuilder(4096)
    for number in range(50):
        log.message("ab"[number % 2], keys=f"k{number % 5}", tags="t")
    store = stores.with_log(tmp_path, log)
    run = _python("-m", "reput", "rebuild", str(store), "--json", *SMALL)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["messages"] == 50
    assert "Spark" not in run.stderr
    stores.assert_as_rebuilt(store, tmp_path / "twin")


def _python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a session of its own, in which nothing is left afterwards."""
    path = os.pathsep.join([str(Path(reput.__file__).parents[1]), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        start_new_session=True, text=True,
    ) as process:  # fmt: skip
        output, errors = process.communicate(timeout=120)
    wait_until(lambda: not in_session(process.pid), "the end of all processes")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
