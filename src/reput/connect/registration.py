"""Making the source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.connect.source import RocketmqSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register `format("rocketmq")` with a session; see `reput.register`."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(RocketmqSource)
