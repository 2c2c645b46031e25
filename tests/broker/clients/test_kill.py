"""`reput serve` is killed while RocketMQ's clients work with it: some of the rounds of `make serve-rounds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients.rounds import ServeRounds, unavailable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

KILLS = 2


@pytest.mark.parametrize("language", ["java", "go"])
def test_a_kill_loses_nothing_that_was_acknowledged(language: str, tmp_path: Path) -> None:
    """A kill loses no acknowledged message, queues are delivered in order, and offsets on disk do not go back."""
    reason = unavailable([language])
    if reason is not None:
        pytest.skip(reason)
    with ServeRounds(tmp_path, 1, clients=[language]) as rounds:
        done = [rounds.round() for _ in range(KILLS)]
        assert len(done) == KILLS
        assert rounds.finish()
