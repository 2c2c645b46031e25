"""Lives of a store with steps, clock and faults that a seed decides: no promise is broken, and rare states are reached.

`make simulate SEEDS=10000` tries many more seeds, and repeats that of a failure.
"""

from __future__ import annotations

import random
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from reput.files import forks, fs, maps
from reput.store.owner import swap
from reput.store.read.view import StoreView
from support.search import cases
from support.simulation.conductor import Conductor
from support.simulation.run import WEIGHTS, Simulation
from support.simulation.seat import DeadlockError
from support.simulation.sometimes import CLOSED_AMID, CONTENDED, TAIL_FULL, Sometimes
from support.simulation.together import Together

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.simulation.lives import Lives

SEEDS, THREADED = cases(1000, 2000), cases(100, 1000)
LATER_STEPS = ("broker", "expire", "put_side", "delete_side")
"""Steps that came after the first seeds were found; these are repeated without them."""
PARTS = 5
"""The seeds are run in this many parts, so that processors share them."""


def run_all(lives: Callable[[int, Path, Sometimes], Lives], seeds: range, folder: Path) -> Sometimes:
    """Run the lives of some seeds; return the rare states that they reached."""
    sometimes = Sometimes()
    for seed in seeds:
        lives(seed, folder / f"{seed}", sometimes).run()
    return sometimes


@pytest.mark.parametrize("part", range(PARTS))
def test_any_order_of_steps(part: int, tmp_path: Path) -> None:
    """After each power cut the store keeps what was promised; every rare state is reached by some seed of a part."""
    seeds = range(part, SEEDS, PARTS)
    assert set(run_all(Simulation, seeds, tmp_path).missing) <= {CONTENDED, CLOSED_AMID, TAIL_FULL}


def test_a_seed_is_repeated_exactly(tmp_path: Path) -> None:
    """Two runs of a seed make the same changes of the disk, byte by byte; those of another seed differ."""
    first, again, other = (Simulation(seed, tmp_path / f"{n}", Sometimes()).run() for n, seed in enumerate((3, 3, 4)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("seed", [500127, 500304, 1000473, 1000512])
def test_seeds_that_broke_a_promise(seed: int, tmp_path: Path) -> None:
    """A flush kept a message without its keys; a cut took a whole log, or records, and left items of theirs."""
    steps = {name: weight for name, weight in WEIGHTS.items() if name not in LATER_STEPS}
    Simulation(seed, tmp_path, Sometimes(), steps).run()


def test_a_deletion_that_a_power_cut_undoes_in_part_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that removes the files of a deleted queue before the queue is durably gone breaks its promise."""
    monkeypatch.setattr(swap, "_sync_deletion", lambda *_: None)
    steps = {"put_side": 3, "delete_side": 3, "put": 1}
    lives = partial(Simulation, weights=steps)
    with pytest.raises(AssertionError, match="make simulate FIRST="):
        run_all(lives, range(60), tmp_path)


def test_any_order_of_threads(tmp_path: Path) -> None:
    """Threads at work together break no promise, whichever goes on where; they meet at locks, and at the end."""
    assert not {CONTENDED, CLOSED_AMID}.intersection(run_all(Together, range(THREADED), tmp_path).missing)


def test_an_order_of_threads_is_repeated_exactly(tmp_path: Path) -> None:
    """Two runs of a seed make the same changes of the disk; what is made once in a process is there before."""
    _, first, again, other = (
        Together(seed, tmp_path / f"{n}", Sometimes()).run() for n, seed in enumerate((3, 3, 3, 4))
    )
    assert first == again
    assert first != other


def test_a_message_that_cannot_be_read_yet_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose readers do not look for what is new breaks the promise of its puts: threads can fail, too."""
    monkeypatch.setattr(StoreView, "catch_up", lambda _: None)
    with pytest.raises(AssertionError, match="make simulate FIRST="):
        run_all(Together, range(20), tmp_path)


def test_a_deadlock_is_found() -> None:
    """Two threads that take two locks in opposite orders wait for ever: some seed finds it, and none hangs."""

    def take(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            forks.released(first)
            with second:
                forks.released(second)

    def run(seed: int) -> bool:
        with Conductor(random.Random(seed)) as conductor:
            one, other = maps.threading.Lock(), maps.threading.Lock()
            try:
                conductor.together([partial(take, one, other), partial(take, other, one)])
            except DeadlockError:
                return True
            return False

    assert {run(seed) for seed in range(100)} == {True, False}


def test_a_lost_sync_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that calls a message durable without a sync breaks its promise: a simulation can fail."""
    monkeypatch.setattr(fs, "sync_data", int)
    with pytest.raises(AssertionError, match="make simulate FIRST="):
        run_all(Simulation, range(100), tmp_path)
