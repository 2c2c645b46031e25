"""The command: `make fuzz-decoders`."""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from support.fuzz import corpus
from support.fuzz.page import PAGE, Row, rewrite
from support.fuzz.targets import TARGETS, Target
from support.lines import say

_WORK = Path(__file__).resolve().parents[3] / "build" / "fuzz"
"""The inputs of all runs: the next one goes on with them."""
_INPUT_SECONDS, _MEMORY_MB = 10, 4096
_choosing = threading.Lock()
"""Held while decoders run in this process: some keep state of their own between calls."""


class Ran(NamedTuple):
    """The numbers of a run: executions, and edges of the code that they reached."""

    executions: int
    edges: int


def main() -> None:
    """Fuzz decoders, one on each core; exit with 1 if one breaks its law."""
    parser = argparse.ArgumentParser(prog="support.fuzz", description="Fuzz decoders, guided by coverage.")
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder")
    parser.add_argument("--only", default="", help="decoders with this in their names; the page stays as it is")
    parser.add_argument("--input", help="an input of a failure again, in base64")
    given = parser.parse_args()
    targets = [one for one in TARGETS if given.only in one.name]
    if given.input is not None:
        for target in targets:
            target.run(base64.b64decode(given.input))
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        rows = list(pool.map(partial(_row_of, seconds=given.seconds), targets))
    if not given.only:
        PAGE.write_text(rewrite(PAGE.read_text("utf-8"), rows, given.seconds), "utf-8")
    say(f"{sum(row.executions for row in rows):,} inputs, and none breaks a law")


def _row_of(target: Target, *, seconds: int) -> Row:
    """Fuzz one decoder, and keep the inputs that go new ways."""
    ran = _fuzz(target, seconds)
    with _choosing:
        kept = corpus.chosen(target.run, [*corpus.load(target.name), *_inputs(target)])
        corpus.save(target.name, kept)
    say(f"{target.name:16} {ran.executions:>12,} executions, {ran.edges:>6,} edges, {len(kept):>4} inputs kept")
    return Row(target, ran.executions, ran.edges, len(kept))


def _fuzz(target: Target, seconds: int) -> Ran:
    """Fuzz one decoder in a process of its own, which goes on with all inputs that are known."""
    folder = _WORK / target.name
    folder.mkdir(parents=True, exist_ok=True)
    for one in corpus.load(target.name):
        (folder / hashlib.sha1(one, usedforsecurity=False).hexdigest()).write_bytes(one)
    command = [
        *(sys.executable, "-m", "support.fuzz.worker", target.name, str(folder)),
        f"-max_total_time={seconds}",
        f"-max_len={target.longest}",
        f"-timeout={_INPUT_SECONDS}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-artifact_prefix={_WORK}/{target.name}-",
        "-print_final_stats=1",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", env=os.environ, check=False)
    said = ended.stderr + ended.stdout
    if ended.returncode:
        found = re.search(r"Base64: (\S*)", said)
        again = f'\nagain: make fuzz-decoders ONLY={target.name} INPUT="{found[1]}"' if found else ""
        sys.exit(f"{target.name}: {ended.stdout[-4000:] or ended.stderr[-4000:]}{again}")
    counted = re.findall(r"number_of_executed_units:\s+(\d+)", said)
    edges = re.findall(r"cov: (\d+)", said)
    return Ran(int(counted[-1]), int(edges[-1]) if edges else 0)


def _inputs(target: Target) -> list[bytes]:
    return [path.read_bytes() for path in sorted((_WORK / target.name).iterdir())]


if __name__ == "__main__":
    main()
