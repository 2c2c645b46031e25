"""All benchmarks in one run: one table, one plot and one line of ratios, each ratio with its spread.

Each part runs as `make bench-PART` does, with sizes for a run of about an hour, and leaves its own results beside those
of this run. A variable of the environment that a part knows replaces its size here.

Environment:
    QUICK         1: small and short: whether it works, not how fast it is
    PARTS         default "store rebuild follow queues broker client scan parquet"
    ROUNDS        default 3; medians are reported
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio put=.. put_64_topics=.. put_128_topics=.. put_256_topics=.. queues_10000=..
sync=.. send=.. put_objects=.. time=.. key=.. keys=.. end_to_end_1m=.. scan_mps=.. parquet_mps=..`: reput over RocketMQ,
and millions of messages a second. What was not measured is NaN.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asked
import machine
import runs
from lines import Line
from machine import say
from report import Report, Section, draw_ratios, plot
from workload import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = {
    "store": {"MESSAGES": "1000", "READ": "2000", "OPEN_GB": "1"},
    "rebuild": {"SIZES": "1 4", "MANY_QUEUES": ""},
    "follow": {"MINUTES": "0.5", "MESSAGES": "4"},
    "queues": {"MESSAGES": "1000", "QUEUES": "100000"},
    "broker": {"SECONDS": "6", "CONSUMED": "100000"},
    "client": {"SECONDS": "6", "CONSUMED": "100000"},
    "scan": {},
    "parquet": {"MESSAGES": "2"},
}
"""The parts, with the sizes that they have in a run of all; a quick run has the parts' own quick ones."""
RATIOS = {
    "put": "store put",
    "put_64_topics": "store topics_64",
    "put_128_topics": "store topics_128",
    "put_256_topics": "store topics_256",
    "queues_10000": "store queues_10000",
    "sync": "store sync",
    "send": "store send",
    "put_objects": "store put_objects",
    "time": "store time",
    "key": "store key",
    "keys": "store keys",
    "end_to_end_1m": "rebuild end_to_end_1000000_in_64",
}
"""The line of each ratio: its part and its name there."""
RATES = {"scan_mps": "follow scan", "parquet_mps": "follow parquet"}
COUNTED = (
    "Each part has a page of its own beside this one, which says what is counted there; its command has its sizes.",
    "All parts run one after the other on one machine; in each, both sides take turns, round by round; of puts",
    "    RocketMQ is first in one round and reput in the next, of other work RocketMQ is always first.",
    "Values are medians, with the smallest and the largest of the rounds. x: how far reput is ahead of RocketMQ (of",
    "    Spark or pyarrow on Parquet in bench-parquet) by the medians (2: twice the rate, or half the time or memory),",
    "    with the smallest and the largest x of one round.",
)


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    parts, results = asked.parts(PARTS), asked.results_folder()
    if runs.lacks_peer():
        return 2
    measured = {part: run(part, results) for part in parts}
    lines = {f"{part} {key}": line for part, found in measured.items() for key, line in lines_of(found).items()}
    about = machine.environment("bench", ("QUICK", "PARTS"), asked.rounds())
    about |= {f"bench-{part}": found["command"] for part, found in measured.items()}
    sections = [Section.of(lines_of(found).values(), f"make bench-{part}") for part, found in measured.items()]
    draw = partial(_draw, lines=lines)
    Report("bench", "reput beside RocketMQ", about, COUNTED, lines, sections, [ratios(lines)], draw=draw).publish()
    return 0


def run(part: str, results: Path) -> Any:
    """Run a part, whose output goes to stderr; return what it has saved."""
    sizes = {} if asked.is_quick() else {**PARTS[part], "ROUNDS": str(asked.rounds())}
    environment = runs.side_environment()
    tests = str(REPOSITORY / "tests")
    environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], tests])
    environment |= {name: value for name, value in sizes.items() if name not in os.environ}
    environment["RESULTS_DIR"] = str(results)
    say(f"bench-{part}")
    script = Path(__file__).with_name(f"{part}.py")
    subprocess.run((sys.executable, str(script)), env=environment, stdout=sys.stderr, check=True)
    return json.loads((results / f"{part}-{machine.cores()}c.json").read_text())


def lines_of(found: Mapping[str, Any]) -> dict[str, Line]:
    """The lines of a part's results; those of its several tables that have one name have their keys for names."""
    lines = {key: Line.from_json(values) for key, values in found["lines"].items()}
    counts = Counter(line.name for line in lines.values())
    return {key: replace(line, name=key) if counts[line.name] > 1 else line for key, line in lines.items()}


def ratios(lines: Mapping[str, Line]) -> dict[str, float]:
    """The line of ratios."""
    found = {name: lines[key].ratio if key in lines else math.nan for name, key in RATIOS.items()}
    return found | {name: lines[key].median if key in lines else math.nan for name, key in RATES.items()}


def _draw(path: Path, lines: Mapping[str, Line]) -> None:
    compared = {key: line for key, line in lines.items() if not math.isnan(line.ratio)}
    with plot(path, size=(9, 1 + 0.27 * len(compared))) as (axes,):
        draw_ratios(
            axes, compared, "reput over RocketMQ (Parquet: over Spark or pyarrow), with the spread of the rounds"
        )


if __name__ == "__main__":
    sys.exit(main())
