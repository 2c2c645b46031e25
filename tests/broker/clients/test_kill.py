"""`reput serve` is killed while RocketMQ's client works with it: some of the rounds of `make serve-rounds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients.rounds import ServeRounds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

KILLS = 2


@pytest.mark.usefixtures("programs")
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """A kill loses no acknowledged message, queues are delivered in order, and offsets on disk do not go back."""
    with ServeRounds(tmp_path, 1) as rounds:
        done = [rounds.round() for _ in range(KILLS)]
        assert len(done) == KILLS
        assert rounds.finish()
