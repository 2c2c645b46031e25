"""Kinds of queues beside RocketMQ: rebuild into RocksDB, pulls from it, a million queues. The same messages in turn.

Environment:
    QUICK         1: few messages, one round: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    MESSAGES      thousands of messages in each rebuilt store; default 4000
    QUEUES        how many queues `many` is; default 1000000
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go, on the disk to be measured; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is
`ratio rocksdb_rebuild=.. rocksdb_rebuild_10000=.. rocksdb_get_32=.. million_put=.. sql=..`.
`sql` is a SQL92 filter over a million messages, see `sql.py`. `million_put` is reput's own rate at that many queues
against its rate at 64.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
import queues_report
import runs
import sql
from machine import say
from page import ratio_line
from workload import REPOSITORY, Case, Workload, prepare

from peer import peer

ROCKSDB = ("--set", "storeType=defaultRocksDB")
RUN_TIMEOUT_S = 7200
QUEUES_PER_TOPIC = 8
SETTINGS = ("QUICK", "MESSAGES", "QUEUES", "PEER_HEAP")


class Bench:
    """One run: where it works, and what it has measured (each name with the values of its rounds)."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.quick = os.environ.get("QUICK", "") not in ("", "0")
        self.rounds = int(os.environ.get("ROUNDS", "1" if self.quick else "3"))
        self.messages = round(float(os.environ.get("MESSAGES", "200" if self.quick else "4000")) * 1000)
        self.many = int(os.environ.get("QUEUES", "20000" if self.quick else "1000000"))
        self.seconds = 0.5 if self.quick else 3.0
        self.heap = machine.peer_heap()
        self.values: dict[str, list[float]] = {}

    def run(self) -> None:
        """All rounds of everything."""
        small = prepare(Case(20_000, 64), self.work, self.heap)
        for queues in (64, 10_000):
            workload = prepare(Case(self.messages, queues), self.work, self.heap)
            for _ in range(self.rounds):
                self._rebuild(workload, small)
                if queues == 64:
                    self._read(workload)
            workload.remove()
        for _ in range(self.rounds):
            self._put()
        self._filter()

    def _filter(self) -> None:
        found = sql.compare(50_000 if self.quick else 1_000_000, 1 if self.quick else 5, folder=self.work)
        self._keep("sql_peer_s", found.peer_s)
        self._keep("sql_ours_s", found.reput_s)

    def _rebuild(self, workload: Workload, small: Workload) -> None:
        name = "rebuild" if workload.case.queues == 64 else f"rebuild_{workload.case.queues}"
        workload.reset()
        theirs = peer.run("rebuild", workload.store, *ROCKSDB, heap=self.heap, timeout_s=RUN_TIMEOUT_S)
        small.reset()
        workload.reset()
        mine = ours("rebuild", workload.store, "--warm-up-store", small.store)
        if mine["entries"] != self.messages:
            raise RuntimeError(f"{name}: {mine['entries']} entries of {self.messages} messages")
        self._keep(f"{name}_peer_s", theirs["seconds_total_with_sync"])
        self._keep(f"{name}_ours_s", mine["seconds"])
        say(f"  stages {mine['stages']}")

    def _read(self, workload: Workload) -> None:
        queues = [f"bench-{number // QUEUES_PER_TOPIC:04d}@{number % QUEUES_PER_TOPIC}" for number in range(64)]
        named = [word for queue in queues for word in ("--queue", queue)]
        slice_ms = round(self.seconds * 1000)
        theirs = peer.run(
            "bench-read", workload.store, "--pull", 32, "--milliseconds", slice_ms, *ROCKSDB, *named,
            heap=self.heap, timeout_s=RUN_TIMEOUT_S,
        )  # fmt: skip
        mine = ours("read", workload.store, "--pull", 32, "--seconds", self.seconds)
        if theirs["get_32"]["done"] != mine["done"]:
            raise RuntimeError(f"get: {theirs['get_32']['done']} for the peer, {mine['done']} for reput")
        self._keep("get_32_peer", theirs["get_32"]["rate"])
        self._keep("get_32_ours", mine["rate"])

    def _put(self) -> None:
        for name, queues in (("put_64", 64), ("put_many", self.many)):
            store = self.work / "put"
            os.sync()
            many = queues == self.many
            done = ours("put", store, "--messages", self.messages // 4, "--queues", queues, *(["--index"] * many))
            self._keep(name, done["messages"] / done["seconds"])
            if many:
                self._keep("put_many_gib", done["peak_bytes"] / 2**30)
                self._keep("put_many_indexed_gib", done["peak_bytes_indexed"] / 2**30)
                opened = ours("open", store)
                self._keep("open_many_s", opened["seconds"])
                self._keep("open_many_files", opened["open_files"])
                self._keep("open_many_gib", opened["peak_bytes"] / 2**30)
            shutil.rmtree(store)

    def _keep(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)
        say(f"{name}: {value:,.2f}")

    def median(self, name: str) -> float:
        """The middle of a name's values."""
        return statistics.median(self.values[name])

    def ratios(self) -> dict[str, float]:
        """Return how much faster reput is; the last ratio compares reput with itself."""
        return {
            "rocksdb_rebuild": self.median("rebuild_peer_s") / self.median("rebuild_ours_s"),
            "rocksdb_rebuild_10000": self.median("rebuild_10000_peer_s") / self.median("rebuild_10000_ours_s"),
            "rocksdb_get_32": self.median("get_32_ours") / self.median("get_32_peer"),
            "million_put": self.median("put_many") / self.median("put_64"),
            "sql": self.median("sql_peer_s") / self.median("sql_ours_s"),
        }


def ours(command: str, *words: Any) -> dict[str, Any]:
    """A command of reput's side, in a process of its own."""
    return runs.report_of(runs.start_side("queues_side.py", command, *words))


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if reason := peer.available():
        say(reason)
        return 2
    parent = Path(os.environ.get("BENCH_DIR", REPOSITORY / "bench" / "work"))
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="queues-", dir=parent))
    bench = Bench(work)
    try:
        bench.run()
    finally:
        shutil.rmtree(work)
    about = machine.environment("bench-queues", SETTINGS, bench.rounds)
    results = Path(os.environ.get("RESULTS_DIR", REPOSITORY / "bench" / ("work" if bench.quick else "results")))
    about |= {"messages": bench.messages, "queues": bench.many}
    found = bench.ratios()
    queues_report.save(results / f"queues-{about['cores']}c", about, bench.values, found)
    print(queues_report.text(bench.values))
    print(ratio_line(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
