"""Scan a store with `reput.scan` beside the decode kernel alone, in one run: how much of the kernel's rate is left.

The kernel's rate is that of decoding the log into columns of numbers, each record's CRC checked, on one thread: what
any reader has to do. A scan makes Arrow columns of it. Both read the same log from the page cache, in turns, in one
process that has done each before. Clocks: wall, and CPU (user and system, of all threads), which a busy machine shifts
less. The kernel goes over the log several times a round, so that both sides are measured for about as long.

Environment:
    QUICK         1: few messages, one round: whether it works, not how fast it is
    ROUNDS        default 5; medians are reported
    MESSAGES      thousands of messages of 300 bytes with tag, key, unique key and two properties; default 1000
    BENCH_DIR     where the store goes; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio all=.. all_cpu=.. four=.. four_cpu=..`: rates over the kernel's.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
import runs
from machine import say
from page import ratio_line
from rich.console import Console
from rich.table import Table
from workload import REPOSITORY

NAMES = {
    "kernel": "decode kernel, one thread",
    "all": "reput.scan, all columns",
    "four": "reput.scan, topic, queueOffset, storeTimestamp, keys",
}
SETTINGS = ("QUICK", "MESSAGES")


def main() -> int:
    """Measure, print, save."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    rounds = int(os.environ.get("ROUNDS", "1" if quick else "5"))
    messages = round(float(os.environ.get("MESSAGES", "20" if quick else "1000")) * 1000)
    parent = Path(os.environ.get("BENCH_DIR", REPOSITORY / "bench" / "work"))
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="scan-", dir=parent))
    try:
        say(f"a store of {messages:,} messages")
        written = runs.report_of(runs.start_side("scan_side.py", "write", work / "store", "--messages", messages))
        say(f"{rounds} rounds")
        found = runs.report_of(runs.start_side("scan_side.py", "scan", work / "store", "--rounds", rounds))
    finally:
        shutil.rmtree(work)
    for name, seen in found["messages"].items():
        if seen != messages:
            raise RuntimeError(f"{name}: {seen} messages of {messages}")
    seconds = {name: medians(found["seconds"][name]) for name in NAMES}
    show(seconds, messages, written["log_bytes"])
    results = Path(os.environ.get("RESULTS_DIR", REPOSITORY / "bench" / ("work" if quick else "results")))
    about = machine.environment("bench-scan", SETTINGS, rounds)
    save(results / f"scan-{about['cores']}c.json", about, found, messages, written["log_bytes"])
    print(ratio_line(ratios(seconds)))
    return 0


def medians(measured: list[list[float]]) -> tuple[float, float]:
    """The median wall and CPU seconds of some runs."""
    wall, cpu = zip(*measured, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def ratios(seconds: dict[str, tuple[float, float]]) -> dict[str, float]:
    """The rates of the scans over the kernel's, by each clock."""
    wall, cpu = seconds["kernel"]
    found = {}
    for name in ("all", "four"):
        found |= {name: wall / seconds[name][0], f"{name}_cpu": cpu / seconds[name][1]}
    return found


def show(seconds: dict[str, tuple[float, float]], messages: int, log_bytes: int) -> None:
    """Print what each took."""
    table = Table()
    for heading in ("", "wall s", "CPU s", "messages a second", "MB of log a second"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (wall, cpu) in seconds.items():
        rates = f"{messages / wall:,.0f}", f"{log_bytes / wall / 1e6:,.0f}"
        table.add_row(NAMES[name], f"{wall:.3f}", f"{cpu:.3f}", *rates)
    Console(width=max(120, Console().width)).print(table)


def save(path: Path, about: dict[str, Any], found: dict[str, Any], messages: int, log_bytes: int) -> None:
    """Write what was measured, each round, as JSON."""
    seconds = found["seconds"]
    middle = {name: dict(zip(("wall", "cpu"), medians(seconds[name]), strict=True)) for name in NAMES}
    values = about | {"messages": messages, "log_bytes": log_bytes, "medians_s": middle, "rounds_s": seconds}
    values["ratios"] = ratios({name: medians(seconds[name]) for name in NAMES})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
