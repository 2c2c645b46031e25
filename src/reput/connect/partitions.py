"""The tasks of a scan as Spark carries them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from reput.connect.cuts import LogCut
from reput.connect.plan import ScanPlan
from reput.connect.queue_cuts import QueueCut
from reput.connect.read_report import Seen, reported
from reput.connect.record_scan import RecordJob, read_places, read_queues
from reput.connect.scan import ScanJob, read_log


class LogPartition(InputPartition):
    """A task over a range of the log."""

    def __init__(self, job: ScanJob, cut: LogCut) -> None:
        super().__init__(None)
        self.job = job
        self.cut = cut


class QueuePartition(InputPartition):
    """A task over ranges of queues."""

    def __init__(self, job: RecordJob, cuts: tuple[QueueCut, ...]) -> None:
        super().__init__(None)
        self.job = job
        self.cuts = cuts


class PlacesPartition(InputPartition):
    """A task over places in the log that IndexFiles told."""

    def __init__(self, job: RecordJob, places: tuple[int, ...]) -> None:
        super().__init__(None)
        self.job = job
        self.places = places


def tasks_of(plan: ScanPlan) -> list[InputPartition]:
    """The tasks of a plan."""
    return [
        *(PlacesPartition(plan.records, places) for places in plan.places),
        *(QueuePartition(plan.records, cuts) for cuts in plan.queues),
        *(LogPartition(plan.job.behind(cut.begin), cut) for cut in plan.cuts),
    ]


def read_partition(partition: InputPartition) -> Iterator[Any]:
    """The record batches of a task; none for the partition that Spark makes up where there is no task."""
    seen = Seen()
    if isinstance(partition, LogPartition):
        yield from reported(read_log(partition.job, partition.cut, seen), seen, partition.job.report)
    elif isinstance(partition, QueuePartition):
        yield from reported(read_queues(partition.job, partition.cuts, seen), seen, partition.job.scan.report)
    elif isinstance(partition, PlacesPartition):
        yield from reported(read_places(partition.job, partition.places, seen), seen, partition.job.scan.report)
