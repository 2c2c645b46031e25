"""Spark's Python daemon, with the kernels loaded before it forks its workers: each then starts with them in memory."""

from __future__ import annotations

import pyspark.worker  # noqa: F401 - loaded once here, not in each worker
from pyspark.daemon import manager

from reput.kernels.warm import warm_kernels
from reput.pipeline import index_build, redo, tasks  # noqa: F401 - loaded for the workers

if __name__ == "__main__":
    warm_kernels()
    manager()
