"""The command: `make simulate`. Each core has a process that runs seeds; the same seed makes the same calls in any."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from support.lines import say
from support.simulation.seeds import begin, run_seeds
from support.simulation.sometimes import NAMES, TORN_HEAD, Sometimes

_ENOUGH = 1000
"""The number of seeds after which each rare state must have been reached."""
_AT_ONCE = 25
"""The seeds that a process is given at once."""


def main() -> None:
    """Simulate seeds; exit with 1 if one breaks a promise, or a rare state is never reached."""
    parser = argparse.ArgumentParser(prog="support.simulation", description="Simulate lives of stores, by seeds.")
    parser.add_argument("--seeds", type=int, default=10_000, help="seeds to try")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    parts = [seeds[at : at + _AT_ONCE] for at in range(0, len(seeds), _AT_ONCE)]
    sometimes, broken = Sometimes(), 0
    # A fork would take over locks and threads of this process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, begin) as pool:
        for part, (errors, counts) in zip(parts, pool.map(run_seeds, parts), strict=True):
            broken += len(errors)
            sometimes.counts += counts
            for error in errors:
                say(error)
            if (part.stop - given.first) % _ENOUGH == 0:
                say(f"{part.stop - given.first} seeds so far, {broken} broken promises")
    for name in (*NAMES, TORN_HEAD):
        say(f"{sometimes.counts[name]:8} {name}")
    say(f"{given.seeds} seeds from {given.first} on, {broken} of them break a promise")
    if broken or (given.seeds >= _ENOUGH and sometimes.missing):
        sys.exit(1)


if __name__ == "__main__":
    main()
