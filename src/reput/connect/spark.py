"""Parts that all readers and writers of `format("rocketmq")` share: a task as Spark carries it, and short errors.

Spark prints a Python source's error with its traceback, in an AnalysisException if planning fails. A `ReputError` says
by itself what is wrong and what to do, so only its last frame is kept. (With
`spark.sql.execution.pyspark.udf.hideTraceback.enabled` Spark leaves out that one, too.) Other errors keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.sql.datasource import InputPartition

from reput.connect.tasks import ScanTask
from reput.errors import ReputError

P = ParamSpec("P")
T = TypeVar("T")


class TaskPartition(InputPartition):
    """A task on its way to a worker."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


def read_partition(partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of a task; none for the partition that Spark makes up if there is no task.

    Raises:
        ReputError: without its traceback.
    """
    try:
        if isinstance(partition, TaskPartition):
            yield from partition.task.read()
    except ReputError as error:
        raise error.with_traceback(None) from None


def with_short_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Return the method with its `ReputError`s stripped of their traceback."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except ReputError as error:
            raise error.with_traceback(None) from None

    return called
