"""`format("rocketmq")` as Spark sees it, and its registration with a session."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)

from reput.connect.options.filters import narrowed
from reput.connect.options.options import ReadOptions, read_options
from reput.connect.options.schemas import ddl
from reput.connect.options.selection import selection_of
from reput.connect.plan import plan_batch
from reput.connect.spark import TaskPartition, read_partition, with_short_errors
from reput.connect.stream import RocketmqStreamReader, stream_options
from reput.connect.tasks import tasks_of
from reput.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "rocketmq"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register `format("rocketmq")` with a session; see `reput.register`."""
    # A session of Spark Connect has no context; its server's Python is its own.
    context = getattr(spark, "sparkContext", None)
    if context is not None and "PYSPARK_PYTHON" not in os.environ:
        warning = warning_of_another_python(context.pythonExec, sys.executable)
        if warning:
            warnings.warn(warning, RuntimeWarning, stacklevel=3)
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RocketmqSource)


def warning_of_another_python(workers: str, driver: str) -> str:
    """Return a warning if the workers' command belongs to another Python than this program's; else "".

    Spark's own command is the `python3` on PATH. Folders are compared: the commands of a virtual environment are links
    to those of the Python that made it.
    """
    found = shutil.which(workers)
    if found is not None and Path(found).absolute().parent.resolve() == Path(driver).absolute().parent.resolve():
        return ""
    return (
        f"Spark's Python workers run {found or workers}, and this program {driver}: without reput there they end with "
        f"\"No module named 'reput'\". Set PYSPARK_PYTHON={driver} before the session is made"
    )


class RocketmqSource(DataSource):
    """A RocketMQ store's files as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    @with_short_errors
    def schema(self) -> str:
        """Return the columns that the options ask for."""
        return ddl(read_options(self.options).columns)

    @with_short_errors
    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of a batch.

        Raises:
            ConfigError: a schema was given that is not the one of the options.
        """
        options = read_options(self.options)
        refuse_another_schema(schema, options)
        return RocketmqReader(options)

    @with_short_errors
    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark asks so
        """Return a reader of a stream.

        Raises:
            ConfigError: a schema was given that is not the one of the options, or an option is for batches only.
        """
        options = read_options(stream_options(self.options))
        refuse_another_schema(schema, options)
        return RocketmqStreamReader(options)

    @with_short_errors
    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """Return a writer of a batch.

        Raises:
            ConfigError: a store is appended to, never overwritten.
        """
        refuse_overwrite(overwrite)
        from reput.connect.writer import RocketmqWriter

        return RocketmqWriter(self.options, schema)

    @with_short_errors
    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark asks so
        """Return a writer of a stream.

        Raises:
            ConfigError: a store is appended to, never overwritten.
        """
        refuse_overwrite(overwrite)
        from reput.connect.writer import RocketmqStreamWriter

        return RocketmqStreamWriter(self.options, schema)


def refuse_another_schema(schema: Any, options: ReadOptions) -> None:
    """Refuse a schema that is not the one of the options: options choose columns, `.schema(...)` makes no others.

    Raises:
        ConfigError: it is another one.
    """
    given = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if given != [(column.name, column.type) for column in options.columns]:
        raise ConfigError(
            f".schema({', '.join(' '.join(pair) for pair in given)}): leave it out; option columns chooses columns, "
            f"and there are {', '.join(f'{column.name} {column.type}' for column in options.columns)}"
        )


def refuse_overwrite(overwrite: bool) -> None:
    """Refuse to overwrite: a store is a log and only grows.

    Raises:
        ConfigError: `overwrite` is set.
    """
    if overwrite:
        raise ConfigError('mode("overwrite"), outputMode("complete"): a store is appended to. Use mode("append")')


class RocketmqReader(DataSourceReader):
    """Reads a batch: the planner's process plans it, and tasks read."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.filters: list[Filter] = []
        # Spark refuses a reader that overrides pushFilters in a session that does not push filters, and looks at
        # `__func__` to find out. An attribute serves both kinds of session.
        self.pushFilters = _PushFilters(self.filters)  # type: ignore[method-assign]

    @with_short_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read and return its tasks."""
        plan = plan_batch(self.options, narrowed(selection_of(self.options), self.filters))
        return [TaskPartition(task) for task in tasks_of(plan)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the record batches of a task."""
        return read_partition(partition)


class _PushFilters:
    """Keeps the filters and returns all of them to Spark, too: here they only narrow what is read."""

    def __init__(self, filters: list[Filter]) -> None:
        self.filters = filters
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self.filters += filters
        return filters
