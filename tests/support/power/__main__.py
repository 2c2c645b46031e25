"""The command of the sweep: `make power-cuts` and `python -m support.power`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support.lines import say
from support.power import sweep
from support.power.scenarios import SCENARIOS
from support.power.shares import sweep_all


def main() -> None:
    """Try states of one scenario or of all; or one state again."""
    parser = argparse.ArgumentParser(prog="support.power", description="Cut the power at every call of every scenario.")
    parser.add_argument("--states", type=int, default=100_000, help="different states to try in all")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="draws the states; the first line has it")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="this one only")
    parser.add_argument("--call", type=int, help="with --choice: one state again")
    parser.add_argument("--choice", type=int, default=0)
    parser.add_argument("--fault", choices=("failing_sync", "full_from"), help="with --at: in a run with this fault")
    parser.add_argument("--at", type=int, default=1)
    parser.add_argument("--misread", type=int, default=0, help="with --call: the sector that is read wrong")
    given = parser.parse_args()
    names = [given.scenario] if given.scenario else list(SCENARIOS)
    with tempfile.TemporaryDirectory(prefix="reput-power-") as folder:
        if given.call is not None:
            fault = sweep.Fault(given.fault, given.at) if given.fault else None
            recorded = sweep.record(names[0], Path(folder, "run"), fault)
            sweep.try_state(
                names[0], recorded, sweep.State(given.call, given.choice, fault, given.misread), Path(folder)
            )
            say("the store keeps its promises in this state")
            return
        say(f"seed {given.seed}")
        sys.exit(sweep_all(names, given.states, given.seed, Path(folder)))


if __name__ == "__main__":
    main()
