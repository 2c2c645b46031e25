"""rebuild, its IndexFiles: a stage that has nothing to do with queues, and so may run beside theirs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reput.files import fs
from reput.formats.index_file import capacity
from reput.pipeline.build.index_build import build_index_file
from reput.pipeline.build.index_plan import IndexFilePlan, IndexFileResult, index_names, largest_first, plan_index_files
from reput.pipeline.split.job import SplitResult

if TYPE_CHECKING:
    from reput.pipeline.build.rebuild_state import RebuildRun
    from reput.pipeline.spark.engine import Started


class IndexStage:
    """The IndexFiles of all splits; none where the job builds no index. On leaving, no task is at work any more.

    One IndexFile is one task. Where there are few, cores have nothing to do, and queues can be built meanwhile. Whoever
    calls `start` must not shut out late tasks before `finish`: that would wait for these.
    """

    def __init__(self, run: RebuildRun, results: Sequence[SplitResult]) -> None:
        self._run = run
        self._plans: list[IndexFilePlan] = []
        self._started: Started[IndexFileResult] | None = None
        if run.job.build_index:
            names = index_names(datetime.now())  # noqa: DTZ005 - RocketMQ names them by local time
            self._plans = largest_first(plan_index_files(results, capacity(run.job.index_items), names))

    def start(self) -> None:
        """Begin now, where the engine can do two things at once."""
        if self._plans:
            fs.make_dirs(self._run.job.index_folder, self._run.job.owner)
            self._started = self._run.engine.start(partial(build_index_file, self._run.job), self._plans)

    def finish(self) -> list[IndexFileResult] | None:
        """The IndexFiles, complete; None where none are to be built. The report tells how long this had to wait."""
        run = self._run
        if not run.job.build_index:
            return None
        with run.stage("index"):
            if self._started is not None:
                return sorted(self._started.results(run.listener.advance))
            fs.make_dirs(run.job.index_folder, run.job.owner)
            return sorted(run.engine.run(partial(build_index_file, run.job), self._plans, run.listener.advance))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._started is not None:
            # Staging is removed next. The first error is the one to tell.
            with contextlib.suppress(Exception):
                self._started.results()
