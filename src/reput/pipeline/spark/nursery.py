"""The nursery: a process that loads the kernels while the JVM starts; Spark's Python daemon is forked from it.

Spark starts its Python daemon with the first task, and that task waits half a second until numba and the kernels are
loaded. On this machine alone (`local` masters) the driver starts the nursery together with the JVM. The daemon that
Spark starts later only hands its pipes and its environment over; the nursery forks, and the child is the daemon.
Whatever goes wrong on the way, the daemon loads everything itself.

The socket lies in a folder of this user alone, which a later driver removes where this one was killed. The nursery
ends with the driver, whose end of a pipe it watches.
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

VARIABLE = "REPUT_NURSERY"
_STANDARD_STREAMS = 3
_TAKEN_OVER = b"!"
_ENVIRONMENT_LIMIT = 1 << 20
_SOCKET_PATH_LIMIT, _WORKER_SOCKET_SIZE = 107, len("/.") + 36 + len(".sock")
"""The longest path that a socket can have on Linux, and what PySpark adds to the folder for a worker's."""
_ready: list[tuple[ScratchFolder, subprocess.Popen[bytes]]] = []


def start_nursery() -> str:
    """Start a nursery for this process; returns the path of its socket, where it will listen when it is ready."""
    if not _ready or _ready[0][1].poll() is not None:
        folder = ScratchFolder("reput-nursery-")
        path = str(folder.path / "socket")
        command = [sys.executable, "-m", "reput.pipeline.spark.nursery", path]
        # Its stdin is the pipe that it watches.
        environment = {**os.environ, "PYTHONPATH": _import_path()}
        # Ctrl-C is the driver's affair, also while the new process has not come to say so.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - our own program
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _ready[:] = [(folder, process)]
    return str(_ready[0][0].path / "socket")


def folder_of_sockets(path: str) -> str | None:
    """The folder of the nursery at `path`, where sockets of Spark's workers can lie, too; None: too long."""
    folder = str(Path(path).parent)
    return folder if len(os.fsencode(folder)) + _WORKER_SOCKET_SIZE <= _SOCKET_PATH_LIMIT else None


def _import_path() -> str:
    """What the nursery needs to import the same reput, wherever that came from."""
    return os.pathsep.join(path for path in sys.path if path)


def hand_over(path: str) -> bool:
    """Let the nursery at `path` be this process's Python daemon, until it ends; False where there is none.

    Called by the daemon that Spark has started, whose standard streams are its pipes to the JVM.
    """
    with socket.socket(socket.AF_UNIX) as nursery:
        try:
            nursery.connect(path)
            message = json.dumps(dict(os.environ)).encode()
            socket.send_fds(nursery, [len(message).to_bytes(8, "big")], list(range(_STANDARD_STREAMS)))
            nursery.sendall(message)
            if nursery.recv(1) != _TAKEN_OVER:
                return False
        except OSError:
            return False
        # Only the child keeps the JVM's pipes open from here on, and its end of this socket closes when it ends.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(_STANDARD_STREAMS):
            os.dup2(null, stream)
        while nursery.recv(1):
            pass
    return True


def _serve(path: str) -> None:
    """Load what workers need, then fork a daemon for each that asks, until stdin ends."""
    # Ctrl-C and SIGTERM are the driver's affair: this process, its daemon and the workers end when the driver does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(path)
    except FileNotFoundError:
        # The driver has ended already, and its folder with it.
        return
    listening.listen()
    _load()
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
                    # Whatever went wrong: a child must not go on as a second nursery.
                    os._exit(1)
            asking.close()


def _load() -> None:
    import pyspark.worker  # noqa: F401 - loaded once here, not in each worker

    from reput.kernels.warm import warm_field_kernels, warm_kernels, warm_table_kernels
    from reput.pipeline.build import index_build, redo, rocksdb_tables  # noqa: F401 - loaded for the workers
    from reput.pipeline.split import tasks  # noqa: F401 - loaded for the workers

    warm_kernels()
    warm_field_kernels()
    warm_table_kernels()
    keep_from_collection()


def keep_from_collection() -> None:
    """Let the garbage collector pass over all that has been loaded so far.

    PySpark's workers collect after each task. To go through what numba alone has loaded takes 60 ms, several times as
    long as a small task, and a forked worker would copy the pages that hold it.
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
