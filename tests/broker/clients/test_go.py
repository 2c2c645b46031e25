"""RocketMQ's Go client sees of our broker what it sees of RocketMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients import brokers, go_client
from peer import peer
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients


def test_the_go_client_sees_what_it_sees_with_rocketmq(tmp_path: Path) -> None:
    """It sends in each of its ways, consumes all, and gets what it sends back once more."""
    for reason in (peer.available("broker"), go_client.unavailable()):
        if reason is not None:
            pytest.skip(reason)
    with brokers.rocketmq(tmp_path / "theirs", tmp_path / "home") as serving:
        theirs = go_client.run(serving)
    with brokers.ours(tmp_path / "ours") as serving:
        ours = go_client.run(serving)
    assert (len(theirs["got"]), len(theirs["retried"]), theirs["queues"]) == (40, 20, 4)
    assert ours == theirs
    assert_sound(tmp_path / "ours", brokers.config_of())
