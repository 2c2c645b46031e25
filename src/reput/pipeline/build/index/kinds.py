"""The kinds of index for jobs that build, in one list.

Tasks leave what each kind is made of in `pipeline/split/index_sinks.py`; `pipeline/check/index_kinds.py` compares it
with the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from reput.formats.index.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.pipeline.build.index.built import IndexBuilt, IndexGrower, IndexJobs
from reput.pipeline.build.index.database import DatabaseIndexJobs
from reput.pipeline.build.index.index_files import FileIndexJobs
from reput.pipeline.build.index.plan import IndexEnd, IndexFileResult
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.job import Job, SplitResult
from reput.store.owner.indexer import CatchUpTask

INDEX_JOBS: Mapping[str, IndexJobs] = {INDEX_FILES: FileIndexJobs(), INDEX_DATABASE: DatabaseIndexJobs()}


class IndexStage:
    """The stages of a rebuild that build its kinds of index; after it none of their tasks is at work."""

    def __init__(self, build: Build, results: Sequence[SplitResult]) -> None:
        job = build.job
        self._builders = [INDEX_JOBS[name].builder(build, results) for name in job.indexes]
        self._builders += [INDEX_JOBS[name].builder(build, ()) for name in job.emptied_indexes]

    def start(self) -> None:
        """Begin what can go on while queues are built. Callers must not fence late tasks off before `finish`."""
        for builder in self._builders:
            builder.start()

    def finish(self) -> list[IndexBuilt]:
        """Return the complete indexes."""
        return [builder.finish() for builder in self._builders]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # Staging is removed next. The first error is the one to raise.
            with contextlib.suppress(Exception):
                for builder in self._builders:
                    builder.stop()


def index_growers(task: CatchUpTask, job: Job, log_file_size: int) -> list[IndexGrower]:
    """Open the live indexes of a job that follows the log; see `IndexJobs.grower`."""
    growers: list[IndexGrower] = []
    try:
        growers.extend(INDEX_JOBS[name].grower(task, job, log_file_size) for name in job.indexes)
    except BaseException:
        for grower in growers:
            grower.close()
        raise
    return growers


def append_indexed(
    job: Job, decoded: DecodedSplit, result: SplitResult, end: IndexEnd, named_at: datetime
) -> list[IndexFileResult]:
    """Take a short range into all indexes of a job, or leave it for their growers; the caller holds the fence."""
    return [one for name in job.indexes for one in INDEX_JOBS[name].append(job, decoded, result, end, named_at)]
