"""The engine of jobs that name no Spark: threads of this process, and Spark once it is worth its start.

Spark takes seconds to start, and the kernels release the interpreter's lock, so threads do most jobs on one machine
sooner. While Spark starts, the threads go on. Then Spark has the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from reput.errors import EngineError
from reput.pipeline.spark.engine import Progress, SparkEngine, Started
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.spark.starting import StartingContext

A = TypeVar("A")
R = TypeVar("R")

WORTH_S = 10.0
"""The work that must be left in a stage, in seconds of these threads, for Spark to be started."""


class HeadStartEngine:
    """Threads of this process, one for each core, until Spark has started; Spark from then on.

    Args:
        begin: Begins to start Spark on this machine; None if there is no Spark here.
        listener: Learns why Spark did not start. The threads then do all tasks.
        threads: The most tasks at a time.
    """

    shares_driver_files = True

    def __init__(
        self,
        begin: Callable[[], StartingContext] | None,
        listener: ProgressListener | None = None,
        threads: int | None = None,
    ) -> None:
        self._begin = begin
        self._listener = listener or ProgressListener()
        self._threads = threads or len(os.sched_getaffinity(0))
        self._starting: StartingContext | None = None
        self._spark: SparkEngine | None = None

    def run(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Call `function` on each argument: in threads until Spark has started, then in Spark tasks.

        Raises:
            ReputError: A task raised it on purpose.
            EngineError: A Spark job failed.
        """
        results = self._run_here(function, arguments, progress)
        done, spark = len(results), self._started_spark()
        if done < len(arguments) and spark is not None:

            def progress_of_rest(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
                progress(done + finished, len(arguments))

            results += spark.run(function, arguments[done:], progress_of_rest)
        return results

    def start(self, function: Callable[[A], R], arguments: Sequence[A]) -> Started[R] | None:
        """Begin the same in the background; return None as long as Spark has not started."""
        spark = self._started_spark()
        return None if spark is None else spark.start(function, arguments)

    def give_up(self) -> None:
        """End a start of Spark that is under way."""
        if self._starting is not None:
            self._starting.give_up()

    def _run_here(self, function: Callable[[A], R], arguments: Sequence[A], progress: Progress) -> list[R]:
        """Return the results of the first tasks: of all, or of those that were begun before Spark was there."""
        begun: list[Future[R]] = []
        running: set[Future[R]] = set()
        pace = _Pace(self._threads, len(arguments))
        with ThreadPoolExecutor(self._threads, "reput-tasks") as pool:
            while True:
                while len(begun) < len(arguments) and len(running) < self._threads and self._started_spark() is None:
                    begun.append(pool.submit(function, arguments[len(begun)]))
                    running.add(begun[-1])
                if not running:
                    break
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                if any(one.exception() for one in ended):
                    break
                progress(pace.finish(len(ended)), len(arguments))
                if self._starting is None and pace.left_s() > WORTH_S:
                    self._start_spark()
        return [one.result() for one in begun]

    def _start_spark(self) -> None:
        if self._begin is None:
            return
        begin, self._begin = self._begin, None
        try:
            self._starting = begin()
        except EngineError as error:
            self._note(error)

    def _started_spark(self) -> SparkEngine | None:
        """Return Spark if it has started."""
        if self._spark is None and self._starting is not None and self._starting.is_done:
            try:
                self._spark = SparkEngine(self._starting.result())
            except EngineError as error:
                self._starting = None
                self._note(error)
        return self._spark

    def _note(self, error: EngineError) -> None:
        self._listener.note(f"Spark did not start, so this process does all tasks: {error}")


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
