"""Engines that call the task functions: Spark, or a plain loop. The functions are the same.

Rows in Spark's plan are task arguments (a split, a queue, an index file), never messages. Tasks return small values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from reput.errors import EngineError, ReputError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

A = TypeVar("A")
R = TypeVar("R")

_POLL_S = 0.1
_CONTEXT_ENDED = ("stopped SparkContext", "SparkContext has been shutdown", "SparkContext was shut down")
"""Texts by which Spark reports a context that has ended; they differ by the state of the job."""


class Progress(Protocol):
    """A function that gets the progress of a stage."""

    def __call__(self, finished: int, total: int) -> None:
        """Note that `finished` of `total` tasks are done."""
        ...


class Engine(Protocol):
    """Runs one function over many arguments; returns the results in the order of the arguments."""

    shares_driver_files: bool
    """True if all tasks run on the driver's machine, so that its sync reaches the files that they wrote."""

    def run(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Call `function` on each argument."""
        ...

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:
        """Begin the same in the background; return None if the engine runs one job at a time."""
        ...


class LoopEngine:
    """A loop in this process, for a machine without Java and for tests."""

    shares_driver_files = True

    def run(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Call `function` on each argument, one after the other."""
        results = []
        for argument in arguments:
            results.append(function(argument))
            progress(len(results), len(arguments))
        return results

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:  # noqa: ARG002 - an Engine
        """Return None: the loop runs one job at a time."""
        return None


class SparkEngine:
    """Spark, with an existing session. One argument is one task."""

    def __init__(self, spark: SparkSession | SparkContext) -> None:
        self.session = spark
        self.context = _context_of(spark)
        self.shares_driver_files = self.context is not None and str(self.context.master).startswith("local")

    def run(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Call `function` on each argument in a task of its own.

        Raises:
            ReputError: A task raised it on purpose; EngineError for any other failure of the job.
        """
        if not arguments:
            return []
        if self.context is None:
            outcomes = self._run_connect(function, arguments)
        else:
            outcomes = self._run_classic(function, arguments, progress)
        progress(len(arguments), len(arguments))
        return [_opened(outcome) for outcome in outcomes]

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:
        """Begin a Spark job, whose tasks run before those of later jobs; return None with Spark Connect."""
        return None if self.context is None else Started(partial(self.run, function, arguments))

    def _run_classic(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[Any]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        context = self.context
        assert context is not None
        if context._jsc is None:  # noqa: SLF001 - PySpark itself recognises a stopped context so
            raise EngineError("the Spark context has been stopped")
        done = threading.Event()
        watched = context, len(arguments), progress, done
        watcher = threading.Thread(target=_watch, args=watched, name="reput-job-progress", daemon=True)
        watcher.start()
        try:
            rdd = context.parallelize(arguments, len(arguments)).mapPartitions(_partition_task(function))
            return rdd.collect()
        except (Py4JError, PySparkException, OSError, EOFError) as error:
            raise EngineError(_failure(error, context.master)) from error
        finally:
            done.set()
            watcher.join()

    def _run_connect(self, function: Callable[[A], R], arguments: Sequence[A]) -> list[Any]:
        # Spark Connect has no RDDs: an Arrow map runs the same tasks, one row for each argument.
        import pickle

        from pyspark import cloudpickle

        def over(batches: Any) -> Any:
            import pyarrow as pa  # type: ignore[import-untyped]

            for batch in batches:
                for number, argument in zip(batch["number"].to_pylist(), batch["argument"].to_pylist(), strict=True):
                    outcome = _guarded(function, pickle.loads(argument))  # noqa: S301 - made by this driver
                    yield pa.RecordBatch.from_pydict({"number": [number], "outcome": [pickle.dumps(outcome)]})

        session: Any = self.session
        dumps: Any = cloudpickle.dumps
        rows = [(number, dumps(argument)) for number, argument in enumerate(arguments)]
        frame = session.createDataFrame(rows, "number long, argument binary").repartition(len(rows), "number")
        try:
            found = frame.mapInArrow(over, "number long, outcome binary").collect()
        # gRPC raises its own errors, from a library that only Spark Connect installs.
        except Exception as error:
            raise EngineError(f"a Spark job failed: {_first_line(error)}") from error
        return [pickle.loads(row["outcome"]) for row in sorted(found, key=lambda row: row["number"])]  # noqa: S301


class Started(Generic[R]):
    """A job that runs in its own thread; it has ended when `results` returns or raises."""

    def __init__(self, call: Callable[[Progress], list[R]]) -> None:
        from pyspark import InheritableThread

        self._call = call
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._progress: Progress | None = None
        # The thread inherits the caller's settings for jobs, such as the job group.
        self._thread = InheritableThread(target=self._run, name="reput-jobs", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results = self._call(self._report)
        except BaseException as error:  # noqa: BLE001 - `results` raises it
            self._error = error

    def _report(self, finished: int, total: int) -> None:
        if self._progress is not None:
            self._progress(finished, total)

    def results(self, progress: Progress | None = None) -> list[R]:
        """Wait for the job and return its results, or raise its error. `progress` gets the progress from now on."""
        self._progress = progress
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results


def _context_of(spark: SparkSession | SparkContext) -> SparkContext | None:
    """Return the context of a classic session; None for Spark Connect, which has none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    if isinstance(spark, SparkContext):
        return spark
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        return None


class _Failure:
    """An error that a task raised on purpose, as a value: Spark would put it into a stack trace."""

    def __init__(self, error: ReputError) -> None:
        self.error = error


def _guarded(function: Callable[[A], R], argument: A) -> R | _Failure:
    try:
        return function(argument)
    except ReputError as error:
        return _Failure(type(error)(*error.args))


def _partition_task(function: Callable[[A], R]) -> Callable[[Any], Any]:
    def over(arguments: Any) -> Any:
        for argument in arguments:
            yield _guarded(function, argument)

    return over


def _opened(outcome: R | _Failure) -> R:
    if isinstance(outcome, _Failure):
        raise outcome.error
    return outcome


def _watch(context: Any, total: int, progress: Progress, done: threading.Event) -> None:
    tracker = context.statusTracker()
    while not done.wait(_POLL_S):
        finished = 0
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks == total:
                finished = max(finished, info.numCompletedTasks)
        progress(finished, total)


def _failure(error: Exception, master: str | None) -> str:
    """Return the error text of a failed job. A context that stopped by itself lost its master, or never reached it."""
    line = _first_line(error)
    if any(words in line for words in _CONTEXT_ENDED):
        return f"Spark ended its context, most likely since its master {master} cannot be reached ({line})"
    return f"a Spark job failed: {line}"


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    errors = [line.strip() for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or [type(error).__name__])[-1 if errors else 0].removeprefix(": ")[:500]
