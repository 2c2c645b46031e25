"""reput's side of the queue benchmark, one thing a process: `queues_side.py COMMAND STORE ...`; prints one JSON line.

rebuild STORE --warm-up-store SMALL       into RocksDB, in a Spark session that has rebuilt a small store before
read STORE --pull 32 --seconds S          every queue of the RocksDB from its first message to its last
put STORE --messages N --queues Q         into a new store of RocksDB queues; with the process's highest memory
open STORE                                a store of many queues: seconds, memory and open files
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path
from typing import Any

from sessions import start_session
from store_side import CHUNK, QUEUES_PER_TOPIC, Chunk, chunk, put_each, timed

import reput

CONFIG = reput.StoreConfig(store_type="defaultRocksDB")


def rebuild(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one rebuild into RocksDB."""
    session = start_session()
    reput.rebuild(args.warm_up_store, spark=session, config=CONFIG)
    begin = time.perf_counter()
    report = reput.rebuild(args.store, spark=session, config=CONFIG)
    seconds = time.perf_counter() - begin
    session.stop()
    return {"seconds": seconds, "entries": report.queue_entries, "stages": report.seconds}


def read(args: argparse.Namespace) -> dict[str, Any]:
    """Pull everything."""
    store = reput.MessageStore.open(args.store, CONFIG, read_only=True)
    queues = store.queues()

    def get_all() -> tuple[int, int]:
        get, count = store.get_message, 0
        for topic, queue_id, offset, end in queues:
            while offset < end:
                result = get(topic, queue_id, offset, args.pull)
                count += len(result)
                offset = result.next_offset  # noqa: PLW2901 - where the next pull of this queue begins
        return count, 0

    report = timed(get_all, args.seconds)
    store.close()
    return report


def _one_each(given: Chunk, first: int) -> Chunk:
    """The same messages, one for each queue from number `first` on."""
    numbers = range(first, first + len(given.topic))
    return given._replace(
        topic=[f"bench-{number // QUEUES_PER_TOPIC:04d}" for number in numbers],
        queue_id=[number % QUEUES_PER_TOPIC for number in numbers],
    )


def put(args: argparse.Namespace) -> dict[str, Any]:
    """Put one by one, spread over the queues by chance; the first message of each queue is not timed."""
    store = reput.MessageStore.open(args.store, CONFIG, create=True)
    chance, seconds = random.Random(2), 0.0
    for first, count, is_timed in ((0, args.queues, False), (args.queues, args.messages, True)):
        for done in range(0, count, CHUNK):
            given = chunk(chance, first + done, min(CHUNK, count - done), args.queues)
            if not is_timed:
                given = _one_each(given, done)
            took = put_each(store, given)
            seconds += took if is_timed else 0
    queues = len(store.queues())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin = time.perf_counter()
    if args.index:
        store.reput(spark=False)
    indexed = time.perf_counter() - begin
    store.close(reput=False)
    return {
        "seconds": seconds,
        "messages": args.messages,
        "queues": queues,
        "peak_bytes": peak,
        "index_seconds": indexed,
        "peak_bytes_indexed": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def open_store(args: argparse.Namespace) -> dict[str, Any]:
    """Open a store to put messages, and look at one queue."""
    begin = time.perf_counter()
    store = reput.MessageStore.open(args.store, CONFIG, create=True)
    seconds = time.perf_counter() - begin
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    store.close(reput=False)
    return {
        "seconds": seconds,
        "open_files": files,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


COMMANDS = {"rebuild": rebuild, "read": read, "put": put, "open": open_store}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("store")
    parser.add_argument("--warm-up-store")
    for name, default in (("messages", 0), ("queues", 0), ("pull", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--index", action="store_true")
    args = parser.parse_args()
    print(json.dumps(COMMANDS[args.command](args)))


if __name__ == "__main__":
    main()
