"""IndexFiles that are built beside the queues: the same result, the first error is raised, and no task is left."""

from __future__ import annotations

import gc
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from reput.errors import NoSpaceError
from reput.pipeline.build.index import index_files
from reput.pipeline.build.rebuild.rebuild import rebuild_store
from reput.pipeline.spark import worker_parent
from reput.pipeline.spark.engine import LoopEngine, SparkEngine, Started
from support import databases, golden, stores
from support.out_of_order import CASES, written
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark import SparkContext

    from reput.pipeline.spark.engine import A, R

BOTH = config_of("double", stores.SMALL)


class BesideEngine(LoopEngine):
    """A loop that can do a second thing beside what it does; `at_work` is held by what was started."""

    def __init__(self) -> None:
        self.started = 0
        self.at_work = threading.Semaphore()

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:
        """Begin in a thread."""
        self.started += 1
        self.at_work.acquire()

        def call(progress: Any) -> list[R]:
            try:
                return self.run(function, arguments, progress)
            finally:
                self.at_work.release()

        return Started(call)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "rocksdb", "double"])
def test_golden(name: str, tmp_path: Path) -> None:
    """Every kind of store comes out as it does one thing after the other."""
    one, other = (golden.unpack(name, tmp_path / kind) for kind in ("one", "other"))
    engine = BesideEngine()
    rebuild_store(one, LoopEngine(), stores.GOLDEN)
    report = rebuild_store(other, engine, stores.GOLDEN)
    assert engine.started == 1
    assert "index" in report.seconds
    ours, theirs = stores.indexes(other), stores.indexes(one)
    assert "index 0" in ours
    assert ours == theirs
    if name != "basic":
        assert databases.content(other) == databases.content(one)


@pytest.mark.parametrize("name", [*CASES][:3])
def test_crooked_queues(name: str, tmp_path: Path) -> None:
    """Queues that are built again in order do not shut the tasks out that build IndexFiles meanwhile."""
    store, _ = written(CASES[name], 3, tmp_path)
    rebuild_store(store, BesideEngine(), BOTH)
    databases.assert_same_queues(store)


def test_an_error_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task beside that raises ends the rebuild, and the old indexes stay."""
    store, _ = written(CASES[next(iter(CASES))], 3, tmp_path)
    stores.rebuild(store)
    before = stores.indexes(store)

    def refuse(job: Any, plan: Any) -> Any:
        raise NoSpaceError("no room for an IndexFile")

    monkeypatch.setattr(index_files, "build_index_file", refuse)
    with pytest.raises(NoSpaceError, match="no room for an IndexFile"):
        rebuild_store(store, BesideEngine(), BOTH)
    assert stores.indexes(store) == before


def test_an_error_elsewhere_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the queues is raised only when no other task is at work any more."""
    store, _ = written(CASES[next(iter(CASES))], 3, tmp_path)
    engine = BesideEngine()
    refuse = partial(_refuse, NoSpaceError("no room"))
    monkeypatch.setattr("reput.pipeline.build.rocksdb.queues.plan_stretches", refuse)
    with pytest.raises(NoSpaceError, match="no room"):
        rebuild_store(store, engine, BOTH)
    assert engine.started == 1
    assert engine.at_work.acquire(blocking=False)


def _refuse(error: Exception, *_: Any) -> None:
    raise error


@pytest.mark.spark
def test_two_jobs_of_spark(spark: SparkContext) -> None:
    """A job that was started gives its results in order, beside another, and raises what its tasks raise."""
    engine = SparkEngine(spark)
    started, reported = engine.start(abs, [-3, 2, -1]), list[tuple[int, int]]()
    assert engine.run(abs, [-5], lambda *_: None) == [5]
    assert started is not None
    assert started.results(lambda *progress: reported.append(progress)) == [3, 2, 1]

    failing = engine.start(_refused, [1])
    assert failing is not None
    with pytest.raises(NoSpaceError, match="task 1"):
        failing.results()


def _refused(number: int) -> None:
    raise NoSpaceError(f"task {number}")


def test_what_workers_load_is_not_collected() -> None:
    """The garbage collector passes over what was there before workers are forked."""
    worker_parent.keep_from_collection()
    try:
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
