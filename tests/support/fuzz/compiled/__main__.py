"""The command: `make fuzz-kernels`."""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.fuzz.compiled.page import Row, write
from support.fuzz.compiled.targets import TARGETS, Target
from support.fuzz.compiled.worker import ROUND, Note, run
from support.lines import say

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE_S = 30.0


class _Process(NamedTuple):
    """A process that tries rounds, and the file with its state."""

    process: subprocess.Popen[str]
    note: Note


def main() -> None:
    """Try inputs on every core; exit with 1 if one breaks a law."""
    parser = argparse.ArgumentParser(prog="support.fuzz.compiled", description="Try compiled decoders on many inputs.")
    parser.add_argument("--inputs", type=int, default=100_000_000, help="for all decoders together")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="this decoder alone; the page stays as it is")
    parser.add_argument("--round", type=int, help="this round again, in the process itself")
    given = parser.parse_args()
    targets = [one for one in TARGETS if given.only in {"", one.name}]
    if not targets:
        sys.exit(f"no such decoder; there are {', '.join(one.name for one in TARGETS)}")
    with tempfile.TemporaryDirectory(prefix="reput-fuzz-") as folder:
        if given.round is not None:
            for target in targets:
                run(
                    target, Note.at(Path(folder) / target.name, target), given.seed, range(given.round, given.round + 1)
                )
            return
        share = sum(target.share for target in targets)
        rows = [_try(one, given.inputs * one.share // share, given.seed, Path(folder)) for one in targets]
    if not given.only:
        write(rows, given.seed)
    say(f"{sum(row.inputs for row in rows):,} inputs, and none breaks a law")


def _try(target: Target, inputs: int, seed: int, folder: Path) -> Row:
    """Try one decoder with a process on each core."""
    cores, rounds, begun = len(os.sched_getaffinity(0)), max(-(-inputs // ROUND), 1), time.monotonic()
    borders = [rounds * n // cores for n in range(cores + 1)]
    workers = []
    for n in range(cores):
        path = folder / f"{target.name}-{n}"
        words = [target.name, str(path), str(seed), str(borders[n]), str(borders[n + 1] - borders[n])]
        note = Note.at(path, target)
        command = [sys.executable, "-X", "faulthandler", "-m", "support.fuzz.compiled.worker", *words]
        workers.append(_Process(subprocess.Popen(command, stderr=subprocess.PIPE, text=True), note))
    try:
        _wait(target, workers, rounds * ROUND)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
    for worker in workers:
        _judge(target, worker, seed)
    ends: Any = sum(worker.note.ends for worker in workers)
    row = Row(target, sum(worker.note.tried for worker in workers), rounds, target.answers(ends))
    say(f"{target.name}: {row.inputs:,} inputs in {time.monotonic() - begun:,.0f} s; {row.answers}")
    return row


def _wait(target: Target, workers: Sequence[_Process], inputs: int) -> None:
    """Wait until all have ended or one has failed; say twice a minute how far they are."""
    said = time.monotonic()
    while any(worker.process.poll() is None for worker in workers):
        if any(worker.process.poll() for worker in workers):
            return
        time.sleep(0.2)
        if time.monotonic() - said > _LINE_S:
            said = time.monotonic()
            say(f"{target.name}: {sum(worker.note.tried for worker in workers):,} of {inputs:,} inputs")


def _judge(target: Target, worker: _Process, seed: int) -> None:
    """Exit with the input and the command that repeats it if a process found something."""
    assert worker.process.stderr is not None
    status, words = worker.process.returncode, worker.note.words
    if status == 0:
        return
    said, (number, _, _, base, check) = worker.process.stderr.read()[-3000:], words[:5].tolist()
    sys.exit(
        f"{target.name}: exit {status} at an input of round {number}, base {base}, check {check}:\n"
        f"{base64.b64encode(worker.note.input).decode()}\n{said}\n"
        f"again: make fuzz-kernels ONLY={target.name} SEED={seed} ROUND={number}"
    )


if __name__ == "__main__":
    main()
