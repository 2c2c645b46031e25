"""The start of Spark for a job: embedded and local by default, with settings for a fast start and little memory."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any, BinaryIO

from reput.errors import EngineError
from reput.pipeline.spark import jvm_archive, preflight, worker_parent
from reput.pipeline.spark.listener import ProgressListener

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext

_log = logging.getLogger("reput.pipeline")
DEFAULT_MASTER = "local[*]"
DRIVER_MEMORY = "512m"
STARTING = "Starting Spark"
"""The name of the stage in which Spark starts."""
_LOG_TAIL = 4096
_ID_BYTES = 8
_LOOK_MS = 50
_MASTER_LOST = ("NullPointerException", "stopped SparkContext", "SparkContext has been shutdown", "was shut down")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_FAST_START = (
    # A job runs for seconds, and its work is in Python, so the quick compiler and the small collector are enough: a
    # context takes 2.3 s instead of 3.3 s, and 1.4 s with the class archive.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
)


_jvm_log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the JVM
"""The output of the JVM and the workers. On our stdout it would mix with data, and keep a pipe open after we end."""


def start_context(
    master: str | None = None,
    extra_java: str = "",
    use_archive: bool = True,
    listener: ProgressListener | None = None,
) -> SparkContext:
    """Return a Spark context on `master`, `local[*]` by default, or the context that this process already has.

    `listener` learns that Spark starts, which takes seconds.

    Raises:
        ConfigError: `master` is no Spark master URL.
        EngineError: PySpark is not installed, Java or the workers' Python is unusable, the master cannot be reached, or
            Spark does not start.
    """
    refuse_missing_pyspark()
    from pyspark import SparkConf, SparkContext

    master = master or DEFAULT_MASTER
    preflight.refuse_unknown_master(master)
    active = active_context()
    if active is not None:
        return active
    preflight.check(master)
    if listener is not None:
        listener.stage(STARTING, 0)
    # Otherwise the workers use the `python3` on PATH, which may have no reput.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        # This avoids a look-up of the host's name, and a warning about it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf()
    if master.startswith("local["):
        socket = worker_parent.start_worker_parent()
        conf.set(f"spark.executorEnv.{worker_parent.VARIABLE}", socket)
        # Over TCP the answers of a worker wait for a delayed acknowledgement, 40 ms for each task. Sockets in the file
        # system have no password, so they are in a folder that only this user may enter.
        folder = worker_parent.folder_of_sockets(socket)
        if folder is not None:
            conf.set("spark.python.unix.domain.socket.enabled", "true")
            conf.set("spark.python.unix.domain.socket.dir", folder)
    for name, value in settings(master, extra_java, use_archive).items():
        conf.set(name, value)
    try:
        # The JVM of an earlier context is reused.
        gateway = _launch_gateway(conf) if SparkContext._gateway is None else None  # noqa: SLF001
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise EngineError(_not_started(error, master)) from error
    log_errors_of(context._accumulatorServer)  # noqa: SLF001 - there is no public way to get it
    return context


def active_context() -> SparkContext | None:
    """Return the Spark context that this process has; None if it has none."""
    if "pyspark" not in sys.modules:
        # Its import takes half a second.
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context  # noqa: SLF001 - there is no public way to ask


def has_pyspark() -> bool:
    """Return True if PySpark is installed (the extra `spark`), without importing it, which takes half a second."""
    try:
        return find_spec("pyspark") is not None
    except ModuleNotFoundError:
        return False


def refuse_missing_pyspark() -> None:
    """Refuse a job on Spark if PySpark is not installed.

    Raises:
        EngineError: It is not.
    """
    if not has_pyspark():
        raise EngineError(f"PySpark is not installed: pip install 'reput[spark]'; {preflight.WITHOUT_SPARK}")


def log_errors_of(server: BaseServer) -> None:
    """Log the failure of a request, which the server would print.

    No job of ours has accumulators, but their server prints a traceback if the JVM ends, or closes its connection,
    before the driver does. A signal to both stops them in any order.
    """

    def log(request: Any, client_address: Any) -> None:  # noqa: ARG001 - as the server has it
        _log.info("a request to Spark's server for accumulators has failed", exc_info=True)

    server.handle_error = log  # type: ignore[method-assign]


def _launch_gateway(conf: SparkConf) -> JavaGateway:
    """Start the JVM in a thread of its own: Ctrl-C during the start would leave a JVM that nothing ends.

    An interrupt ends the JVM at once. Its start takes seconds.
    """
    from pyspark.java_gateway import launch_gateway

    streams = {"stdout": _jvm_log, "stderr": _jvm_log}
    # A local cluster ends its executors by SIGTERM, and they would inherit the ignored signal.
    is_deaf = not (conf.get("spark.master") or "").startswith("local-cluster")
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb") as started,
        os.fdopen(writing, "wb", buffering=0) as starting,
        ThreadPoolExecutor(1) as pool,
    ):
        launching = pool.submit(launch_gateway, conf, _LaunchArguments(streams, starting, is_deaf))
        try:
            return launching.result()
        except BaseException:
            _end_launch(launching, started)
            raise


def _end_launch(launching: Future[JavaGateway], started: BinaryIO) -> None:
    """End the JVM of a launch that was interrupted. `started`: its process says its id there."""
    look = select.poll()
    look.register(started, select.POLLIN)
    while not launching.done():
        if look.poll(_LOOK_MS):
            # PySpark sees the end, and the launch fails.
            os.kill(int.from_bytes(started.read(_ID_BYTES)), signal.SIGKILL)
            return
    if launching.exception() is None:
        gateway = launching.result()
        gateway.shutdown()
        # The JVM ends when this pipe closes.
        gateway.proc.stdin.close()


class _LaunchArguments(dict[str, Any]):
    """Arguments of the Popen of the JVM. PySpark adds a function to them that lets the JVM ignore Ctrl-C.

    With this class the process also writes its id, and ignores SIGTERM if it is to be deaf to it: stopping a service
    sends that to every process, and the driver must end its query first. The JVM ends when the pipe to its stdin
    closes, also after the driver was killed.
    """

    def __init__(self, streams: Mapping[str, Any], starting: FileIO, is_deaf: bool) -> None:
        super().__init__(streams)
        self._starting = starting
        self._is_deaf = is_deaf

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, self._extended(value) if name == "preexec_fn" else value)

    def _extended(self, prepare: Callable[[], None]) -> Callable[[], None]:
        def prepare_all() -> None:
            prepare()
            if self._is_deaf:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._starting.write(os.getpid().to_bytes(_ID_BYTES))

        return prepare_all


def _not_started(error: Exception, master: str) -> str:
    """Return the error text for a context that Spark did not make."""
    lines = [line.strip() for line in str(error).splitlines() if "Exception" in line or "Error" in line] or [str(error)]
    if master.startswith(preflight.STANDALONE) and any(words in lines[0] for words in _MASTER_LOST):
        # Spark stops the context while it makes it, and fails with an unrelated error.
        return (
            f"Spark does not start: {master} takes connections, and does not answer as a Spark master. Check that "
            f"port, and that its Spark has this PySpark's version; {preflight.WITHOUT_SPARK}"
        )
    return f"Spark does not start on {master}: {lines[0].removeprefix(': ')}{_last_words()}; {preflight.WITHOUT_SPARK}"


def _last_words() -> str:
    """Return the last line that the JVM printed, for an error message."""
    end = _jvm_log.seek(0, os.SEEK_END)
    _jvm_log.seek(max(0, end - _LOG_TAIL))
    lines = _jvm_log.read().decode("utf-8", "replace").strip().splitlines()
    return f" ({lines[-1].strip()})" if lines else ""


def settings(master: str, extra_java: str = "", use_archive: bool = True) -> dict[str, str]:
    """Return the Spark settings of our own contexts."""
    java = [*_FAST_START]
    archive = jvm_archive.usable_archive() if use_archive else None
    if archive is not None:
        java.append(f"-XX:SharedArchiveFile={archive}")
    if extra_java:
        java.append(extra_java)
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    # Other users of the machine reach the loopback, too. Spark makes a secret of its own where all is in one process.
    alone = {"spark.authenticate": "true"}
    return {
        **(local if master.startswith("local") else {}),
        **(alone if master == "local" or master.startswith("local[") else {}),
        "spark.app.name": "reput",
        "spark.master": master,
        "spark.locality.wait": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        # The work is in the Python workers. With Spark's default a job waits forever for an executor that large.
        "spark.executor.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.python.daemon.module": "reput.pipeline.spark.daemon",
    }
