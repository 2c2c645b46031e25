"""The nursery: Spark's workers come from a process that was loaded while the JVM started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from reput.pipeline import nursery
from reput.pipeline.engine import SparkEngine

if TYPE_CHECKING:
    from pathlib import Path

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


def test_without_one(tmp_path: Path) -> None:
    """Where no nursery listens the daemon is told to load everything itself."""
    assert not nursery.hand_over("")
    assert not nursery.hand_over(str(tmp_path / "socket"))
