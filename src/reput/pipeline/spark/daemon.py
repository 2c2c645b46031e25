"""Spark's Python daemon, with the kernels loaded before it forks its workers: each then starts with them in memory."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from reput.pipeline.spark import nursery


def _prefer_installed_pyspark() -> None:
    """Import PySpark from where it is installed: Spark puts its zip in front, which takes over half a second more."""
    unzipped = [path for path in sys.path if not path.endswith(".zip")]
    if all(PathFinder.find_spec(name, unzipped) for name in ("pyspark", "py4j")):
        sys.path[:] = unzipped


if __name__ == "__main__":
    if not nursery.hand_over(os.environ.get(nursery.VARIABLE, "")):
        _prefer_installed_pyspark()

        import pyspark.worker  # noqa: F401 - loaded once here, not in each worker
        from pyspark.daemon import manager

        from reput.kernels.warm import warm_field_kernels, warm_kernels, warm_table_kernels
        from reput.pipeline.build import index_build, redo, rocksdb_tables  # noqa: F401 - loaded for the workers
        from reput.pipeline.split import tasks  # noqa: F401 - loaded for the workers

        warm_kernels()
        warm_field_kernels()
        warm_table_kernels()
        nursery.keep_from_collection()
        manager()
