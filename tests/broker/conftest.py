"""A broker on a store of its own, and a client of it; the store is checked when the test is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, start_workers
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with the topic `orders` of 4 queues, with either kind of flush."""
    path, config = tmp_path / "store", reput.StoreConfig(flush_disk_type=request.param)
    with reput.serve(path, topics={"orders": 4}, config=config) as running:
        yield running
    assert_sound(path)


@pytest.fixture
def client(broker: reput.RunningBroker) -> Iterator[Client]:
    """A connection to the broker."""
    with Client(broker.address) as connected:
        yield connected


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[reput.RunningBroker]:
    """A broker that gets anything."""
    with reput.serve(tmp_path_factory.mktemp("fuzzed") / "store", topics={"orders": 1}) as running:
        start_workers(running)
        yield running
