"""The preloaded worker parent: it loads the kernels while the JVM starts, and Spark's Python daemon is forked from it.

Spark starts its Python daemon with the first task, and that task waits half a second until numba and the kernels are
loaded. With a master on this machine (`local[...]`) the driver starts the worker parent together with the JVM.
The daemon that Spark starts later only hands over its pipes and its environment. The worker parent then forks, and the
child is the daemon. If anything goes wrong on the way, the daemon loads everything itself.

The socket is in a folder that only this user may enter. If the driver is killed, a later driver removes the folder.
The worker parent watches a pipe to the driver and ends with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from reput.files.scratch import ScratchFolder

VARIABLE = "REPUT_WORKER_PARENT"
_STANDARD_STREAMS = 3
_TAKEN_OVER = b"!"
_ENVIRONMENT_LIMIT = 1 << 20
_SOCKET_PATH_LIMIT, _WORKER_SOCKET_SIZE = 107, len("/.") + 36 + len(".sock")
"""The longest path that a socket can have on Linux, and what PySpark adds to the folder for a worker's."""
_ready: list[tuple[ScratchFolder, subprocess.Popen[bytes]]] = []


def start_worker_parent() -> str:
    """Start the worker parent of this process; return the path of the socket where it will listen."""
    if not _ready or _ready[0][1].poll() is not None:
        folder = ScratchFolder("reput-workers-")
        path = str(folder.path / "socket")
        command = [sys.executable, "-m", "reput.pipeline.spark.worker_parent", path]
        # The child watches its stdin, which is a pipe to this process.
        environment = {**os.environ, "PYTHONPATH": _import_path()}
        # Only the driver handles Ctrl-C, also before the new process has set its signals.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - our own program
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _ready[:] = [(folder, process)]
    return str(_ready[0][0].path / "socket")


def folder_of_sockets(path: str) -> str | None:
    """Return the folder of the socket at `path`; None if sockets of Spark's workers there had too long paths."""
    folder = str(Path(path).parent)
    return folder if len(os.fsencode(folder)) + _WORKER_SOCKET_SIZE <= _SOCKET_PATH_LIMIT else None


def _import_path() -> str:
    """Return the PYTHONPATH with which a child imports the same reput."""
    return os.pathsep.join(path for path in sys.path if path)


def hand_over(path: str) -> bool:
    """Let the worker parent at `path` act as this process's Python daemon until it ends; return False if there is none.

    The daemon that Spark has started calls this. Its standard streams are its pipes to the JVM.
    """
    with socket.socket(socket.AF_UNIX) as parent:
        try:
            parent.connect(path)
            message = json.dumps(dict(os.environ)).encode()
            socket.send_fds(parent, [len(message).to_bytes(8, "big")], list(range(_STANDARD_STREAMS)))
            parent.sendall(message)
            if parent.recv(1) != _TAKEN_OVER:
                return False
        except OSError:
            return False
        # From here on only the child keeps the JVM's pipes open. Its end of this socket closes when it ends.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(_STANDARD_STREAMS):
            os.dup2(null, stream)
        while parent.recv(1):
            pass
    return True


def _serve(path: str) -> None:
    """Load the modules of the workers, then fork a daemon for each request, until stdin ends."""
    # Only the driver handles Ctrl-C and SIGTERM: this process, its daemon and the workers end with the driver.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(path)
    except FileNotFoundError:
        # The driver has ended already and has removed the folder.
        return
    listening.listen()
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        with contextlib.suppress(OSError, ValueError):
            asking, _ = listening.accept()
            if os.fork() == 0:
                try:
                    listening.close()
                    _become_daemon(asking)
                finally:
                    # Whatever went wrong: a child must not go on as a second parent.
                    os._exit(1)
            asking.close()


def load() -> None:
    """Load the modules and kernels that tasks need, so that forked workers have them in memory."""
    import pyspark.worker  # noqa: F401 - loaded once here, not in each worker

    from reput.kernels.warm import warm_field_kernels, warm_kernels, warm_table_kernels
    from reput.pipeline.build.index.write import build_index_file  # noqa: F401 - loaded for the workers
    from reput.pipeline.build.reorder.tasks import extract  # noqa: F401 - loaded for the workers
    from reput.pipeline.build.rocksdb.tables import build_tables  # noqa: F401 - loaded for the workers
    from reput.pipeline.split.tasks import decode_and_sink  # noqa: F401 - loaded for the workers

    warm_kernels()
    warm_field_kernels()
    warm_table_kernels()
    keep_from_collection()


def keep_from_collection() -> None:
    """Exclude everything that is loaded so far from garbage collection.

    PySpark's workers collect after each task. Scanning the objects of numba alone takes 60 ms, several times as long as
    a small task, and a forked worker would copy their pages.
    """
    gc.collect()
    gc.freeze()


def _become_daemon(asking: socket.socket) -> None:
    from pyspark.daemon import manager

    size, streams, _, _ = socket.recv_fds(asking, 8, _STANDARD_STREAMS)
    data = bytearray()
    wanted = min(int.from_bytes(size, "big"), _ENVIRONMENT_LIMIT)
    while len(data) < wanted and (piece := asking.recv(wanted - len(data))):
        data += piece
    environment = json.loads(data)
    os.environ.clear()
    os.environ.update(environment)
    for stream, descriptor in enumerate(streams):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asking.sendall(_TAKEN_OVER)
    manager()
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
