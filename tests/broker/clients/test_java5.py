"""RocketMQ's Java client of version 5 sees of our gRPC port what it sees of RocketMQ's proxy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker.clients import brokers, java5_client
from peer import peer
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients


class Compared(NamedTuple):
    """The lines of all scenarios, with RocketMQ's proxy and broker, and with ours."""

    theirs: dict[str, Any]
    ours: dict[str, Any]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """All scenarios, run once with each; ours leaves a sound store."""
    for program in ("broker", "proxy", java5_client.PROGRAM):
        reason = peer.available(program)
        if reason is not None:
            pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("java5")
    settings = java5_client.SCENARIO_SETTINGS
    with (
        brokers.rocketmq(folder / "theirs", folder / "home", settings) as broker,
        brokers.proxied(broker, folder / "proxy") as (their_port, _),
        brokers.ours(folder / "ours", settings, grpc_port=0) as our_port,
        ThreadPoolExecutor(2) as both,
    ):
        # Most of the time they wait.
        theirs = both.submit(java5_client.run, their_port, folder / "clients of RocketMQ")
        ours = both.submit(java5_client.run, our_port, folder / "clients of reput")
        compared = Compared(theirs.result(), ours.result())
    assert_sound(folder / "ours", brokers.config_of(settings))
    return compared


@pytest.mark.parametrize("name", java5_client.SEEN)
def test_the_java_client_sees_what_it_sees_with_rocketmq(compared: Compared, name: str) -> None:
    """It sends and receives in each of its ways, and another client takes over from one that is killed."""
    for line in (compared.theirs[name], compared.ours[name]):
        assert "error" not in line, line["error"]
    theirs, ours = compared.theirs[name]["outcome"], compared.ours[name]["outcome"]
    if name == "transaction":
        # RocketMQ may commit a message again that it has asked about meanwhile.
        assert ours.pop("then") == []
        del theirs["then"]
    assert java5_client.SEEN[name](ours), ours
    assert ours == theirs
