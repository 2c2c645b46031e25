"""Fixtures of all tests, and the order in which groups of tests run.

Folders mirror src/reput. A folder stays flat where most of its tests are about several modules, as in store/,
broker/ and cli/.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support import golden
from support.leaves import leaves_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

# Tests with one of these markers all run in one process, so that each resource is started once: a Spark
# session, and the peer's JVMs, which would only get in each other's way on two cores.
_SHARED = ("spark", "peer")

# The folders that take longest come next: what is left for the end is short, and all processes end together.
_LONG_FOLDERS = ("faults", "pipeline", "kernels", "sim", "store")

# `make test` tries the same examples wherever it runs, so that what is red has to do with the change at hand;
# `make fuzz` looks for new ones.
# No example has a deadline: the first one compiles kernels, and on a busy machine any one may wait.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, print_blob=True, deadline=None)
settings.load_profile("repeatable")

# A shell lets what runs in its background ignore Ctrl-C, and `nohup` a hang-up. Processes that tests start would, too.
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)

# Many tests start reput as a program. Where Python keeps no compiled modules, each start compiles all of them again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of each shared resource into one group of pytest-xdist, and those of each other module."""
    if not config.getoption("loadgroup", False):
        return
    groups = [_group(item) for item in items]
    for item, group in zip(items, groups, strict=True):
        item.add_marker(pytest.mark.xdist_group(group))
    ranks = dict(zip(items, map(_rank, groups), strict=True))
    items.sort(key=ranks.__getitem__)


# Half a million objects of test modules and libraries live until the end: no collection looks at them.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is there now out of collections from here on: each full one would take a quarter of a second."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the end of Python free them as always: libraries would report them as leaks."""
    gc.unfreeze()


def _group(item: pytest.Item) -> str:
    """The group of a test: its shared resource, else its module, so that a module's fixtures are made once."""
    for name in _SHARED:
        if item.get_closest_marker(name) is not None:
            return name
    return item.nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")


def _rank(group: str) -> int:
    """The place of a group in the order in which groups are started."""
    first = (*_SHARED, *(f"{folder}/" for folder in _LONG_FOLDERS))
    return next((rank for rank, start in enumerate(first) if group.startswith(start)), len(first))


@pytest.fixture(scope="session", autouse=True)
def _groups_hold(request: pytest.FixtureRequest) -> None:
    """Refuse a pytest-xdist that does not know of the groups: it would start each resource in each process.

    pytest-xdist 3.8 writes a test's group into its name, which pytest 9.2 does not take over.
    """
    if request.config.getoption("loadgroup", False):
        names = [item.nodeid for item in request.session.items]
        assert all(name.rfind("@") > name.rfind("]") for name in names), "pytest-xdist does not keep groups together"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give other golden stores only to tests that hold for any: those that are marked golden."""
    golden.use_given(item.get_closest_marker("golden") is not None)


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    """Fail a test that leaves a thread of ours, such as that of an open store, or a handler of a signal."""
    with leaves_nothing():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """A Spark context on two local cores, started once; skips without Java. Mark its tests with `spark`."""
    from reput.pipeline.spark import jvm_archive, session

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    context = session.start_context("local[2]")
    yield context
    context.stop()
