"""A head start: tasks run here until Spark has started, then in Spark, and no start stays."""

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
from reput.errors import DamagedStoreError, EngineError
from reput.pipeline.spark import head_start
from reput.pipeline.spark.head_start import HeadStartEngine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.spark.starting import StartingContext
from support import stores
from support.processes import in_session
from support.records import LogBuilder
from support.waiting import wait_until

SMALL = ("--set", "mappedFileSizeConsumeQueue=200", "--set", "maxHashSlotNum=16", "--set", "maxIndexNum=8")


class Start:
    """A start of Spark that ends after this number of looks."""

    def __init__(self, looks: int, end: SparkContext | EngineError) -> None:
        self.looks = looks
        self.end = end
        self.given_up = False

    @property
    def is_done(self) -> bool:
        """True once there were that many looks."""
        self.looks -= 1
        return self.looks < 0

    def result(self) -> SparkContext:
        """Return the context, or raise the error."""
        if isinstance(self.end, EngineError):
            raise self.end
        return self.end

    def give_up(self) -> None:
        """Remember that it was given up."""
        self.given_up = True


class Notes(ProgressListener):
    """A listener that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


@pytest.fixture(autouse=True)
def _worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_start, "WORTH_S", 0.0)


def _where(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.spark
@pytest.mark.parametrize("here", [2, 3, 5])
def test_tasks_run_here_until_spark_has_started(here: int, spark: SparkContext) -> None:
    """The first tasks run in this process, the others in Spark; results and progress are those of one stage."""
    seen: list[tuple[int, int]] = []
    start = Start(here - 2, spark)
    engine = HeadStartEngine(lambda: start, threads=1)  # type: ignore[arg-type, return-value] - it plays a start
    results = engine.run(_where, range(5), lambda done, total: seen.append((done, total)))
    assert [number for number, _ in results] == [0, 1, 2, 3, 4]
    assert [process == os.getpid() for _, process in results] == [number < here for number in range(5)]
    assert seen[:here] == [(number, 5) for number in range(1, here + 1)]
    assert seen[-1] == (5, 5)
    assert sorted(seen) == seen


@pytest.mark.spark
def test_a_later_stage_is_sparks_alone(spark: SparkContext) -> None:
    """Once Spark is there, it has all tasks, also those of jobs in the background."""
    start = Start(1, spark)
    engine = HeadStartEngine(lambda: start, threads=1)  # type: ignore[arg-type, return-value] - it plays a start
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


def test_a_start_that_fails_is_noted() -> None:
    """This process does all tasks if Spark does not start, and says why."""
    listener, start = Notes(), Start(0, EngineError("no Spark here"))
    engine = HeadStartEngine(lambda: start, listener, 2)  # type: ignore[arg-type, return-value] - it plays a start
    for _ in range(2):
        results = engine.run(_where, range(9), lambda *_: None)
        assert results == [(number, os.getpid()) for number in range(9)]
    assert listener.notes == ["Spark did not start, so this process does all tasks: no Spark here"]


def test_a_start_that_is_refused_is_noted() -> None:
    """This process does all tasks if there is no Java, and says why."""
    listener = Notes()

    def begin() -> StartingContext:
        raise EngineError("no Java found")

    results = HeadStartEngine(begin, listener, 2).run(_where, range(9), lambda *_: None)
    assert results == [(number, os.getpid()) for number in range(9)]
    assert listener.notes == ["Spark did not start, so this process does all tasks: no Java found"]


def test_short_stages_start_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is started if the rest of a stage takes longer than its start is worth, and else not."""
    monkeypatch.setattr(head_start, "WORTH_S", 3600.0)
    engine = HeadStartEngine(lambda: pytest.fail("Spark was started"), threads=2)
    assert len(engine.run(_where, range(40), lambda *_: None)) == 40


def test_the_first_error_in_the_order_of_tasks_is_raised() -> None:
    """A failed task ends the stage: no further task begins, and the running ones end first."""
    seen: list[int] = []

    def fail(number: int) -> int:
        seen.append(number)
        if number >= 3:
            raise DamagedStoreError(f"task {number}")
        return number

    with pytest.raises(DamagedStoreError, match="task 3"):
        HeadStartEngine(None, threads=2).run(fail, range(100), lambda *_: None)
    assert len(seen) < 10


def test_threads_take_tasks_at_once() -> None:
    """There are as many tasks at a time as threads."""
    both = threading.Barrier(2, timeout=30)
    assert HeadStartEngine(None, threads=2).run(lambda _: both.wait() >= 0, range(2), lambda *_: None) == [True, True]


GIVEN_UP = """
import sys, time
from reput.pipeline.spark.session import active_context, start_context
from reput.pipeline.spark.starting import StartingContext
from support.processes import in_session
import os

starting = StartingContext()
if sys.argv[1] != "at once":
    while "java" not in in_session(os.getsid(0)).values() and not starting.is_done:
        time.sleep(0.01)
    time.sleep(float(sys.argv[1]))
was_done = starting.is_done
starting.give_up()
assert starting.is_done
assert (active_context() is not None) == was_done
until = time.monotonic() + 30
while not was_done and "java" in in_session(os.getsid(0)).values() and time.monotonic() < until:
    time.sleep(0.02)
assert was_done or "java" not in in_session(os.getsid(0)).values()
print(start_context("local[1]").parallelize([1, 2], 2).map(lambda x: x + 1).collect(), was_done)
"""


@pytest.mark.spark
@pytest.mark.parametrize("when", ["at once", "0", "0.3", "0.8", "1.2", "1.6"])
def test_a_start_is_given_up_at_any_time(when: str) -> None:
    """A start that is given up leaves no JVM and prints nothing, and Spark can be started again."""
    run = _python("-c", GIVEN_UP, when)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("[2, 3] ")
    assert run.stderr == ""


@pytest.mark.spark
def test_a_small_job_does_not_wait_for_spark(tmp_path: Path) -> None:
    """A rebuild ends with the indexes of any other, and leaves neither a JVM nor words about one."""
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
