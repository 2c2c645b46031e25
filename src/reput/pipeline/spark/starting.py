"""A Spark context that starts in the background, and can be given up."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from reput.pipeline.spark import preflight, session
from reput.pipeline.spark.background import in_background

if TYPE_CHECKING:
    from pyspark import SparkContext


class StartingContext:
    """A Spark context on this machine that starts while its owner works.

    The start and the owner share this process, so nobody else may use PySpark in it until the start has ended: call
    `give_up` or `result` before the process goes on to other work.

    Raises:
        EngineError: PySpark is not installed, or Java or the workers' Python is unusable.
    """

    def __init__(self) -> None:
        session.refuse_missing_pyspark()
        preflight.check(session.DEFAULT_MASTER)
        self._launch = session.Launch()
        self._context: Future[SparkContext] = in_background(self._start, "reput-spark-start")

    def _start(self) -> SparkContext:
        return session.make_context(session.DEFAULT_MASTER, launch=self._launch)

    @property
    def is_done(self) -> bool:
        """True if the context is there, or its start has failed."""
        return self._context.done()

    def result(self) -> SparkContext:
        """Wait for the context and return it.

        Raises:
            EngineError: Spark does not start.
        """
        return self._context.result()

    def give_up(self) -> None:
        """End a start that is under way, with its JVM; a context that is there stays."""
        if self.is_done:
            return
        with _quiet_py4j():
            self._launch.end(self._context.done)
            failed = self._context.exception() is not None
        if failed:
            session.forget_jvm()


@contextlib.contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Keep py4j from logging that its JVM has gone."""
    log = logging.getLogger("py4j")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
