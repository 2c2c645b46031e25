"""reput and RocketMQ write one store alternately, killed at random: some of the rounds of `make peer-rounds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peer import peer as program
from peer.rounds import Rounds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peer

TURNS = 2
IN_THE_SUITE = ("batch", "lmq-rocksdb", "index-rocksdb")
"""Kinds that have most of all; `make peer-rounds` has every kind and peer."""
CASES = [*((kind, "store") for kind in IN_THE_SUITE), ("file", "broker"), ("file", "old")]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}-{name}" for kind, name in CASES])
def test_turn_about(kind: str, name: str, tmp_path: Path) -> None:
    """Each goes on where the other was killed: nothing is lost, all is sound, and both answer alike."""
    reason = program.available(name)
    if reason is not None:
        pytest.skip(reason)
    case = Rounds(kind, 1, tmp_path, (name,))
    done = [case.round() for _ in range(TURNS)]
    assert len(done) == TURNS
