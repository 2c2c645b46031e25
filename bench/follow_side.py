"""reput's side of the follow and scan benchmark, one thing a process: `follow_side.py COMMAND STORE ...`.

write STORE --rate R --seconds S        puts at a steady rate, one message a call; prints how many at the end
follow STORE                            `reput.follow` on Spark beside that; ends when its stdin does
watch STORE --seconds S --pid P         latencies from append to frontiers, and the memory of process P; one JSON line
catch-up STORE --warm-up-store SMALL    seconds of `reput.follow(until_caught_up=True)` in a session that has worked
scan STORE --warm-up-store SMALL --folder F --topic T --begin-ms B --end-ms E   the data source's seconds

Latencies are sampled from outside: a process looks at the store's watermarks (shared memory) every millisecond. It
notes when it first sees a log offset confirmed, and when it first sees a frontier at or after that offset.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import runs
from sessions import start_session
from store_side import BODY_BYTES, OK, QUEUES_PER_TOPIC

import reput
from reput.config import StoreConfig
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.store.disk.frontier import Frontiers, read_frontier
from reput.store.disk.layout import find_store

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = 64
SLICE_S = 0.01
LOOK_S = 0.001
MARK_S = 0.005
DURABLE_LOOK_S = 0.05
MEMORY_LOOK_S = 5.0
_NOISE = random.Random(1).randbytes(1 << 20)


def write(args: argparse.Namespace) -> dict[str, Any]:
    """Put at `--rate` messages a second: what is due goes in slices of some milliseconds."""
    store = reput.MessageStore.open(args.store, create=True)
    chance, put, message = random.Random(2), store.put_message, reput.Message
    done, begin = 0, time.perf_counter()
    while (now := time.perf_counter() - begin) < args.seconds:
        for number in range(done, int(now * args.rate)):
            queue, at = chance.randrange(QUEUES), chance.randrange(len(_NOISE) - BODY_BYTES)
            made = message(
                f"bench-{queue // QUEUES_PER_TOPIC:04d}",
                _NOISE[at : at + BODY_BYTES],
                f"tag-{number % 100:02d}",
                f"order-{number:010d}",
                unique_key=f"{number:032X}",
            )
            if put(made, queue % QUEUES_PER_TOPIC).status is not OK:
                raise RuntimeError("a put failed")
            done += 1
        time.sleep(max(0.0, SLICE_S - (time.perf_counter() - begin - now)))
    seconds = time.perf_counter() - begin
    store.close(reput=False)
    return {"messages": done, "seconds": seconds, "rate": done / seconds}


def follow(args: argparse.Namespace) -> dict[str, Any]:
    """Follow until stdin ends."""
    with reput.follow(args.store, spark=start_session()) as handle:
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.read()
    return handle.progress.as_dict()


class Reached:
    """The time from the moment when a log offset is confirmed until a frontier passes it."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, float]] = deque()
        self.latencies_s: list[float] = []

    def mark(self, offset: int, now: float) -> None:
        """This offset was confirmed now."""
        self.waiting.append((offset, now))

    def look(self, frontier: int, now: float) -> None:
        """The frontier is here now."""
        while self.waiting and self.waiting[0][0] <= frontier:
            self.latencies_s.append(now - self.waiting.popleft()[1])

    def summary_ms(self) -> dict[str, float]:
        """Percentiles in ms."""
        found = np.array(self.latencies_s) * 1000
        return {name: float(np.percentile(found, share)) for name, share in (("p50", 50), ("p99", 99), ("max", 100))}


def watch(args: argparse.Namespace) -> dict[str, Any]:
    """Look at the watermarks and the frontier file for that number of seconds."""
    layout = find_store(args.store, StoreConfig())
    marks = Watermarks(layout.own(own.WATERMARKS_NAME), read_only=True)
    visible, durable = Reached(), Reached()
    memory: list[tuple[float, int]] = []
    begin = time.perf_counter()
    marked = looked = remembered = begin
    first = last = marks["confirmed_offset"]
    while (now := time.perf_counter()) - begin < args.seconds:
        confirmed = marks["confirmed_offset"]
        if confirmed > last and now - marked >= MARK_S:
            visible.mark(confirmed, now)
            durable.mark(confirmed, now)
            last, marked = confirmed, now
        visible.look(marks["frontier_offset"], now)
        if now - looked >= DURABLE_LOOK_S:
            durable.look(Frontiers.of(read_frontier(layout)).both, now)
            looked = now
        if now - remembered >= MEMORY_LOOK_S:
            memory.append((now - begin, runs.tree_pss_bytes(args.pid)))
            remembered = now
        time.sleep(LOOK_S)
    return {
        "visible_ms": visible.summary_ms(),
        "durable_ms": durable.summary_ms(),
        "samples": len(visible.latencies_s),
        "never_visible": len(visible.waiting),
        "log_bytes": last - first,
        "memory": memory,
    }


def catch_up(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds to bring a store without indexes up to its log's end, durably."""
    session = start_session()
    reput.follow(args.warm_up_store, spark=session, until_caught_up=True).wait()
    begin = time.perf_counter()
    handle = reput.follow(args.store, spark=session, until_caught_up=True)
    handle.wait()
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "messages": handle.progress.messages}


def scan(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of three questions to `format("rocketmq")`, each after the same one to a small store.

    In a session as users have one: ours for jobs trade the better compiler of the JVM for a quick start.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    reput.register(session)

    def count_and_sum(store: str) -> int:
        frame = session.read.format("rocketmq").option("columns", "storeSize").load(store)
        row = frame.selectExpr("count(*) AS messages", "sum(storeSize) AS bytes").first()
        assert row is not None
        return int(row["messages"])

    def to_parquet(store: str) -> int:
        shutil.rmtree(args.folder, ignore_errors=True)
        columns = "topic,body,queueId,queueOffset,storeTimestamp,keys,tags"
        frame = session.read.format("rocketmq").option("columns", columns).load(store)
        frame.write.option("compression", "zstd").parquet(args.folder)
        return session.read.parquet(args.folder).count()

    def narrow(store: str) -> int:
        frame = session.read.format("rocketmq").option("columns", "topic,storeTimestamp,storeSize").load(store)
        first, end = f"timestamp_millis({args.begin_ms})", f"timestamp_millis({args.end_ms})"
        between = f"storeTimestamp >= {first} AND storeTimestamp < {end}"
        row = frame.where(f"topic = '{args.topic}' AND {between}").selectExpr("count(*) AS messages").first()
        assert row is not None
        return int(row["messages"])

    return {
        "scan": _timed(count_and_sum, args),
        "parquet": _timed(to_parquet, args),
        "narrow": _timed(narrow, args),
    }


def _timed(question: Callable[[str], int], args: argparse.Namespace) -> dict[str, float]:
    question(args.warm_up_store)
    begin = time.perf_counter()
    messages = question(args.store)
    return {"seconds": time.perf_counter() - begin, "messages": messages}


def main() -> None:
    """Run one command and print its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["write", "follow", "watch", "catch-up", "scan"])
    parser.add_argument("store")
    for name in ("--rate", "--seconds"):
        parser.add_argument(name, type=float)
    for name in ("--pid", "--begin-ms", "--end-ms"):
        parser.add_argument(name, type=int)
    for name in ("--warm-up-store", "--folder", "--topic"):
        parser.add_argument(name)
    args = parser.parse_args()
    Path(args.store).mkdir(parents=True, exist_ok=True)
    commands = {"write": write, "follow": follow, "watch": watch, "catch-up": catch_up, "scan": scan}
    print(json.dumps(commands[args.command](args)), flush=True)


if __name__ == "__main__":
    main()
