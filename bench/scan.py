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

import sys
from functools import partial
from typing import TYPE_CHECKING

import asked
import machine
import runs
from lines import Line
from machine import say
from report import Report, Section, plot

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "kernel": "decode kernel, one thread",
    "all": "reput.scan, all columns",
    "four": "reput.scan, topic, queueOffset, storeTimestamp, keys",
}
SETTINGS = ("QUICK", "MESSAGES")
COUNTED = (
    "Seconds to go over the log once, of 300-byte messages with tag, key, unique key and two properties, in the page",
    "    cache: wall clock, and CPU time of all threads.",
    "The kernel decodes on one thread and checks each record's CRC. A scan makes Arrow columns of that, on all cores.",
    "Ratios: the kernel's seconds over the scan's.",
)


def main() -> int:
    """Measure, print, save."""
    rounds = asked.rounds(5)
    messages = round(asked.amount("MESSAGES", 1000, 20) * 1000)
    with asked.work_folder("scan") as work:
        say(f"a store of {messages:,} messages")
        written = runs.report_of(
            runs.start_side("scan_side.py", "write", work / "store", "--messages", messages, "--index")
        )
        say(f"{rounds} rounds")
        found = runs.report_of(runs.start_side("scan_side.py", "scan", work / "store", "--rounds", rounds))
    for name, seen in found["messages"].items():
        if seen != messages:
            raise RuntimeError(f"{name}: {seen} messages of {messages}")
    lines = lines_of(found["seconds"])
    about = machine.environment("bench-scan", SETTINGS, rounds)
    about |= {"messages": messages, "log_bytes": written["log_bytes"]}
    table = [Section.of(lines.values())]
    title = "Scan: reput.scan beside the decode kernel"
    Report("scan", title, about, COUNTED, lines, table, [ratios(lines)], draw=partial(_draw, lines=lines)).publish()
    return 0


def lines_of(seconds: dict[str, list[list[float]]]) -> dict[str, Line]:
    """The wall and CPU seconds of each thing, a value a round."""
    lines = {}
    for name, title in NAMES.items():
        wall, cpu = (list(column) for column in zip(*seconds[name], strict=True))
        lines |= {name: Line(title, "s", wall), f"{name}_cpu": Line(f"{title}: CPU", "s", cpu)}
    return lines


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """The rates of the scans over the kernel's, by each clock."""
    found = {}
    for name in ("all", "four"):
        for clock in ("", "_cpu"):
            found[f"{name}{clock}"] = lines[f"kernel{clock}"].median / lines[f"{name}{clock}"].median
    return found


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, size=(8, 3.5)) as (axes,):
        axes.barh([line.name for line in lines.values()], [line.median for line in lines.values()])
        axes.invert_yaxis()
        axes.set_xlabel("seconds")


if __name__ == "__main__":
    sys.exit(main())
