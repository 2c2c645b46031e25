"""Making the source known to a session."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from reput.connect.source import RocketmqSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register `format("rocketmq")` with a session; see `reput.register`."""
    # A session of Spark Connect has no context; its server's Python is its own.
    context = getattr(spark, "sparkContext", None)
    if context is not None and "PYSPARK_PYTHON" not in os.environ:
        warning = warning_of_another_python(context.pythonExec, sys.executable)
        if warning:
            warnings.warn(warning, RuntimeWarning, stacklevel=3)
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(RocketmqSource)


def warning_of_another_python(workers: str, driver: str) -> str:
    """What to say where the workers' command (Spark's own is `python3` of the PATH) is of another Python; else "".

    Folders are compared: the commands of a virtual environment are links to those of the Python that it was made with.
    """
    found = shutil.which(workers)
    if found is not None and Path(found).absolute().parent.resolve() == Path(driver).absolute().parent.resolve():
        return ""
    return (
        f"Spark's Python workers run {found or workers}, and this program {driver}: without reput there they end with "
        f"\"No module named 'reput'\". Set PYSPARK_PYTHON={driver} before the session is made"
    )
