"""Spark's Python daemon, with the kernels loaded before it forks its workers: each then starts with them in memory."""

from __future__ import annotations

from reput.kernels import kernels


def main() -> None:
    """Load the kernels, then be pyspark's daemon."""
    from pyspark.daemon import manager

    import reput.pipeline.index_build
    import reput.pipeline.redo
    import reput.pipeline.tasks  # noqa: F401 - loaded for the workers

    kernels()
    manager()


if __name__ == "__main__":
    main()
