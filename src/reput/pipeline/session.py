"""Starting Spark for a job: embedded and local by default, with settings that make it start fast and stay small."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reput.errors import EngineError
from reput.pipeline import jvm_archive

if TYPE_CHECKING:
    from pyspark import SparkContext

DEFAULT_MASTER = "local[*]"
DRIVER_MEMORY = "512m"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_FAST_START = (
    # A job runs for seconds and its work is in Python: the quick compiler and the small collector suit it. 2.3 s to a
    # context instead of 3.3 s, and 1.4 s with the class archive.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
)


def start_context(
    master: str | None = None, extra_java: str = "", use_archive: bool = True
) -> SparkContext:
    """A Spark context on `master`, `local[*]` by default, or the one that this process has already.

    Raises:
        EngineError: there is no Java 17, or Spark does not start.
    """
    if jvm_archive.java_command() is None:
        raise EngineError(
            "no Java found (JAVA_HOME, or `java` on the PATH). Spark needs Java 17 or later: on Debian and Ubuntu install "
            "openjdk-17-jre-headless; or run without Spark (--engine loop, spark=False in Python)"
        )
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or DEFAULT_MASTER
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(master).setAppName("reput").setAll(list(settings(extra_java, use_archive).items()))
    try:
        return SparkContext.getOrCreate(conf)
    except Exception as error:
        raise EngineError(
            f"Spark does not start on {master}: {error}. It needs Java 17 or later; "
            "`--engine loop` (spark=False in Python) does the same work without it"
        ) from error


def settings(extra_java: str = "", use_archive: bool = True) -> dict[str, str]:
    """The Spark settings of our own contexts."""
    java = [*_FAST_START]
    archive = jvm_archive.archive_path() if use_archive else None
    if archive is not None and archive.exists():
        java.append(f"-XX:SharedArchiveFile={archive}")
    if extra_java:
        java.append(extra_java)
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.python.daemon.module": "reput.pipeline.daemon",
    }
