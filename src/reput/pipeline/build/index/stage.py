"""The IndexFiles of a rebuild: a stage that does not depend on queues, and so may run at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from reput.pipeline.build.index.plan import IndexFilePlan, IndexFileResult, largest_first, plan_of
from reput.pipeline.build.index.write import build_index_file
from reput.pipeline.build.stages.state import Build
from reput.pipeline.spark.engine import Started
from reput.pipeline.split.job import SplitResult


class IndexStage:
    """The stage that builds the IndexFiles of all splits, if the job builds them; after it no such task is at work.

    One task builds one IndexFile. If there are few, cores are idle, and queues can be built at the same time. After
    `start`, callers must not fence late tasks off before `finish`: that would wait for these tasks.
    """

    def __init__(self, build: Build, results: Sequence[SplitResult]) -> None:
        self._build = build
        self._plans: list[IndexFilePlan] = []
        self._started: Started[IndexFileResult] | None = None
        if build.job.build_index:
            self._plans = largest_first(plan_of(build.job, results))

    def start(self) -> None:
        """Begin now if the engine can do two things at once."""
        if self._plans:
            self._started = self._build.engine.start(partial(build_index_file, self._build.job), self._plans)

    def finish(self) -> list[IndexFileResult] | None:
        """Return the complete IndexFiles, or None if the job builds none. The stage's seconds are the wait for them."""
        build = self._build
        if not build.job.build_index:
            return None
        with build.stage("index"):
            if self._started is not None:
                return sorted(self._started.results(build.listener.advance))
            return sorted(build.run(build_index_file, self._plans))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._started is not None:
            # Staging is removed next. The first error is the one to raise.
            with contextlib.suppress(Exception):
                self._started.results()
