"""Starting Spark for a job: embedded and local by default, with settings that make it start fast and stay small."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from reput.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_QUIET = "ERROR"


def start_session(master: str | None = None) -> SparkSession:
    """A Spark session on `master`, `local[*]` by default.

    Raises:
        EngineError: there is no Java 17, or Spark does not start.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master or DEFAULT_MASTER).appName("reput")
    for name, value in settings().items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise EngineError(
            f"Spark does not start: {error}. It needs Java 17 or later (JAVA_HOME, or `java` on the PATH); "
            "without Java, `--engine loop` runs the same tasks in this process"
        ) from error
    session.sparkContext.setLogLevel(_QUIET)
    return session


def settings() -> dict[str, str]:
    """The Spark settings of our own sessions."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "reput.pipeline.daemon",
        "spark.python.worker.reuse": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
