"""Rebuild ConsumeQueue and IndexFile with RocketMQ's own code and with reput, on the same stores in turn.

Environment:
    QUICK         1: few messages, one round: whether it works, not how fast it is
    SIZES         millions of messages in 64 queues; default "1 4 16"
    MANY_QUEUES   millions of messages in 10,000 queues; default "4" if SIZES goes that far, else none
    ROUNDS        default 3; medians are reported
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go, on the disk to be measured; default bench/work. They take some
                  600 bytes a message and are removed at the end; where a run broke off with BENCH_DIR set,
                  the next one uses them again.
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio end_to_end=.. in_spark=.. warm=.. marginal=.. queues_10000=.. rss_gib=..`.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asked
import machine
import rebuild_report
import runs
from machine import say
from rebuild_report import Measured
from same import assert_same_indexes
from workload import Case, Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUES = 64
MANY_QUEUES = 10_000
MEMORY_RUNS = 3
SETTINGS = ("QUICK", "SIZES", "MANY_QUEUES", "PEER_HEAP")
WARM_UP = Case(messages=20_000, queues=QUEUES)


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer():
        return 2
    sizes = asked.amounts("SIZES", "0.2" if asked.is_quick() else "1 4 16", 1_000_000)
    usual = "4" if sizes[-1] >= 4_000_000 else ""
    many = asked.amounts("MANY_QUEUES", usual, 1_000_000, may_be_none=True)
    rounds = asked.rounds()
    with work_folder() as work:
        plain = [measure(Case(size, QUEUES), work, rounds) for size in sizes]
        crowded = [measure(Case(size, MANY_QUEUES), work, rounds) for size in many]
    about = machine.environment("bench-rebuild", SETTINGS, rounds)
    rebuild_report.report(about, plain, crowded).publish()
    return 0


@contextmanager
def work_folder() -> Iterator[Path]:
    """Yield the folder for stores; in BENCH_DIR a run that breaks off leaves them to the next one."""
    if "BENCH_DIR" not in os.environ:
        with asked.work_folder("rebuild") as work:
            yield work
        return
    work = Path(os.environ["BENCH_DIR"]) / "rebuild"
    work.mkdir(parents=True, exist_ok=True)
    yield work
    shutil.rmtree(work)


def measure(case: Case, work: Path, rounds: int) -> Measured:
    """All rounds of one case, then the memory runs; the case's store is removed afterwards."""
    heap = machine.peer_heap()
    warm_up = prepare(WARM_UP, work, heap)
    say(f"{case}: the peer writes the store")
    workload = prepare(case, work, heap)
    measured = Measured(case, workload.written["log_bytes"])
    for number in range(1, rounds + 1):
        measure_round(measured, workload, warm_up, work / "peer-indexes", heap)
        say(
            f"{case}: round {number} of {rounds}: peer {measured.peer_seconds[-1]:.2f} s, "
            f"end to end {measured.end_to_end_seconds[-1]:.2f} s, in Spark {measured.in_spark_seconds[-1]:.2f} s, "
            f"warm {measured.warm_seconds[-1]:.2f} s"
        )
    for _ in range(MEMORY_RUNS):
        measured.peak_pss_samples.append(runs.peak_pss_bytes(workload))
    say(f"{case}: peak memory {measured.memory.median:.2f} GiB")
    workload.remove()
    return measured


def measure_round(measured: Measured, workload: Workload, warm_up: Workload, aside: Path, heap: str) -> None:
    """The peer, reput as a fresh process, the same all in Spark, reput warm: in this order; results compared."""
    peers = runs.peer_rebuild(workload, heap)
    measured.peer_seconds.append(peers["seconds_total_with_sync"])
    measured.peer_jvm_start_seconds.append(peers["jvm_start_seconds"])
    workload.move_indexes(aside)
    measured.end_to_end_seconds.append(runs.end_to_end_seconds(workload))
    assert_same_indexes(aside, workload.store)
    measured.in_spark_seconds.append(runs.end_to_end_seconds(workload, "--spark"))
    assert_same_indexes(aside, workload.store)
    measured.warm_seconds.append(runs.warm_seconds(workload, warm_up))
    measured.files_compared = assert_same_indexes(aside, workload.store)
    workload.discard(aside)


if __name__ == "__main__":
    sys.exit(main())
