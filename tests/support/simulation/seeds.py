"""Seeds that one process simulates."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from support.simulation.run import Simulation
from support.simulation.sometimes import Sometimes
from support.simulation.together import Together


def _live(seed: int, sometimes: Sometimes) -> list[str]:
    """Run both kinds of lives of a seed; return the promises that they break."""
    broken = []
    for lives in (Simulation, Together):
        with tempfile.TemporaryDirectory(prefix="reput-simulation-") as folder:
            try:
                lives(seed, Path(folder), sometimes).run()
            except AssertionError as error:
                broken.append(str(error))
    return broken


def begin() -> None:
    """Make what is made once in a process, so that the first seed takes the course that it takes later."""
    _live(0, Sometimes())


def run_seeds(seeds: range) -> tuple[list[str], Counter[str]]:
    """Run seeds; return the promises that they break, and how often they reached each rare state."""
    sometimes = Sometimes()
    return [error for seed in seeds for error in _live(seed, sometimes)], sometimes.counts
