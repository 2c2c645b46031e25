"""The start of Spark for a job: embedded and local by default, with settings for a fast start and little memory."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

from reput.errors import EngineError
from reput.pipeline.spark import jvm_archive, preflight, worker_parent
from reput.pipeline.spark.background import in_background
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
_LOOK_S = 0.02
_END_S = 5.0
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
    master = master or DEFAULT_MASTER
    preflight.refuse_unknown_master(master)
    active = active_context()
    if active is not None:
        return active
    preflight.check(master)
    if listener is not None:
        listener.stage(STARTING, 0)
    return make_context(master, extra_java, use_archive)


def active_context() -> SparkContext | None:
    """Return the Spark context that this process has; None if it has none."""
    if "pyspark" not in sys.modules:
        # Its import takes half a second.
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context  # noqa: SLF001 - there is no public way to ask


def make_context(
    master: str, extra_java: str = "", use_archive: bool = True, launch: Launch | None = None
) -> SparkContext:
    """Make a Spark context, where `start_context` has found nothing in the way of one.

    Another thread may end the start with the `launch` that it gives.

    Raises:
        EngineError: Spark does not start.
    """
    from pyspark import SparkConf, SparkContext

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
        gateway = (launch or Launch()).gateway(conf) if SparkContext._gateway is None else None  # noqa: SLF001
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise EngineError(_not_started(error, master)) from error
    log_errors_of(context._accumulatorServer)  # noqa: SLF001 - there is no public way to get it
    return context


def forget_jvm() -> None:
    """Let the next context start a JVM, after a start whose JVM was ended."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - PySpark keeps them for good
    SparkContext._active_spark_context = None  # noqa: SLF001 - a start that failed late leaves it


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


class Launch:
    """The start of a JVM in a thread of its own: it takes seconds, and can be ended at any time, by Ctrl-C as well."""

    def __init__(self) -> None:
        self._given_up = False
        self._process_id: Future[int] = Future()
        self._gateway: JavaGateway | None = None

    def gateway(self, conf: SparkConf) -> JavaGateway:
        """Start the JVM, and wait for it.

        Raises:
            EngineError: The start was given up before.
        """
        from pyspark.java_gateway import launch_gateway

        if self._given_up:
            raise EngineError("the start of Spark was given up")
        streams = {"stdout": _jvm_log, "stderr": _jvm_log}
        # A local cluster ends its executors by SIGTERM, and they would inherit the ignored signal.
        is_deaf = not (conf.get("spark.master") or "").startswith("local-cluster")
        reading, writing = os.pipe()
        self._process_id = in_background(partial(_process_id, reading), "reput-jvm-id")
        with os.fdopen(writing, "wb", buffering=0) as starting:
            arguments = _LaunchArguments(streams, starting, is_deaf)
            launching = in_background(partial(launch_gateway, conf, arguments), "reput-jvm-start")
            try:
                self._gateway = launching.result()
            except BaseException:
                self.end(launching.done)
                if launching.exception() is None:
                    launching.result().shutdown()
                    _close_stdin(launching.result())
                raise
        return self._gateway

    def end(self, is_over: Callable[[], bool]) -> None:
        """End the JVM, as soon as it has a process, unless the start is over by then."""
        self._given_up = True
        kill_at = time.monotonic()
        if self._gateway is not None:
            # A JVM that is asked to end removes Spark's folders.
            _close_stdin(self._gateway)
            kill_at += _END_S
        while not is_over():
            with suppress(TimeoutError):
                process_id = self._process_id.result(_LOOK_S)
                if time.monotonic() < kill_at:
                    time.sleep(_LOOK_S)
                elif process_id:
                    # PySpark sees the end, and the start fails.
                    with suppress(ProcessLookupError):
                        os.kill(process_id, signal.SIGKILL)
                    return


def _close_stdin(gateway: JavaGateway) -> None:
    """Let a JVM end: it does so when the pipe to its stdin closes."""
    gateway.proc.stdin.close()


def _process_id(reading: int) -> int:
    """Return the id that the process of a JVM writes into a pipe; 0 if there is no such process."""
    with os.fdopen(reading, "rb") as started:
        return int.from_bytes(started.read(_ID_BYTES))


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
