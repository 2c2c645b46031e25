"""`format("rocketmq")` as Spark sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from reput.connect.cuts import LogCut
from reput.connect.filters import narrowed
from reput.connect.options import ReadOptions, read_options
from reput.connect.plan import ScanPlan, plan_batch
from reput.connect.queue_cuts import QueueCut
from reput.connect.record_scan import RecordJob, read_places, read_queues
from reput.connect.scan import ScanJob, read_log
from reput.connect.schemas import ddl
from reput.connect.selection import selection_of

NAME = "rocketmq"


class RocketmqSource(DataSource):
    """A RocketMQ store's files as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """The columns that the options ask for."""
        return ddl(read_options(self.options).columns)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the options tell
        """A reader of a batch."""
        return RocketmqReader(read_options(self.options))


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


class RocketmqReader(DataSourceReader):
    """Reads a batch: plans it in the planner's process, and runs in tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.filters: list[Filter] = []
        # Spark refuses a reader that overrides pushFilters while its session does not push filters, and asks for
        # `__func__` to find out. An attribute serves sessions of both kinds.
        self.pushFilters = _PushFilters(self.filters)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        return tasks_of(plan_batch(self.options, narrowed(selection_of(self.options), self.filters)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a task."""
        return read_partition(partition)


class _PushFilters:
    """Takes note of the filters, and leaves all of them to Spark too: here they only narrow what is read."""

    def __init__(self, filters: list[Filter]) -> None:
        self.filters = filters
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self.filters += filters
        return filters


def tasks_of(plan: ScanPlan) -> list[InputPartition]:
    """The tasks of a plan."""
    return [
        *(PlacesPartition(plan.records, places) for places in plan.places),
        *(QueuePartition(plan.records, cuts) for cuts in plan.queues),
        *(LogPartition(plan.job, cut) for cut in plan.cuts),
    ]


def read_partition(partition: InputPartition) -> Iterator[Any]:
    """The record batches of a task; none for the partition that Spark makes up where there is no task."""
    if isinstance(partition, LogPartition):
        yield from read_log(partition.job, partition.cut)
    elif isinstance(partition, QueuePartition):
        yield from read_queues(partition.job, partition.cuts)
    elif isinstance(partition, PlacesPartition):
        yield from read_places(partition.job, partition.places)
