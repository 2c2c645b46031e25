"""The side of the scale benchmark that works, one thing a process: `scale_side.py COMMAND ...`; prints one JSON line.

work STORE --warm-up-store SMALL --rounds N    each work of a store in one Spark session: seconds, memory, bytes read
driver --splits N --queues Q --each E          the driver's stitch and merge of a log that nobody has
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import runs
from sessions import start_session
from workload import Case, Workload

import reput
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.files import list_log_files
from reput.pipeline.split.job import SplitOddities, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.parts import QueueRanges
from reput.pipeline.split.plan import Split, plan_splits
from reput.pipeline.split.stitch import stitch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SAMPLE_INTERVAL_S = 0.2
RECORD_BYTES = 300


class Memory:
    """The most memory of each kind of process below this one, while work goes on: PSS, sampled."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            for role, held in runs.pss_by_role(os.getpid()).items():
                self.peaks[role] = max(held, self.peaks.get(role, 0))
            if self._done.wait(SAMPLE_INTERVAL_S):
                return


def work(args: argparse.Namespace) -> dict[str, Any]:
    """Do each work once with an empty page cache, if asked, and then `--rounds` times with what the cache holds."""
    store, small = workload(args.store, args.queues), workload(args.warm_up_store, args.queues)
    session = start_session()
    reput.register(session)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in WORKS}
    turns = [False] * (not args.warm_alone) + [True] * args.rounds
    run_all(small, session, args.split_mb, {name: [] for name in WORKS}, is_warm=True)
    for is_warm in turns:
        run_all(store, session, args.split_mb, found, is_warm=is_warm)
    session.stop()
    log = list_log_files(store.store / paths.COMMIT_LOG)
    splits = plan_splits(log, args.split_mb << 20)
    return {"works": found, "splits": len(splits), "log_bytes": sum(split.size for split in splits)}


def workload(store: str, queues: int) -> Workload:
    """The store that `scan_side.py write` has left, as one to measure on."""
    path = Path(store)
    log = list_log_files(path / paths.COMMIT_LOG)
    checkpoint = path.with_suffix(".checkpoint")
    if not checkpoint.exists():
        checkpoint.write_bytes((path / "checkpoint").read_bytes())
    written = {"log_bytes": sum(file.data_end - file.start for file in log.files)}
    return Workload(Case(0, queues), path, checkpoint.read_bytes(), written)


def run_all(
    store: Workload, session: SparkSession, split_mb: int, found: dict[str, list[dict[str, Any]]], *, is_warm: bool
) -> None:
    """Each work in turn, in an order in which the store is what the next one needs."""
    for name, do in WORKS.items():
        if name in ("rebuild", "follow"):
            store.reset()
        if not is_warm:
            forget(store.store)
        gc.collect()
        read, begin = paged_in(), time.perf_counter()
        with Memory() as memory:
            do(str(store.store), session, split_mb)
        seconds = time.perf_counter() - begin
        values = {f"{role}_bytes": held for role, held in memory.peaks.items()}
        found[name].append({"seconds": seconds, "warm": is_warm, "read_bytes": paged_in() - read, **values})


def _rebuild(store: str, session: SparkSession, split_mb: int) -> None:
    reput.rebuild(store, spark=session, split_mb=split_mb)


def _check(store: str, session: SparkSession, split_mb: int) -> None:
    if not reput.check(store, spark=session, split_mb=split_mb).sound:
        raise RuntimeError(f"{store} is not sound")


def _scan(store: str, session: SparkSession, _split_mb: int) -> None:
    session.read.format("rocketmq").option("columns", "storeSize").load(store).selectExpr("sum(storeSize)").collect()


def _open(store: str, _session: SparkSession, _split_mb: int) -> None:
    with reput.MessageStore.open(store, read_only=True) as opened:
        if not opened.get_message(opened.topics()[0], 0, 0, 1):
            raise RuntimeError(f"{store} has no first message")


def _follow(store: str, session: SparkSession, _split_mb: int) -> None:
    reput.follow(store, spark=session, until_caught_up=True).wait()


WORKS: dict[str, Callable[[str, SparkSession, int], None]] = {
    "rebuild": _rebuild,
    "check": _check,
    "scan": _scan,
    "open": _open,
    "follow": _follow,
}


def forget(folder: Path) -> None:
    """Take the files of a folder out of the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def paged_in() -> int:
    """The bytes that the whole machine has read from its disks so far."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("pgpgin ")) << 10


def driver(args: argparse.Namespace) -> dict[str, Any]:
    """Stitch results of splits and merge their queues, as the driver of a rebuild does: no log, no tasks."""
    split_bytes = 128 << 20
    before = resident()
    splits, results = made(args.splits, split_bytes)
    begin = time.perf_counter()
    stitched = stitch(0, splits, results, _not_asked)
    stitch_s = time.perf_counter() - begin
    if len(stitched.results) != args.splits or stitched.gaps:
        raise RuntimeError("the splits do not join")
    stitched_bytes = resident() - before
    keys = [QueueKey(b"topic-%07d" % (number // 8), number % 8) for number in range(args.queues)]
    chance, table, merge_s = np.random.default_rng(1), SplitQueues(), 0.0
    ends = np.zeros(args.queues, dtype=np.int64)
    before = resident()
    for number in range(args.splits):
        first = number * args.each % args.queues
        rows = np.unique(np.append(chance.integers(0, args.queues, args.each - 1), first))
        ranges = QueueRanges([keys[row] for row in rows], ends[rows], ends[rows] + 9, *_entries(len(rows)))
        ends[rows] += 10
        begin = time.perf_counter()
        table.add(ranges)
        merge_s += time.perf_counter() - begin
    if table.out_of_order():
        raise RuntimeError("queues that are in order are said not to be")
    return {
        "stitch_seconds": stitch_s,
        "stitch_bytes": stitched_bytes,
        "merge_seconds": merge_s,
        "merge_rows": args.splits * args.each,
        "merge_bytes": resident() - before,
        "queues": len(table.keys),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


def _entries(queues: int) -> tuple[Any, Any]:
    return np.full(queues, 10, dtype=np.int64), np.ones(queues, dtype=np.uint8)


def _not_asked(split: Split) -> SplitResult:
    raise RuntimeError(f"split {split.number} joins, and is asked for again")


def made(count: int, size: int) -> tuple[list[Split], list[SplitResult]]:
    """Splits of a sound log of 1 GiB files, and the results that tasks return for them."""
    splits, results, in_file = [], [], (1 << 30) // size
    oddities = SplitOddities(0, 0, 0, -1, 0, -1)
    records = size // RECORD_BYTES
    for number in range(count):
        begin, file = number * size, number // in_file * (1 << 30)
        end = begin + size
        name = f"/store/commitlog/{file:020d}"
        splits.append(Split(number, name, file, 1 << 30, begin, end, file + (1 << 30), number % in_file == 0))
        last = end - RECORD_BYTES
        counts = (records, records, records, 0)
        times = (number, number + 1, number + 1)
        results.append(SplitResult(number, begin, begin, end, (), None, *counts, last, RECORD_BYTES, *times, oddities))
    return splits, results


def resident() -> int:
    """The memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("work", "driver"))
    parser.add_argument("store", nargs="?")
    parser.add_argument("--warm-up-store")
    for name, default in (("rounds", 1), ("splits", 0), ("queues", 64), ("each", 1000), ("split-mb", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--warm-alone", action="store_true")
    args = parser.parse_args()
    print(json.dumps({"work": work, "driver": driver}[args.command](args)))


if __name__ == "__main__":
    main()
