"""The protocols of what a job does for one kind of index. `kinds.py` lists the kinds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from reput.pipeline.build.index.plan import IndexEnd, IndexFilePlan, IndexFileResult
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.job import Job, SplitResult
from reput.store.owner.indexer import CatchUpTask


class IndexBuilt(NamedTuple):
    """One kind of index as it was built: the paths to swap in, relative to the store, and its contents.

    `files` is None for a kind without IndexFiles, `entries` counts the entries of a kind with a database.
    """

    parts: tuple[str, ...]
    files: tuple[IndexFileResult, ...] | None = None
    entries: int = 0


class IndexBuilder(Protocol):
    """Builds one kind of index of a rebuild in staging, from what decode tasks left."""

    def start(self) -> None:
        """Begin now if it can go on while queues are built; tasks must not be fenced off then before `finish`."""
        ...

    def finish(self) -> IndexBuilt:
        """Complete the index."""
        ...

    def stop(self) -> None:
        """Wait until no task of a job that failed is at work."""
        ...


class IndexGrower(Protocol):
    """Extends one live index in a job that follows the log, which owns it until it is closed."""

    @property
    def has_files(self) -> bool:
        """True if it extends IndexFiles."""
        ...

    @property
    def end(self) -> IndexEnd:
        """The end of the IndexFiles; empty for a kind without any."""
        ...

    def work(self, build: Build, results: Sequence[SplitResult]) -> list[IndexFilePlan]:
        """Return tasks for a long range, which are run with those that place its queue entries."""
        ...

    def take(self, build: Build, results: Sequence[SplitResult], made: Sequence[IndexFileResult]) -> None:
        """Complete a range: its decode tasks have left their parts, and other tasks have `made` IndexFiles."""
        ...

    def close(self) -> None:
        """Release what is held open."""
        ...


class IndexJobs(Protocol):
    """The builder and the grower of one kind of index, and its part of a task."""

    def builder(self, build: Build, results: Sequence[SplitResult]) -> IndexBuilder:
        """Return the builder of an index with the messages of these splits; none for an index without a message."""
        ...

    def grower(self, task: CatchUpTask, job: Job, log_file_size: int) -> IndexGrower:
        """Open the live index to extend it.

        Raises:
            DamagedStoreError: it cannot be opened.
            StoreLockedError: another process has it open to write.
        """
        ...

    def append(
        self, job: Job, decoded: DecodedSplit, result: SplitResult, end: IndexEnd, named_at: datetime
    ) -> list[IndexFileResult]:
        """Take in a short range, in its one task, or leave it for the grower; the caller holds the fence."""
        ...
