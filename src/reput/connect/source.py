"""`format("rocketmq")` as Spark sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from reput.connect.cuts import LogCut
from reput.connect.options import ReadOptions, read_options
from reput.connect.plan import ScanPlan, plan_batch
from reput.connect.scan import ScanJob, read_log
from reput.connect.schemas import ddl

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


class RocketmqReader(DataSourceReader):
    """Reads a batch: plans it in the planner's process, and runs in tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        return tasks_of(plan_batch(self.options))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a task."""
        return read_partition(partition)


def tasks_of(plan: ScanPlan) -> list[InputPartition]:
    """The tasks of a plan."""
    return [LogPartition(plan.job, cut) for cut in plan.cuts]


def read_partition(partition: InputPartition) -> Iterator[Any]:
    """The record batches of a task; none for the partition that Spark makes up where there is no task."""
    if isinstance(partition, LogPartition):
        yield from read_log(partition.job, partition.cut)
