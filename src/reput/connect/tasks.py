"""Tasks of a plan: small values that read record batches, in Spark's workers or in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]

from reput.connect.cut.cuts import LogCut
from reput.connect.cut.queue_cuts import QueueCut
from reput.connect.plan import ScanPlan
from reput.connect.scan.log_scan import ScanJob, read_log
from reput.connect.scan.read_report import Seen, reported
from reput.connect.scan.record_scan import RecordJob, read_places, read_queues


@dataclass(frozen=True)
class LogTask:
    """A task over a range of the log."""

    job: ScanJob
    cut: LogCut

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages, in the log's order."""
        seen = Seen()
        yield from reported(read_log(self.job, self.cut, seen), seen, self.job.report)


@dataclass(frozen=True)
class QueueTask:
    """A task over ranges of queues."""

    job: RecordJob
    cuts: tuple[QueueCut, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages, queue by queue."""
        seen = Seen()
        yield from reported(read_queues(self.job, self.cuts, seen), seen, self.job.scan.report)


@dataclass(frozen=True)
class PlacesTask:
    """A task over places in the log that IndexFiles name."""

    job: RecordJob
    places: tuple[int, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages, in the log's order."""
        seen = Seen()
        yield from reported(read_places(self.job, self.places, seen), seen, self.job.scan.report)


ScanTask = LogTask | QueueTask | PlacesTask


def tasks_of(plan: ScanPlan) -> list[ScanTask]:
    """Return the tasks of a plan."""
    return [
        *(PlacesTask(plan.records, places) for places in plan.places),
        *(QueueTask(plan.records, cuts) for cuts in plan.queues),
        *(LogTask(plan.job.from_offset(cut.begin), cut) for cut in plan.cuts),
    ]
