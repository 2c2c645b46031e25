"""What all tests share: where tests with a common dear resource run, and the Spark that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

# Tests with one of these markers all run in one process, so that each resource is started once: a Spark
# session, and the peer's JVMs, which would only get in each other's way on two cores.
_SHARED = ("peer", "spark")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of each shared resource into one group of pytest-xdist."""
    for item in items:
        for name in _SHARED:
            if item.get_closest_marker(name) is not None:
                item.add_marker(pytest.mark.xdist_group(name))
                break


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """A Spark context on two local cores, started once; skips without Java. Mark its tests with `spark`."""
    from reput.pipeline import jvm_archive, session

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    context = session.start_context("local[2]")
    yield context
    context.stop()
