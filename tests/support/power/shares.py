"""All scenarios, one on each core: each gets its share of the states."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

from support.lines import say
from support.power import sweep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHARE_OF_FAULTS, _SHARE_OF_MISREADS = 5, 10
"""One state in five is one after a fault of the disk; one in ten is recovered while a sector is read wrong."""


class _Ended(NamedTuple):
    """The end of a scenario: states that were tried, those that broke a promise, a line and reports for people."""

    states: int
    broken: int
    line: str
    reports: list[str]


def _sweep_one(name: str, most: int, seed: int, folder: Path) -> _Ended:
    """Sweep one scenario: states after faults of the disk, states read wrong, and for the rest power cuts alone."""
    reports: list[str] = []

    def report(error: AssertionError) -> None:
        reports.append(str(error))

    faulty = sweep.sweep_faults(name, folder, most=most // _SHARE_OF_FAULTS, seed=seed, report=report)
    misread = sweep.sweep_misreads(name, folder, most=most // _SHARE_OF_MISREADS, seed=seed, report=report)
    others = faulty.distinct + misread.distinct
    swept = sweep.sweep(name, folder, most=most - others, seed=seed, report=report)
    broken = swept.broken + faulty.broken + misread.broken
    line = (
        f"{name:14} {swept.calls:5} calls {swept.distinct:7} states, {faulty.calls:5} faults "
        f"{faulty.distinct:6} states, {misread.distinct:6} misread {broken:4} broken"
    )
    return _Ended(swept.distinct + others, broken, line, reports)


def sweep_all(names: Sequence[str], states: int, seed: int, folder: Path) -> bool:
    """Sweep scenarios; return True if a promise was broken. What one leaves of its share others get."""
    tried = broken = promised = 0
    running: dict[Future[_Ended], int] = {}
    waiting, cores = list(names), len(os.sched_getaffinity(0))
    # Threads of RocksDB do not live on in a fork.
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        while waiting or running:
            while waiting and len(running) < cores:
                most, name = (states - tried - promised) // len(waiting), waiting.pop(0)
                running[pool.submit(_sweep_one, name, most, seed, folder / name)] = most
                promised += most
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                promised -= running.pop(ended)
                found = ended.result()
                tried, broken = tried + found.states, broken + found.broken
                sys.stderr.writelines(f"{one}\n" for one in found.reports)
                say(found.line)
    say(f"{tried:,} states, {broken} broken")
    return broken > 0
