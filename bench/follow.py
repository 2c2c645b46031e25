"""Follow a writer, catch up beside RocketMQ's own reput, and scan with `format("rocketmq")`, in one run.

Environment:
    QUICK         1: small and short: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    MINUTES       how long a follower runs beside a writer of 100,000 messages a second; default 10
    RATE          messages a second of that writer; default 100000
    MESSAGES      millions of messages in the store to catch up and to scan; default 16
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go, on the disk to be measured; default bench/work; removed at the end.
                  Ten minutes are 60 million messages: some 24 GB
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio catch_up=.. p50_ms=.. p99_ms=.. scan_mps=.. parquet_mps=..`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asked
import follow_report
import machine
import runs
from follow_report import Found
from machine import say
from workload import Case, Workload, prepare

from reput.store.info.info import store_info

if TYPE_CHECKING:
    from pathlib import Path

QUEUES = 64
MINUTE_OF_MESSAGES = 6_000_000
"""The messages of one minute at the writer's rate."""
SETTINGS = ("QUICK", "MINUTES", "RATE", "MESSAGES", "PEER_HEAP")


@dataclass(frozen=True)
class Sizes:
    """The amount that is measured."""

    rounds: int
    seconds: float
    rate: float
    messages: int

    @classmethod
    def of_environment(cls) -> Sizes:
        """Return the amount that the environment asks for."""
        return cls(
            rounds=asked.rounds(),
            seconds=asked.amount("MINUTES", 10, 0.25) * 60,
            rate=asked.amount("RATE", 100_000),
            messages=round(asked.amount("MESSAGES", 16, 0.4) * 1e6),
        )


def start(command: str, *words: Any, stdin: int | None = None) -> subprocess.Popen[str]:
    """One of reput's processes."""
    return runs.start_side("follow_side.py", command, *words, stdin=stdin)


def ours(command: str, *words: Any) -> dict[str, Any]:
    """The report of a process of reput."""
    return runs.report_of(start(command, *words))


def follow_a_writer(work: Path, sizes: Sizes) -> dict[str, Any]:
    """A writer, a follower and one who watches, each a process; the indexes are checked afterwards."""
    store = work / "followed"
    ours("write", store, "--rate", 1000, "--seconds", 1)  # so that there is a store
    follower = start("follow", store, stdin=subprocess.PIPE)
    assert follower.stdout is not None
    if not follower.stdout.readline():
        raise RuntimeError(f"the follower ended: {follower.communicate()[1][-4000:]}")
    warm_up_s = 10
    writer = start("write", store, "--rate", sizes.rate, "--seconds", sizes.seconds + warm_up_s + 5)
    ours("watch", store, "--seconds", warm_up_s, "--pid", follower.pid)
    watched = ours("watch", store, "--seconds", sizes.seconds, "--pid", follower.pid)
    written = runs.report_of(writer)
    report = runs.report_of(follower)
    watched |= {"writer_rate": written["rate"], "messages": report["messages"], "left_bytes": report["lag_bytes"]}
    if not runs.check_is_sound(store):
        raise RuntimeError("the followed store's indexes are not what its log says")
    shutil.rmtree(store)
    return watched


def measure_store(found: Found, workload: Workload, warm_up: Workload, work: Path, heap: str, rounds: int) -> None:
    """The peer's reput, ours, and the data source, in turn."""
    for number in range(1, rounds + 1):
        found.peer_seconds.append(runs.peer_rebuild(workload, heap)["seconds_total_with_sync"])
        warm_up.reset()
        workload.reset()
        caught_up = ours("catch-up", workload.store, "--warm-up-store", warm_up.store)
        if caught_up["messages"] != workload.case.messages:
            raise RuntimeError(f"{caught_up['messages']} messages were taken in, {workload.case.messages} are there")
        found.catch_up_seconds.append(caught_up["seconds"])
        begin_ms, end_ms = window(workload)
        scanned = ours(
            "scan", workload.store, "--warm-up-store", warm_up.store, "--folder", work / "parquet",
            "--topic", "bench-0003", "--begin-ms", begin_ms, "--end-ms", end_ms,
        )  # fmt: skip
        for name in ("scan", "parquet"):
            if scanned[name]["messages"] != workload.case.messages:
                raise RuntimeError(f"{name}: {scanned[name]['messages']} messages of {workload.case.messages}")
        found.scan_seconds.append(scanned["scan"]["seconds"])
        found.parquet_seconds.append(scanned["parquet"]["seconds"])
        found.narrow_seconds.append(scanned["narrow"]["seconds"])
        found.narrow_messages = int(scanned["narrow"]["messages"])
        say(
            f"round {number} of {rounds}: peer {found.peer_seconds[-1]:.2f} s, "
            f"catch-up {found.catch_up_seconds[-1]:.2f} s, scan {found.scan_seconds[-1]:.2f} s, "
            f"Parquet {found.parquet_seconds[-1]:.2f} s, narrow {found.narrow_seconds[-1]:.2f} s"
        )


def window(workload: Workload) -> tuple[int, int]:
    """Store times from the middle of the store that hold a minute's messages at the writer's rate."""
    info = store_info(workload.store)
    first, last = info.log.first_store_timestamp, info.log.last_store_timestamp
    width = round((last - first) * min(1.0, MINUTE_OF_MESSAGES / workload.case.messages))
    begin = first + (last - first - width) // 2
    return begin, begin + width


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer():
        return 2
    sizes, heap = Sizes.of_environment(), machine.peer_heap()
    with asked.work_folder("follow") as work:
        say(f"a follower beside a writer of {sizes.rate:,.0f} messages a second, {sizes.seconds / 60:g} minutes")
        followed = follow_a_writer(work, sizes)
        memory = ", ".join(
            f"{size / 2**30:.2f}" for _, size in followed["memory"][:: max(1, len(followed["memory"]) // 10)]
        )
        say(f"visible {followed['visible_ms']}, durable {followed['durable_ms']}, memory (GiB) {memory}")
        say(f"the peer writes a store of {sizes.messages:,} messages")
        warm_up = prepare(Case(20_000, QUEUES), work, heap)
        workload = prepare(Case(sizes.messages, QUEUES), work, heap)
        found = Found(sizes.messages, workload.written["log_bytes"], followed)
        measure_store(found, workload, warm_up, work, heap, sizes.rounds)
    about = machine.environment("bench-follow", SETTINGS, sizes.rounds)
    about |= {"minutes": sizes.seconds / 60, "rate": sizes.rate, "messages": sizes.messages}
    follow_report.report(about, found).publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
