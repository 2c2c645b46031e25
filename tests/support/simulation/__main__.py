"""The command: `make simulate`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from support.simulation.run import Simulation
from support.simulation.sometimes import NAMES, TORN_HEAD, Sometimes
from support.simulation.together import Together

_ENOUGH = 1000
"""The number of seeds after which each rare state must have been reached."""


def _live(seed: int, sometimes: Sometimes) -> list[AssertionError]:
    """Run both kinds of lives of a seed; return the promises that they break."""
    broken = []
    for lives in (Simulation, Together):
        with tempfile.TemporaryDirectory(prefix="reput-simulation-") as folder:
            try:
                lives(seed, Path(folder), sometimes).run()
            except AssertionError as error:
                broken.append(error)
    return broken


def main() -> None:
    """Simulate seeds one after the other; exit with 1 if one breaks a promise, or a rare state is never reached."""
    parser = argparse.ArgumentParser(prog="support.simulation", description="Simulate lives of stores, by seeds.")
    parser.add_argument("--seeds", type=int, default=10_000, help="seeds to try")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    # What is made once in a process is there before the first seed, so that it takes the course that it takes later.
    _live(0, Sometimes())
    sometimes, broken = Sometimes(), 0
    for seed in range(given.first, given.first + given.seeds):
        for error in _live(seed, sometimes):
            broken += 1
            sys.stdout.write(f"{error}\n")
    sys.stdout.writelines(f"{sometimes.counts[name]:8} {name}\n" for name in (*NAMES, TORN_HEAD))
    sys.stdout.write(f"{given.seeds} seeds from {given.first} on, {broken} of them break a promise\n")
    if broken or (given.seeds >= _ENOUGH and sometimes.missing):
        sys.exit(1)


if __name__ == "__main__":
    main()
