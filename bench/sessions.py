"""The Spark session that warm runs use: reput's own, with the settings that `reput rebuild` starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.pipeline.spark.session import start_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_session() -> SparkSession:
    """A new local session on all cores."""
    from pyspark.sql import SparkSession

    return SparkSession(start_context())
