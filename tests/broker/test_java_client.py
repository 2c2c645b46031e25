"""RocketMQ's Java client 5.5.0 works with our broker; `make test-clients` compares more with RocketMQ's broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers
from broker.clients.run import PROGRAMS, SEEN, prefix_of, run
from peer import peer
from support.checked import assert_sound
from support.search import IS_LONG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peer

VERSION = "5.5.0"
NAMES = ("send", "push", "pull", "tags") if IS_LONG else ("send", "push")
"""Scenarios that take a few seconds."""
GROUPS = ("pushers", "pullers") if IS_LONG else ("pushers",)


def test_the_java_client_sends_and_consumes(tmp_path: Path) -> None:
    """It sends in each of its ways, and its consumers get all and commit; the store is sound."""
    reason = peer.available(PROGRAMS[VERSION])
    if reason is not None:
        pytest.skip(reason)
    prefix = prefix_of(VERSION)
    with brokers.ours(tmp_path / "ours") as serving:
        ran = run(VERSION, serving, prefix, NAMES, tmp_path / "client")
    for name in NAMES:
        outcome = ran.outcome(name)
        assert SEEN[name](outcome), outcome
    assert_sound(tmp_path / "ours", brokers.config_of())
    with reput.MessageStore.open(tmp_path / "ours", read_only=True) as store:
        for queue_id in range(4):
            end = store.max_offset(f"{prefix}send", queue_id)
            committed = {group: store.query_offset(f"{prefix}{group}", f"{prefix}send", queue_id) for group in GROUPS}
            assert committed == dict.fromkeys(GROUPS, end)
            assert end > 0
