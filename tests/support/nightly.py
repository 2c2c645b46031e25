"""The long runs one after the other, and the table of them in docs/reliability.md: `make nightly`.

PYTHONPATH=tests python -m support.nightly                    every step
PYTHONPATH=tests python -m support.nightly --only simulate    one step; the rows of the others stay

A step is a target of the Makefile. Variables that `make nightly` was given, as SEEDS=1000, reach it instead of its own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from support.lines import say

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make nightly` -->\n", "<!-- end of long runs -->\n"
STEPS = {
    "test": (),
    "nightly-tests": (),
    "power-cuts": ("STATES=105000",),
    "simulate": (),
    "soak": ("MINUTES=30",),
    "mutations": (),
    "damage": (),
    "coverage": (),
    "test-clients": (),
    "serve-rounds": ("ROUNDS=100",),
    "peer-rounds": ("ROUNDS=20",),
    "fuzz": (),
    "fuzz-decoders": ("SECONDS=600",),
    "fuzz-kernels": ("INPUTS=1000000000",),
}
"""The targets in their order, each with its variables."""
_HEAD = "| target | its last line | took | begun (UTC) | commit |\n|---|---|--:|---|---|\n"
_NEVER = "no run yet"


class Run(NamedTuple):
    """The end of a step: if it passed, its last line, its seconds, when it began, and the commit that it tried."""

    passed: bool
    last_line: str
    seconds: float
    begun: datetime
    commit: str

    def row(self, target: str) -> str:
        """Return the row of the table."""
        said = self.last_line.replace("|", "/").strip(" =")
        said = said if self.passed else f"**failed**: {said}"
        took = f"{self.seconds / 60:,.0f} min"
        return f"| `make {target}` | {said} | {took} | {self.begun:%Y-%m-%d %H:%M} | {self.commit} |\n"


def rows_of(text: str) -> dict[str, str]:
    """Return the rows that the page has, by target; a target that was never run has one that says so."""
    table = text.partition(BEGIN)[2].partition(END)[0]
    found = {line.split("`")[1].removeprefix("make "): f"{line}\n" for line in table.splitlines() if "| `make " in line}
    return {target: found.get(target, f"| `make {target}` | {_NEVER} |  |  |  |\n") for target in STEPS}


def rewrite(text: str, runs: dict[str, Run]) -> str:
    """Return the page with the rows of these runs; those of other targets stay."""
    rows = rows_of(text) | {target: run.row(target) for target, run in runs.items()}
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_HEAD}{''.join(rows.values())}\n{END}{after}"


def commit() -> str:
    """Return the commit of the source, with a word if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = [*git, "status", "--porcelain", "--untracked-files=no", "--", "src", "tests"]
    is_changed = subprocess.run(changed, capture_output=True, text=True, check=True).stdout
    return f"`{name.strip()}`{' and changes' if is_changed else ''}"


def unless_given(variables: tuple[str, ...], flags: str) -> list[str]:
    """Return the variables of a step without those that `make` was given; `flags` is its MAKEFLAGS."""
    given = {word.partition("=")[0] for word in shlex.split(flags.partition("-- ")[2])}
    return [one for one in variables if one.partition("=")[0] not in given]


def run(target: str, variables: tuple[str, ...]) -> Run:
    """Run a target, and pass on what it prints."""
    begun, before, source, last = datetime.now(UTC), time.monotonic(), commit(), ""
    own = unless_given(variables, os.environ.get("MAKEFLAGS", ""))
    words = ["make", "--no-print-directory", "-C", str(ROOT), target, *own]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip("\n"))
            last = line.strip() or last
    return Run(process.returncode == 0, last, time.monotonic() - before, begun, source)


def main() -> None:
    """Run the steps, and write the row of each when it ends; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(prog="support.nightly", description="Run all that takes long, and say so.")
    parser.add_argument("--only", choices=tuple(STEPS), help="this step only")
    only = parser.parse_args().only
    failed = []
    for target in [only] if only else STEPS:
        done = run(target, STEPS[target])
        # A step may have written its own table into the page meanwhile.
        PAGE.write_text(rewrite(PAGE.read_text("utf-8"), {target: done}), "utf-8")
        failed += [] if done.passed else [target]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
