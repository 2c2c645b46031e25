"""What all tests share: where tests with a common dear resource run, and the Spark that they use."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

# Tests with one of these markers all run in one process, so that each resource is started once: a Spark
# session, and the peer's JVMs, which would only get in each other's way on two cores.
_SHARED = ("peer", "spark")

# `make test` tries the same examples wherever it runs, so that what is red has to do with the change at hand;
# `make fuzz` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False, print_blob=True)
settings.load_profile("repeatable")

# A shell lets what runs in its background ignore Ctrl-C, and the processes that tests send it to would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
