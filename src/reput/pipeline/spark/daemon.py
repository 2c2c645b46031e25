"""Spark's Python daemon. It loads the kernels before it forks its workers, so each starts with them in memory."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from reput.pipeline.spark import worker_parent


def _prefer_installed_pyspark() -> None:
    """Import PySpark from its installed folder: Spark's zip, first in the path, costs over half a second."""
    unzipped = [path for path in sys.path if not path.endswith(".zip")]
    if all(PathFinder.find_spec(name, unzipped) for name in ("pyspark", "py4j")):
        sys.path[:] = unzipped


if __name__ == "__main__":
    if not worker_parent.hand_over(os.environ.get(worker_parent.VARIABLE, "")):
        _prefer_installed_pyspark()
        worker_parent.load()

        from pyspark.daemon import manager

        manager()
