"""Starting Spark for a job: embedded and local by default, with settings that make it start fast and stay small."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

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
"""The name of the stage that a job is at while Spark starts."""
_LOG_TAIL = 4096
_MASTER_LOST = ("NullPointerException", "stopped SparkContext", "SparkContext has been shutdown", "was shut down")
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


_jvm_log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the JVM
"""What the JVM and the workers print. On our own stdout it would mix with data, and hold a pipe open after we end."""


def start_context(
    master: str | None = None,
    extra_java: str = "",
    use_archive: bool = True,
    listener: ProgressListener | None = None,
) -> SparkContext:
    """A Spark context on `master`, `local[*]` by default, or the one that this process has already.

    `listener`: told that Spark starts, which takes seconds.

    Raises:
        ConfigError: `master` is no Spark master URL.
        EngineError: PySpark is not installed, Java or the workers' Python is unusable, the master cannot be reached, or
            Spark does not start.
    """
    refuse_missing_pyspark()
    from pyspark import SparkConf, SparkContext

    master = master or DEFAULT_MASTER
    preflight.refuse_unknown_master(master)
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no public way to ask
        return SparkContext.getOrCreate()
    preflight.check(master)
    if listener is not None:
        listener.stage(STARTING, 0)
    # Else the workers would be `python3` of the PATH, perhaps one without reput.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        # No look-up of the host's name, and no warning about it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf()
    if master.startswith("local["):
        socket = worker_parent.start_worker_parent()
        conf.set(f"spark.executorEnv.{worker_parent.VARIABLE}", socket)
        # Over TCP a worker's answers wait for a delayed acknowledgement, 40 ms a task. Sockets in the file system have
        # no password: theirs lie in a folder of this user alone.
        folder = worker_parent.folder_of_sockets(socket)
        if folder is not None:
            conf.set("spark.python.unix.domain.socket.enabled", "true")
            conf.set("spark.python.unix.domain.socket.dir", folder)
    for name, value in settings(master, extra_java, use_archive).items():
        conf.set(name, value)
    try:
        # A JVM of an earlier context is used again.
        gateway = _launch_gateway(conf) if SparkContext._gateway is None else None  # noqa: SLF001
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise EngineError(_not_started(error, master)) from error
    log_errors_of(context._accumulatorServer)  # noqa: SLF001 - nobody else hands it out
    return context


def has_pyspark() -> bool:
    """Whether PySpark is installed (the extra `spark`); importing it would take half a second."""
    try:
        return find_spec("pyspark") is not None
    except ModuleNotFoundError:
        return False


def refuse_missing_pyspark() -> None:
    """Refuse a job on Spark where PySpark is not installed.

    Raises:
        EngineError: it is not.
    """
    if not has_pyspark():
        raise EngineError(f"PySpark is not installed: pip install 'reput[spark]'; {preflight.WITHOUT_SPARK}")


def log_errors_of(server: BaseServer) -> None:
    """Log what goes wrong with a request, which is printed otherwise.

    No job of ours has accumulators, and yet the server for them would print a traceback where the JVM ends, or closes
    its connection, before the driver does: whoever stops both by a signal leaves their order to chance.
    """

    def log(request: Any, client_address: Any) -> None:  # noqa: ARG001 - as the server has it
        _log.info("a request to Spark's server for accumulators has failed", exc_info=True)

    server.handle_error = log  # type: ignore[method-assign]


def _launch_gateway(conf: SparkConf) -> JavaGateway:
    """Start the JVM, in a thread of its own: Ctrl-C in the middle of that would leave a JVM that nobody ends."""
    from pyspark.java_gateway import launch_gateway

    streams = {"stdout": _jvm_log, "stderr": _jvm_log}
    # A local cluster ends its executors by SIGTERM, and they would inherit this.
    is_deaf = not (conf.get("spark.master") or "").startswith("local-cluster")
    with ThreadPoolExecutor(1) as pool:
        launching = pool.submit(launch_gateway, conf, _DeafToSignals(streams) if is_deaf else streams)
        try:
            return launching.result()
        except KeyboardInterrupt:
            gateway = launching.result()
            gateway.shutdown()
            # The JVM ends where this ends.
            gateway.proc.stdin.close()
            raise


class _DeafToSignals(dict[str, Any]):
    """Arguments of the Popen of the JVM, to which PySpark adds a function that lets the JVM ignore Ctrl-C.

    It ignores SIGTERM, too, which a service's stop sends to every process: the driver ends its query first. The JVM
    ends when the pipe to its stdin closes, whatever became of the driver.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "preexec_fn":
            value = _also_deaf_to_sigterm(value)
        super().__setitem__(name, value)


def _also_deaf_to_sigterm(prepare: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        prepare()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return both


def _not_started(error: Exception, master: str) -> str:
    """What to say about a context that Spark does not make."""
    lines = [line.strip() for line in str(error).splitlines() if "Exception" in line or "Error" in line] or [str(error)]
    if master.startswith(preflight.STANDALONE) and any(words in lines[0] for words in _MASTER_LOST):
        # Spark stops its context while it is being made, and stumbles over that.
        return (
            f"Spark does not start: {master} takes connections, and does not answer as a Spark master. Check that "
            f"port, and that its Spark has this PySpark's version; {preflight.WITHOUT_SPARK}"
        )
    return f"Spark does not start on {master}: {lines[0].removeprefix(': ')}{_last_words()}; {preflight.WITHOUT_SPARK}"


def _last_words() -> str:
    """The end of what the JVM printed, for an error message."""
    _jvm_log.seek(0, os.SEEK_END)
    _jvm_log.seek(max(0, _jvm_log.tell() - _LOG_TAIL))
    lines = _jvm_log.read().decode("utf-8", "replace").strip().splitlines()
    return f" ({lines[-1].strip()})" if lines else ""


def settings(master: str, extra_java: str = "", use_archive: bool = True) -> dict[str, str]:
    """The Spark settings of our own contexts."""
    java = [*_FAST_START]
    archive = jvm_archive.usable_archive() if use_archive else None
    if archive is not None:
        java.append(f"-XX:SharedArchiveFile={archive}")
    if extra_java:
        java.append(extra_java)
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        **(local if master.startswith("local") else {}),
        "spark.app.name": "reput",
        "spark.master": master,
        "spark.locality.wait": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        # The work is in the Python workers. Spark's default would wait for ever for a worker that large.
        "spark.executor.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.python.daemon.module": "reput.pipeline.spark.daemon",
    }
