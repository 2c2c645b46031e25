"""The environment of a benchmark: how much it measures, where it works, where its results go.

QUICK        1: few messages, one round: whether it works, not how fast it is
ROUNDS       how often everything is measured, in turns
BENCH_DIR    where stores go, on the disk to be measured; default bench/work
RESULTS_DIR  default bench/results, after a quick run bench/work

Each benchmark says what else it looks at. A value that cannot be one ends the run at once, with a line that names it.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from workload import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WORK = REPOSITORY / "bench" / "work"
RESULTS = REPOSITORY / "bench" / "results"


def is_quick() -> bool:
    """Return True if the run is only to show that the benchmark works."""
    return os.environ.get("QUICK", "") not in ("", "0")


def amount(name: str, default: float, quick: float | None = None) -> float:
    """Return a number from the environment; else its default, or that of a quick run."""
    usual = default if quick is None or not is_quick() else quick
    return _number(name, os.environ.get(name, str(usual)))


def amounts(name: str, default: str, unit: int = 1, *, may_be_none: bool = False) -> list[int]:
    """Return numbers of units from the environment, the smallest first."""
    found = sorted(round(_number(name, word) * unit) for word in os.environ.get(name, default).split())
    if not found and not may_be_none:
        sys.exit(f"{name}: give at least one number")
    return found


def rounds(default: int = 3) -> int:
    """Return the number of rounds; a quick run has one."""
    return max(1, round(amount("ROUNDS", default, 1)))


def parts(known: Iterable[str]) -> list[str]:
    """Return the parts of a benchmark that PARTS names; without it all."""
    names = list(known)
    found = os.environ.get("PARTS", " ".join(names)).split()
    if unknown := [name for name in found if name not in names]:
        sys.exit(f"PARTS: no such part: {', '.join(unknown)}; the parts are {' '.join(names)}")
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        sys.exit(f"{name}: {text!r} is no amount; give a number")
    return value


@contextmanager
def work_folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for a run's stores, below BENCH_DIR or another parent; it is removed at the end."""
    parent = parent or Path(os.environ.get("BENCH_DIR", WORK))
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    try:
        yield work
    finally:
        shutil.rmtree(work)


def results_folder() -> Path:
    """Return the folder for the results; those of a quick run do not replace those that are kept."""
    return Path(os.environ.get("RESULTS_DIR", WORK if is_quick() else RESULTS))
