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
import sys
from pathlib import Path
from typing import Any

import asked
import machine
import queues_report
import runs
import sql
from machine import say
from workload import Case, Workload, prepare

from peer import peer

ROCKSDB = ("--set", "storeType=defaultRocksDB")
RUN_TIMEOUT_S = 7200
QUEUES_PER_TOPIC = 8
SETTINGS = ("QUICK", "MESSAGES", "QUEUES", "PEER_HEAP")


class Bench:
    """One run: where it works, and what it has measured (each name with the values of its rounds)."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.quick = asked.is_quick()
        self.rounds = asked.rounds()
        self.messages = round(asked.amount("MESSAGES", 4000, 200) * 1000)
        self.many = round(asked.amount("QUEUES", 1_000_000, 20_000))
        self.seconds = 0.5 if self.quick else 3.0
        self.heap = machine.peer_heap()
        self.lines = queues_report.lines(self.many)

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
        found = sql.compare(50_000 if self.quick else 1_000_000, 1 if self.quick else 10, folder=self.work)
        self._keep("sql", found.reput_s, found.peer_s)

    def _rebuild(self, workload: Workload, small: Workload) -> None:
        name = "rocksdb_rebuild" if workload.case.queues == 64 else f"rocksdb_rebuild_{workload.case.queues}"
        workload.reset()
        theirs = peer.run("rebuild", workload.store, *ROCKSDB, heap=self.heap, timeout_s=RUN_TIMEOUT_S)
        small.reset()
        workload.reset()
        mine = ours("rebuild", workload.store, "--warm-up-store", small.store)
        if mine["entries"] != self.messages:
            raise RuntimeError(f"{name}: {mine['entries']} entries of {self.messages} messages")
        self._keep(name, mine["seconds"], theirs["seconds_total_with_sync"])
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
        self._keep("rocksdb_get_32", mine["rate"], theirs["get_32"]["rate"])

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

    def _keep(self, name: str, mine: float, theirs: float | None = None) -> None:
        line = self.lines[name]
        line.ours.append(mine)
        line.peer += [] if theirs is None else [theirs]
        say(f"{line.name}: {mine:,.2f} {line.unit}" + ("" if theirs is None else f", RocketMQ {theirs:,.2f}"))


def ours(command: str, *words: Any) -> dict[str, Any]:
    """A command of reput's side, in a process of its own."""
    return runs.report_of(runs.start_side("queues_side.py", command, *words))


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer():
        return 2
    with asked.work_folder("queues") as work:
        bench = Bench(work)
        bench.run()
    about = machine.environment("bench-queues", SETTINGS, bench.rounds)
    about |= {"messages": bench.messages, "queues": bench.many}
    queues_report.report(about, bench.lines).publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
