"""Starting Spark: what is refused before a JVM is."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.accumulators import AccumulatorUnixServer, UpdateRequestHandler

from reput.pipeline.spark.engine import _failure
from reput.pipeline.spark.session import _not_started, log_errors_of, settings
from support.processes import in_session


def test_a_master_that_nobody_reaches_is_named() -> None:
    """Spark ends its own context then, and its error says no more than that it is stopped."""
    for words in (
        "Cannot call methods on a stopped SparkContext.", "SparkContext has been shutdown",
        "Job 0 cancelled because SparkContext was shut down",
    ):  # fmt: skip
        reported = _failure(Exception(f": java.lang.IllegalStateException: {words}\n\tat x"), "spark://nohost:7077")
        assert "its master spark://nohost:7077 cannot be reached" in reported
    assert (
        _failure(Exception(": java.io.IOException: full"), "local") == "a Spark job failed: java.io.IOException: full"
    )


def test_the_log_settings_are_there() -> None:
    """The file from which the JVM reads its log's settings exists: without it Spark logs all it does."""
    options = settings("local[1]", use_archive=False)["spark.driver.extraJavaOptions"].split()
    (reported,) = (word.partition("=file://")[2] for word in options if "log4j2.configurationFile" in word)
    assert "rootLogger" in Path(reported).read_text("utf-8")


def test_a_port_of_something_else_is_no_null_pointer() -> None:
    """Spark gives up on a master while it makes its context: its NullPointerException comes in words."""
    error = Exception("An error occurred while calling None.\n: java.lang.NullPointerException: null\n\tat x")
    assert "does not answer as a Spark master" in _not_started(error, "spark://127.0.0.1:22")
    reported = _not_started(Exception("An error\n: java.io.IOException: full\n\tat x"), "local[1]")
    assert reported.startswith("Spark does not start on local[1]: java.io.IOException: full")
    assert "\n" not in reported


def test_a_connection_that_ends_is_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A JVM that ends before the driver makes PySpark's server for accumulators print no traceback."""
    caplog.set_level(logging.INFO, "reput.pipeline")
    with AccumulatorUnixServer(str(tmp_path / "socket"), UpdateRequestHandler) as server:
        log_errors_of(server)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
        server.handle_request()
    assert capfd.readouterr().err == ""
    assert "EOFError" in caplog.text


@pytest.mark.spark
def test_ctrl_c_while_spark_starts() -> None:
    """Ctrl-C while the JVM comes up ends the JVM and the worker parent too, and only the driver speaks."""
    code = "from reput.pipeline.spark.session import start_context; start_context()"
    driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while "java" not in in_session(driver.pid).values() and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    _, reported = driver.communicate()
    assert reported.count("Traceback") == 1
    assert driver.returncode != 0
    while (left := in_session(driver.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


@pytest.mark.spark
def test_a_driver_that_is_killed() -> None:
    """A driver that is killed while its context is up leaves neither a JVM nor a worker parent."""
    code = (
        "from reput.pipeline.spark.session import start_context; "
        "start_context('local[1]'); print('up', flush=True); input()"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"up\n"
    assert "java" in in_session(driver.pid).values()
    driver.kill()
    driver.communicate()
    until = time.monotonic() + 30
    while (left := in_session(driver.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
