"""The tasks of a scan as Spark carries them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from reput.connect.tasks import ScanTask


class TaskPartition(InputPartition):
    """A task on its way to a worker."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


def read_partition(partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of a task; none for the partition that Spark makes up where there is no task."""
    if isinstance(partition, TaskPartition):
        yield from partition.task.read()
