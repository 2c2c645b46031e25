"""Read a store with Spark and export it beside Spark and pyarrow on the same messages in Parquet, in one run.

A store has no peer here, since RocketMQ neither reads with Spark nor exports. So the same columns of the same messages
are written as Parquet once, and read and written from there:
    scan      `format("rocketmq")`, the column storeSize, counted and summed. Beside it: Spark reads that column from
              Parquet and passes it through Python (`mapInArrow`), as every row of a Python source passes.
    heads     the same for seven columns without bodies, whose rows nobody keeps (Spark's format "noop")
    export    `reput.export`, seven columns with bodies, zstd. Beside it: pyarrow writes the same columns from memory,
              one process on each core at once.
    write     `format("rocketmq")` and Spark's own writer, the same columns, beside the same pyarrow
    narrow    one topic, a minute of it, counted; seconds
All run in one plain Spark session that has done each before on a small store. The log is in the page cache.

Environment:
    QUICK         1: few messages, one round: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    MESSAGES      millions of messages of 296 bytes in 64 queues; default 4
    PEER_HEAP     the heap of RocketMQ, which writes the store; default 6g, or half the memory if that is less
    BENCH_DIR     where the store goes; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio scan=.. heads=.. export=.. write=.. narrow_s=..`: rates over those beside them.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import asked
import machine
import runs
from follow import window
from lines import Line, Spread
from machine import say
from report import Report, Section, plot
from workload import Case, prepare

if TYPE_CHECKING:
    from pathlib import Path

RATES = ("scan", "heads", "export", "write")
BESIDE = "on Parquet"
"""The side beside reput: Spark that reads Parquet, or pyarrow that writes it."""
NAMES = {
    "scan": "scan, one number a message (wanted: x 0.5)",
    "heads": "scan, seven columns without bodies (wanted: x 0.5)",
    "export": "reput export, seven columns with bodies (wanted: x 0.8)",
    "write": "Spark's Parquet writer, the same columns",
    "narrow": "one topic, one minute (wanted: below 0.8)",
}
SETTINGS = ("QUICK", "MESSAGES", "PEER_HEAP")
COUNTED = (
    'scan, heads: format("rocketmq") beside Spark that reads the same columns from Parquet and passes them through',
    "    Python (mapInArrow). Each checks nothing but reput, which checks each record's CRC.",
    "export: reput.export, seven columns with bodies, zstd, synced, beside pyarrow that writes them from memory, one",
    "    process on each core at once, without the topic, by which reput names folders, and without a sync. It writes",
    "    after all rounds of Spark. write: the same columns by Spark's own Parquet writer.",
    "x: reput over what is beside it.",
    "narrow: one topic, as much time as holds 6 million messages of all topics, counted.",
    "All in one plain Spark session that has done each before on a small store; the log is in the page cache.",
)


def main() -> int:
    """Measure, print, save; exit status 2 where RocketMQ cannot write the store."""
    if runs.lacks_peer():
        return 2
    rounds, heap = asked.rounds(), machine.peer_heap()
    messages = round(asked.amount("MESSAGES", 4, 0.2) * 1e6)
    with asked.work_folder("parquet") as work:
        say(f"RocketMQ writes a store of {messages:,} messages")
        small, workload = prepare(Case(20_000, 64), work, heap), prepare(Case(messages, 64), work, heap)
        lines = {name: Line(title, "M messages/s", against=BESIDE) for name, title in NAMES.items()}
        lines["narrow"] = Line(NAMES["narrow"], "s")
        folder = work / "parquet"
        begin_ms, end_ms = window(workload)
        side = runs.start_side(
            "parquet_side.py", "measure", workload.store, "--small", small.store, "--folder", folder,
            "--rounds", rounds, "--begin-ms", begin_ms, "--end-ms", end_ms,
        )  # fmt: skip
        keep(lines, runs.report_of(side), messages)
        for number in range(rounds):
            rate = messages / write_on_each_core(folder) / 1e6
            say(f"round {number + 1} of {rounds}: pyarrow writes {rate:.2f} M messages/s")
            for name in ("export", "write"):
                lines[name].others.setdefault(BESIDE, []).append(rate)
    about = machine.environment("bench-parquet", SETTINGS, rounds) | {"messages": messages}
    title = "Spark and Parquet: reput beside Spark's own scan and pyarrow's writer"
    draw = partial(_draw, lines=lines)
    Report("parquet", title, about, COUNTED, lines, [Section.of(lines.values())], [ratios(lines)], draw=draw).publish()
    return 0


def keep(lines: dict[str, Line], found: dict[str, Any], messages: int) -> None:
    """Add what the session has measured.

    Raises:
        RuntimeError: A side has seen another number of messages.
    """
    for name, seen in found["messages"].items():
        if name != "narrow" and seen != messages:
            raise RuntimeError(f"{name}: {seen} messages of {messages}")
    for name, seconds in found["seconds"].items():
        kind, _, beside = name.partition(" ")
        values = seconds if kind == "narrow" else [messages / one / 1e6 for one in seconds]
        if beside:
            lines[kind].others[BESIDE] = values
        else:
            lines[kind].ours += values


def write_on_each_core(folder: Path) -> float:
    """Seconds in which pyarrow writes the messages, each core its share; they begin together."""
    cores = machine.cores()
    sides = [
        runs.start_side("parquet_side.py", "write", folder, "--part", part, "--parts", cores, stdin=subprocess.PIPE)
        for part in range(cores)
    ]
    for side in sides:
        assert side.stdout is not None
        if not side.stdout.readline():
            raise RuntimeError(f"pyarrow's writer ended: {side.communicate()[1][-4000:]}")
    for side in sides:
        assert side.stdin is not None
        side.stdin.write("go\n")
        side.stdin.flush()
    return max(runs.report_of(side)["seconds"] for side in sides)


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """Rates over those beside them, by the medians."""
    return {name: lines[name].ratio for name in RATES} | {"narrow_s": lines["narrow"].median}


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, size=(8, 3.5)) as (axes,):
        beside = [Spread.of(lines[name].beside).median for name in RATES]
        places = range(len(RATES))
        axes.barh([place - 0.2 for place in places], [lines[name].median for name in RATES], 0.4, label="reput")
        axes.barh([place + 0.2 for place in places], beside, 0.4, label="Spark or pyarrow on Parquet")
        axes.set_yticks(list(places), RATES)
        axes.invert_yaxis()
        axes.set_xlabel("million messages a second")
        axes.legend()


if __name__ == "__main__":
    sys.exit(main())
