"""The Spark session that warm runs use: what someone gets who asks PySpark for a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_session() -> SparkSession:
    """A new local session on all cores, with Spark's defaults but for its web page and its chatter."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[*]")
        .appName("reput bench")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
