"""The engine of jobs that name no Spark: threads of this process, and Spark for the rest of a long job.

Spark takes seconds to start, and the kernels release the interpreter's lock, so threads do most jobs on one machine
sooner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from reput.errors import ReputError
from reput.pipeline.spark.engine import Progress, SparkEngine, Started
from reput.pipeline.spark.listener import ProgressListener

if TYPE_CHECKING:
    from pyspark import SparkContext

A = TypeVar("A")
R = TypeVar("R")

WORTH_S = 30.0
"""The work that must be left in a stage, in seconds of these threads, for Spark to be started."""
THREADS_MAX = 8
"""The most tasks at a time: each holds the columns of a split, and the interpreter's lock bounds the gain of more."""


class HeadStartEngine:
    """Threads of this process, one for each core; once a stage is long, Spark has its rest and all later ones.

    Args:
        start: Starts Spark on this machine; None if it is not installed.
        listener: Learns why Spark did not start. The threads then do all tasks.
        threads: The most tasks at a time.
    """

    shares_driver_files = True

    def __init__(
        self,
        start: Callable[[], SparkContext] | None,
        listener: ProgressListener | None = None,
        threads: int | None = None,
    ) -> None:
        self._start = start
        self._listener = listener or ProgressListener()
        self._threads = threads or min(THREADS_MAX, len(os.sched_getaffinity(0)))
        self._spark: SparkEngine | None = None

    def run(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Call `function` on each argument.

        Raises:
            ReputError: A task raised it on purpose; EngineError for any other failure of a Spark job.
        """
        results: list[R] = []
        while len(results) < len(arguments):
            done = len(results)

            def progress_of_all(finished: int, total: int, before: int = done) -> None:
                progress(before + finished, before + total)

            run = self._run_here if self._spark is None else self._spark.run
            results += run(function, arguments[done:], progress_of_all)
        return results

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:
        """Begin the same in the background; return None as long as the threads do the tasks."""
        return None if self._spark is None else self._spark.start(function, arguments)

    def _run_here(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Return the results of all tasks, or of the first ones if Spark is worth its start, which is then started.

        A task that fails ends the stage when the running ones have ended.
        """
        begun: list[Future[R]] = []
        running: set[Future[R]] = set()
        pace, is_long = _Pace(self._threads, len(arguments)), False
        with ThreadPoolExecutor(self._threads, "reput-tasks") as pool:
            while True:
                while len(begun) < len(arguments) and len(running) < self._threads and not is_long:
                    begun.append(pool.submit(function, arguments[len(begun)]))
                    running.add(begun[-1])
                if not running:
                    break
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                if any(one.exception() for one in ended):
                    break
                progress(pace.finish(len(ended)), len(arguments))
                is_long = is_long or (self._start is not None and pace.left_s() > WORTH_S)
        results = [one.result() for one in begun]
        if is_long:
            self._start_spark()
        return results

    def _start_spark(self) -> None:
        start, self._start = self._start, None
        assert start is not None
        try:
            self._spark = SparkEngine(start())
        except (ReputError, OSError) as error:
            self._listener.note(f"Spark did not start, so threads of this process do all tasks: {error}")


class _Pace:
    """The pace of a stage, from its second tasks on: the first ones load the kernels."""

    def __init__(self, threads: int, total: int) -> None:
        self._threads = threads
        self._left = total
        self._finished = 0
        self._counted_from = 0
        self._began = 0.0

    def finish(self, tasks: int) -> int:
        """Count tasks as finished; return the number of all that are."""
        self._finished += tasks
        self._left -= tasks
        if not self._counted_from and self._finished >= self._threads:
            self._counted_from, self._began = self._finished, time.monotonic()
        return self._finished

    def left_s(self) -> float:
        """Return the seconds that the rest will take; 0 as long as nobody can say."""
        counted = self._finished - self._counted_from
        if not self._counted_from or counted < self._threads:
            return 0.0
        return (time.monotonic() - self._began) / counted * self._left
