"""The nursery: Spark's workers come from a process that was loaded while the JVM started."""

from __future__ import annotations

import gc
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reput.pipeline import nursery
from reput.pipeline.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark import SparkContext


def _silent(finished: int, total: int) -> None:
    """A Progress that nobody looks at."""


def _argv(_: int) -> list[str]:
    return sys.orig_argv


@pytest.mark.spark
def test_workers_come_from_it(spark: SparkContext) -> None:
    """A worker of a context that reput started is a child of the nursery, which has the kernels loaded."""
    (argv,) = SparkEngine(spark).run(_argv, [1], _silent)
    assert nursery.__name__ in argv


@pytest.mark.spark
def test_workers_collect_little(spark: SparkContext) -> None:
    """What was loaded before a worker was forked is not looked at by the collection that follows each task."""
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


def test_without_one(tmp_path: Path) -> None:
    """Where no nursery listens the daemon is told to load everything itself."""
    assert not nursery.hand_over("")
    assert not nursery.hand_over(str(tmp_path / "socket"))
