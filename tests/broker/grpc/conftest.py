"""A broker with a gRPC port, and a client of it; the store is checked when the test is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.grpc.stubs import GrpcClient
from broker.remoting import Client
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = {
    "orders": (4, "NORMAL"),
    "fifo": (4, "FIFO"),
    "later": (2, "DELAY"),
    "ends": (2, "TRANSACTION"),
    "mixed": (4, "MIXED"),
    "untyped": 4,
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with topics for each type of message, with either kind of flush."""
    path = tmp_path / "store"
    config = reput.StoreConfig(
        flush_disk_type=request.param,
        recall_message_enable=True,
        transaction_check_interval=50,
        transaction_time_out=1,
    )
    with reput.serve(path, topics=TOPICS, config=config, grpc_port=0) as running:
        yield running
    assert_sound(path)


@pytest.fixture
def client(broker: reput.RunningBroker) -> Iterator[GrpcClient]:
    """A client of gRPC."""
    assert broker.grpc_address is not None
    with GrpcClient(broker.grpc_address) as connected:
        yield connected


@pytest.fixture
def remoting(broker: reput.RunningBroker) -> Iterator[Client]:
    """A client of the remoting protocol."""
    with Client(broker.address) as connected:
        yield connected
