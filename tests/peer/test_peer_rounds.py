"""reput and RocketMQ write one store alternately, killed at random: some of the rounds of `make peer-rounds`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from peer import peer as program
from peer.rounds import Rounds, searches_another_file

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


def test_a_search_by_time_of_4_9_began_in_a_later_file(tmp_path: Path) -> None:
    """RocketMQ 4.9 passes over a file that was changed before the time asked for, and over no other."""
    folder = tmp_path / "consumequeue" / "orders" / "1"
    folder.mkdir(parents=True)
    for start, changed_ms in ((0, 391), (2000, 470)):
        file = folder / f"{start:020}"
        file.touch()
        os.utime(file, ns=(changed_ms * 1_000_000, changed_ms * 1_000_000))
    theirs, ours = {"time": ["orders", 1, 411], "lower": 100}, {"lower": 89}
    assert searches_another_file(tmp_path, theirs, ours)
    assert not searches_another_file(tmp_path, theirs | {"lower": 95}, ours)
    assert not searches_another_file(tmp_path, theirs | {"time": ["orders", 1, 390]}, ours)
    assert not searches_another_file(tmp_path, {"log": []}, ours)


def test_a_search_by_time_of_4_9_ended_in_an_earlier_file(tmp_path: Path) -> None:
    """RocketMQ 4.9 stops at the last entry of a full file that was changed after the time asked for."""
    folder = tmp_path / "consumequeue" / "orders" / "1"
    folder.mkdir(parents=True)
    for start, changed_ms in ((0, 775), (2000, 914)):
        file = folder / f"{start:020}"
        file.write_bytes(bytes(2000))
        os.utime(file, ns=(changed_ms * 1_000_000, changed_ms * 1_000_000))
    theirs, ours = {"time": ["orders", 1, 309], "lower": 99}, {"lower": 103}
    assert searches_another_file(tmp_path, theirs, ours)
    assert not searches_another_file(tmp_path, theirs | {"lower": 98}, ours)
    assert not searches_another_file(tmp_path, theirs | {"time": ["orders", 1, 800]}, ours)
