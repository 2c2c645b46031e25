"""The choice of a job's engine, from the arguments `spark` and `master`.

| spark | master | tasks run |
|---|---|---|
| False | - | one after the other in this process |
| None | None | in threads of this process, and a long job's rest in Spark; in Spark if this process has a context |
| None | a URL | in Spark on that master, which is started if this process has no context |
| a session or a context | - | in Spark |
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from reput.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.pipeline.spark.engine import Engine
    from reput.pipeline.spark.listener import ProgressListener


def engine_for(
    spark: SparkSession | SparkContext | Literal[False] | None,
    master: str | None,
    listener: ProgressListener | None = None,
) -> Engine:
    """Return the engine that a caller asked for. `listener` learns that Spark starts, if it must."""
    from reput.pipeline.spark.engine import LoopEngine, SparkEngine

    refuse_no_spark(spark)
    if master is not None and not isinstance(master, str):
        raise ConfigError(f"master={master!r:.80}: give a Spark master URL, such as local[4]")
    if master is not None and spark is not None:
        given = "spark=False" if spark is False else "a session"
        raise ConfigError(f"master={master!r:.80} and {given}: give master to start Spark there, and spark without it")
    if spark is False:
        return LoopEngine()
    if spark is not None:
        return SparkEngine(spark)
    from reput.pipeline.spark.session import active_context, has_pyspark, start_context

    start = partial(start_context, master, listener=listener)
    if master is not None or active_context() is not None:
        return SparkEngine(start())
    from reput.pipeline.spark.head_start import HeadStartEngine

    return HeadStartEngine(start if has_pyspark() else None, listener)


def refuse_no_spark(spark: object) -> None:
    """Refuse a value that is no session, before anything starts.

    Raises:
        ConfigError: It is no session.
    """
    if spark is None or spark is False or hasattr(spark, "createDataFrame") or hasattr(spark, "parallelize"):
        return
    hint = f", or master={spark!r} to start Spark there" if isinstance(spark, str) else ""
    raise ConfigError(f"spark={spark!r:.80}: give a SparkSession or a SparkContext, False to do without Spark{hint}")
