"""The preloaded worker parent: Spark's workers come from a process that was loaded while the JVM started."""

from __future__ import annotations

import gc
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reput.pipeline.spark import worker_parent
from reput.pipeline.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark import SparkContext


def _silent(finished: int, total: int) -> None:
    """A Progress that nobody looks at."""


def _argv(_: int) -> list[str]:
    return sys.orig_argv


@pytest.mark.spark
def test_workers_come_from_it(spark: SparkContext) -> None:
    """A worker of a context that reput started is a child of the worker parent, which has the kernels loaded."""
    (argv,) = SparkEngine(spark).run(_argv, [1], _silent)
    assert worker_parent.__name__ in argv


@pytest.mark.spark
def test_workers_collect_little(spark: SparkContext) -> None:
    """The collection after each task does not look at objects from before the worker was forked."""
    (frozen,) = SparkEngine(spark).run(lambda _: gc.get_freeze_count(), [1], _silent)
    assert frozen > 100_000


@pytest.mark.spark
def test_sockets_of_workers(spark: SparkContext) -> None:
    """Workers are reached by sockets in a folder that nobody else may enter."""
    conf = spark.getConf()
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    folder = Path(conf.get("spark.python.unix.domain.socket.dir") or "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()
    assert [path for path in folder.iterdir() if path.name.endswith(".sock")]


def test_a_killed_driver_s_folder_is_removed(tmp_path: Path) -> None:
    """The next worker parent removes the folder of a killed driver; the folder of a live driver stays."""
    code = "from reput.pipeline.spark import worker_parent as p; print(p.start_worker_parent(), flush=True); input()"
    started: list[tuple[subprocess.Popen[str], Path]] = []
    try:
        for kills in (True, False, False):
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"TMPDIR": str(tmp_path)},
                text=True,
            )
            assert process.stdout is not None
            started.append((process, Path(process.stdout.readline().strip()).parent))
            if kills:
                process.kill()
                process.wait()
                assert started[0][1].exists()
        assert [folder.exists() for _, folder in started] == [False, True, True]
    finally:
        for process, _ in started:
            process.communicate()
    assert not list(tmp_path.iterdir())


def test_without_one(tmp_path: Path) -> None:
    """A daemon without a worker parent loads everything itself."""
    assert not worker_parent.hand_over("")
    assert not worker_parent.hand_over(str(tmp_path / "socket"))


def test_a_long_path_has_no_sockets() -> None:
    """In a folder whose sockets would have names longer than Linux takes, workers are reached over TCP."""
    for size, fits in ((64, True), (65, False)):
        folder = "/" + "x" * (size - 1)
        assert (worker_parent.folder_of_sockets(f"{folder}/socket") == folder) is fits


def test_a_worker_parent_that_does_not_answer(tmp_path: Path) -> None:
    """A daemon whose worker parent ends before it has taken over keeps its streams and loads everything itself."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def hang_up() -> None:
            listening.accept()[0].close()

        answering = threading.Thread(target=hang_up)
        answering.start()
        assert not worker_parent.hand_over(path)
        answering.join()
