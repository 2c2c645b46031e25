"""The command of the sweep: `make power-cuts` and `python -m support.power`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support.power import sweep
from support.power.scenarios import SCENARIOS


def main() -> None:
    """Try states of one scenario or of all; or one state again."""
    parser = argparse.ArgumentParser(prog="support.power", description="Cut the power at every call of every scenario.")
    parser.add_argument("--states", type=int, default=100_000, help="different states to try in all")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="draws the states; the first line has it")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="this one only")
    parser.add_argument("--call", type=int, help="with --choice: one state again")
    parser.add_argument("--choice", type=int, default=0)
    given = parser.parse_args()
    names = [given.scenario] if given.scenario else list(SCENARIOS)
    with tempfile.TemporaryDirectory(prefix="reput-power-") as folder:
        if given.call is not None:
            recorded = sweep.record(names[0], Path(folder, "run"))
            sweep.try_state(names[0], recorded, sweep.State(given.call, given.choice), Path(folder))
            _say("the store keeps its promises in this state")
            return
        _say(f"seed {given.seed}")
        tried = broken = 0
        left = given.states
        for at, name in enumerate(names):
            most = left // (len(names) - at)
            swept = sweep.sweep(name, Path(folder, f"{at}"), most=most, seed=given.seed, report=_report)
            _say(f"{name:14} {swept.calls:5} calls {swept.distinct:7} states {swept.broken:4} broken")
            tried, broken, left = tried + swept.distinct, broken + swept.broken, left - swept.distinct
        _say(f"{'all':14} {tried:19} states {broken:4} broken")
    sys.exit(broken > 0)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _report(error: AssertionError) -> None:
    sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main()
