"""State of a rebuild: that of any build, and its log, options and report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reput.formats.own.given_offsets import GivenOffsets
from reput.log.read.files import LogFiles
from reput.pipeline.build.rebuild.options import RebuildOptions
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.pipeline.build.stages.state import Build
from reput.store.disk.store import StoreOnDisk


@dataclass(slots=True)
class Rebuild(Build):
    """A rebuild: its store, its options, and the report that it fills.

    `store` has the indexes that are live until the swap, as they were listed at the begin.
    `keeps_known_good`: the log's end was damaged or lost after it was durable, and nobody has given it up.
    `has_lost_end`: nothing of it is left. `given`: the queue offsets that reput has given; None if they do not count.
    """

    store: StoreOnDisk
    options: RebuildOptions
    report: RebuildReport
    clock: dict[str, float] = field(default_factory=dict)
    keeps_known_good: bool = False
    has_lost_end: bool = False
    given: GivenOffsets | None = None

    @property
    def log(self) -> LogFiles:
        """The files of the log."""
        return self.store.log

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:
        """Announce a stage and record its seconds.

        Raises:
            StaleEpochError: another job has taken the store over.
        """
        self.owned.verify()
        self.listener.stage(name, total_bytes)
        begin = time.perf_counter()
        yield
        self.clock[name] = round(self.clock.get(name, 0) + time.perf_counter() - begin, 4)

    def note(self, text: str) -> None:
        """Add a line to the report."""
        self.report.notes.append(text)
