"""Lives of a store with steps, clock and faults that a seed decides: no promise is broken, and rare states are reached.

`make simulate SEEDS=10000` tries many more seeds, and repeats that of a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.files import fs
from support.search import cases
from support.simulation.run import WEIGHTS, Simulation
from support.simulation.sometimes import Sometimes

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = cases(50, 2000)


def simulate(seeds: int, folder: Path) -> Sometimes:
    """Run simulations of the seeds from 0 on; return the rare states that they reached."""
    sometimes = Sometimes()
    for seed in range(seeds):
        Simulation(seed, folder / f"{seed}", sometimes).run()
    return sometimes


def test_any_order_of_steps(tmp_path: Path) -> None:
    """After each power cut the store keeps what was promised; every rare state is reached by some seed."""
    assert simulate(SEEDS, tmp_path).missing == []


def test_a_seed_is_repeated_exactly(tmp_path: Path) -> None:
    """Two runs of a seed make the same changes of the disk, byte by byte; those of another seed differ."""
    first, again, other = (Simulation(seed, tmp_path / f"{n}", Sometimes()).run() for n, seed in enumerate((3, 3, 4)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("seed", [500127, 500304, 1000473, 1000512])
def test_seeds_that_broke_a_promise(seed: int, tmp_path: Path) -> None:
    """A flush kept a message without its keys; a cut took a whole log, or records, and left items of theirs."""
    steps = {name: weight for name, weight in WEIGHTS.items() if name != "broker"}
    Simulation(seed, tmp_path, Sometimes(), steps).run()


def test_a_lost_sync_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that calls a message durable without a sync breaks its promise: a simulation can fail."""
    monkeypatch.setattr(fs, "sync_data", int)
    with pytest.raises(AssertionError, match="make simulate FIRST="):
        simulate(100, tmp_path)
