"""State of a job that builds indexes: a rebuild into staging, or a job that follows the log and grows live indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from reput.formats.queue.consume_queue import QueueKey, QueueRange
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.store.disk.layout import StoreLayout
from reput.store.disk.retained import Retained
from reput.store.disk.settings import StoreSettings
from reput.store.owner.owner import Ownership

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RangeQueues:
    """The queues of a proved range of the log.

    `splits` with their `results`; `table`: one row for each queue with an entry for each message; `ends`: the next
    queue offset of each queue before the range, none in a rebuild; `end`: the log offset after the range; `others`:
    the queues without a row, as they were built.
    """

    splits: Sequence[Split]
    results: Sequence[SplitResult]
    table: SplitQueues
    ends: Mapping[QueueKey, int]
    end: int
    others: list[QueueOutcome] = field(default_factory=list)

    def enter(self, outcomes: Iterable[QueueOutcome]) -> None:
        """Set the rows of these queues to what was built."""
        table = self.table
        for one in outcomes:
            row = table.row(one.key)
            table.first[row], table.next[row], table.count[row] = one.first, one.next, one.entries

    def present(self) -> Iterator[tuple[QueueKey, int]]:
        """Yield each queue that has entries in the range, with its row."""
        return ((key, row) for key, row in self.table.rows.items() if self.table.count[row])


class NextOffsets(NamedTuple):
    """Queues with a row that keep a next offset that their records alone do not give.

    `retained`: queues without a record; `ends`: queues that keep their end after lost messages.
    """

    retained: Sequence[Retained] = ()
    ends: Sequence[QueueRange] = ()


class KeptNumbers(NamedTuple):
    """Lines about the queues without rows that keep their numbers, or lose them, for the report of a rebuild."""

    retained: Sequence[str] = ()
    warnings: Sequence[str] = ()


class Lost(NamedTuple):
    """The log offsets whose records a rebuild does not have: below `begin`, and in `gaps` [begin, end)."""

    begin: int
    gaps: Sequence[tuple[int, int]]

    def has(self, offset: int) -> bool:
        """Return True for the log offset of such a record."""
        return offset < self.begin or any(begin <= offset < end for begin, end in self.gaps)


class QueueBuilder(Protocol):
    """Builds one kind of queues, in staging or live; a job calls the methods in this order."""

    has_places: ClassVar[bool]
    """Entries have places that their queue offsets give, so decode tasks may write them."""

    has_rows: ClassVar[bool]
    """Splits leave ranges of these queues, so the table of queues has a row for each."""

    def reads_parts(self, build: Build, queues: RangeQueues) -> bool:
        """Return True if `place` reads what decode tasks left, so that no decode task may still be at work."""
        ...

    def place(self, build: Build, queues: RangeQueues) -> list[QueueOutcome]:
        """Build the queues of a range; returns an outcome for each queue whose entries its offsets do not place."""
        ...

    def keep_numbers(self, build: Build, queues: RangeQueues, lost: Lost) -> KeptNumbers:
        """Find the queues without rows whose last records are `lost`; `finish` keeps their numbers."""
        ...

    def finish(self, build: Build, queues: RangeQueues, kept: NextOffsets) -> None:
        """Complete the queues of a range, and keep the numbering of queues that lost messages."""
        ...

    def verify(self, build: Build, queues: RangeQueues) -> list[str]:
        """Read the staged queues back; returns a line for each queue that differs from its records."""
        ...

    def parts(self, build: Build) -> list[str]:
        """Return the paths that are swapped in, relative to the store."""
        ...

    def close(self) -> None:
        """Release what is held open."""
        ...


@dataclass(slots=True)
class Build:
    """A job that builds indexes; `builders` has one builder for each kind of queues."""

    layout: StoreLayout
    settings: StoreSettings
    owned: Ownership
    engine: Engine
    listener: ProgressListener
    job: Job
    builders: Sequence[QueueBuilder]

    def fence_late_tasks(self) -> None:
        """Stop every task so far from writing, even an attempt that Spark gave up."""
        # Only executors on other machines outlive a crash of this one.
        self.job = replace(self.job, epoch=self.owned.next_stage(lasting=self.job.sync_in_tasks))

    def run(self, function: Callable[..., R], work: Sequence[Any], *known: object) -> list[R]:
        """Run `function(job, *known, one)` in a task for each piece of work."""
        return self.engine.run(partial(function, self.job, *known), work, self.listener.advance)

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:  # noqa: ARG002 - a rebuild reports stages
        """Run a stage of the job."""
        yield

    def note(self, text: str) -> None:
        """Add a line to the job's report, if it has one."""
