"""Growth of the cost of each work with messages, bytes, queues and splits; a model is fitted to it, and checked.

Stores are written by reput. Each work runs in one Spark session that has done it before on a small store. The largest
store is left out of the fit: the table compares its measured seconds with those of the model. A rebuild's driver is
measured alone, too, over more splits and queues than any store here has.

Environment:
    QUICK         1: small stores, one round: whether it works, not how fast it is
    SIZES         millions of messages in 64 queues; default "1 4 16 64"
    QUEUES        numbers of queues of stores of 4 million messages; default "10000 1000000"
    ROUNDS        default 3; medians are reported; stores of more than 20 million messages or 100,000 queues have one
                  round, and are not measured with an empty page cache
    BENCH_DIR     where stores go, on the disk to be measured; default bench/work; removed at the end.
                  They take some 500 bytes a message
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio rebuild=.. check=.. scan=.. open=.. follow=..`: the seconds measured on the
largest store over those that the model says.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import asked
import machine
import runs
import scale_report
from machine import say
from scale_report import Case, Measured

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = ("QUICK", "SIZES", "QUEUES")
ONE_ROUND_MESSAGES, ONE_ROUND_QUEUES = 20_000_000, 100_000
BODY_BYTES, LARGE_BODY_BYTES = 300, 4096
SPLIT_MB, SMALL_SPLIT_MB = 128, 8
WARM_UP = 20_000


def main() -> int:
    """Measure, print, save."""
    rounds = asked.rounds()
    with asked.work_folder("scale") as work:
        measured = [measure(case, work, rounds) for case in cases()]
    splits, queues = (1000, 10_000) if asked.is_quick() else (100_000, 1_000_000)
    say(f"a driver of {splits:,} splits and {queues:,} queues")
    driver = runs.report_of(runs.start_side("scale_side.py", "driver", "--splits", splits, "--queues", queues))
    about = machine.environment("bench-scale", SETTINGS, rounds)
    scale_report.report(about, measured, driver | {"splits": splits}).publish()
    return 0


def cases() -> list[Case]:
    """The stores: of each size, of each number of queues, of large messages, and one in small splits."""
    sizes = asked.amounts("SIZES", "0.05 0.1 0.2" if asked.is_quick() else "1 4 16 64", 1_000_000)
    middle = sizes[min(1, len(sizes) - 1)]
    found = [Case(size, 64, BODY_BYTES, SPLIT_MB) for size in sizes]
    found.append(Case(middle, 64, BODY_BYTES, SMALL_SPLIT_MB))
    found.append(Case(sizes[0], 64, LARGE_BODY_BYTES, SPLIT_MB))
    many = asked.amounts("QUEUES", "1000" if asked.is_quick() else "10000 1000000", may_be_none=True)
    return found + [Case(middle, queues, BODY_BYTES, SPLIT_MB) for queues in many]


def measure(case: Case, work: Path, rounds: int) -> Measured:
    """Write a case's store, do each work on it, and remove it."""
    store, small = work / "store", work / "small"
    write(store, case, case.messages)
    write(small, case, WARM_UP)
    words: list[Any] = ["--warm-up-store", small, "--queues", case.queues, "--split-mb", case.split_mb]
    is_large = case.messages > ONE_ROUND_MESSAGES or case.queues > ONE_ROUND_QUEUES
    words += ["--rounds", 1, "--warm-alone"] if is_large else ["--rounds", rounds]
    found = runs.report_of(runs.start_side("scale_side.py", "work", store, *words))
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    measured = Measured(case, found["log_bytes"], found["splits"], found["works"])
    say(f"{case}: " + ", ".join(f"{name} {measured.seconds(name):.2f} s" for name in measured.works))
    return measured


def write(store: Path, case: Case, messages: int) -> None:
    """Let reput write a store without indexes."""
    words = ("--messages", messages, "--queues", min(case.queues, messages), "--body", case.body_bytes)
    runs.report_of(runs.start_side("scan_side.py", "write", store, *words))


if __name__ == "__main__":
    sys.exit(main())
