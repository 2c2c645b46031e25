"""The side of the scan benchmark that works, one thing a process: `scan_side.py COMMAND STORE ...`.

write STORE --messages N [--queues Q] [--body B] [--index]
                             a store of N messages, as an application makes them; one JSON line with the log's bytes
scan STORE --rounds N        seconds (wall, CPU) of the kernel and of scans, in turns; one JSON line
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import reput
from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import CHECK_BODY
from reput.kernels.layouts.columns import Columns, StateAt, Stop
from reput.log.read.decode import DecodeSettings, RangeDecoder
from reput.log.read.files import list_log_files

if TYPE_CHECKING:
    from collections.abc import Callable


AT_ONCE = 50_000
QUEUES_PER_TOPIC = 8
PIECE_BYTES = 16 << 20
PASSES = 4
"""The number of times that the kernel goes over the log a round."""
FOUR = ("topic", "queueOffset", "storeTimestamp", "keys")
_NOISE = random.Random(1).randbytes(1 << 20)


def write(args: argparse.Namespace) -> dict[str, Any]:
    """Put messages as columns, and index them if asked."""
    # The indexes come later, or not at all, so the tail has room for all messages.
    config = reput.StoreConfig(tail_max_entries=args.messages + AT_ONCE)
    with reput.MessageStore.open(args.store, config, create=True) as store:
        for begin in range(0, args.messages, AT_ONCE):
            numbers = range(begin, min(args.messages, begin + AT_ONCE))
            store.put_messages(messages(numbers, args.queues, args.body)).raise_for_status()
        end = store.flush()
        if args.index:
            store.reput(spark=False)
        store.close(reput=False)
    return {"log_bytes": end}


def messages(numbers: range, queues: int, body_bytes: int) -> pa.Table:
    """A message for each number, in queues by turn."""
    places = [number * 977 % (len(_NOISE) - body_bytes) for number in numbers]
    properties = [[("region", "eu" if number % 2 else "us"), ("amount", str(number % 1000))] for number in numbers]
    return pa.table(
        {
            "topic": [f"bench-{number % queues // QUEUES_PER_TOPIC:04d}" for number in numbers],
            "queue_id": [number % QUEUES_PER_TOPIC for number in numbers],
            "body": [_NOISE[at : at + body_bytes] for at in places],
            "tags": [f"tag-{number % 100:02d}" for number in numbers],
            "keys": [f"order-{number:010d}" for number in numbers],
            "unique_key": [f"{number:032X}" for number in numbers],
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        }
    )


def scan(args: argparse.Namespace) -> dict[str, Any]:
    """Time the kernel and scans in turns, each once before."""
    work: dict[str, tuple[Callable[[], int], int]] = {
        "kernel": (lambda: decode(args.store), PASSES),
        "all": (lambda: count(reput.scan(args.store)), 1),
        "four": (lambda: count(reput.scan(args.store, columns=FOUR)), 1),
    }
    seen = {name: run() for name, (run, _) in work.items()}
    seconds: dict[str, list[list[float]]] = {name: [] for name in work}
    for _ in range(args.rounds):
        for name, (run, passes) in work.items():
            wall, cpu = time.perf_counter(), cpu_seconds()
            for _ in range(passes):
                run()
            seconds[name].append([(time.perf_counter() - wall) / passes, (cpu_seconds() - cpu) / passes])
    return {"messages": seen, "seconds": seconds}


def decode(store: str) -> int:
    """Decode a log's files with the kernel, one thread; returns the records."""
    records = 0
    for file in list_log_files(Path(store) / paths.COMMIT_LOG).files:
        columns = Columns.for_range(PIECE_BYTES)
        with fs.mapped(str(file.path), 0, file.size) as buffer:
            decoder = RangeDecoder(buffer, file.start, DecodeSettings(CHECK_BODY, False, ()), columns)
            position, stop = 0, Stop.REACHED_END
            while position < file.size and stop is Stop.REACHED_END:
                columns.state[[StateAt.records, StateAt.items, StateAt.further]] = 0
                stop = decoder.decode(position, min(file.size, position + PIECE_BYTES))
                position = int(columns.state[StateAt.position])
                records += columns.records
    return records


def count(reader: pa.RecordBatchReader) -> int:
    """Take all batches, and let go of each."""
    return sum(len(batch) for batch in reader)


def cpu_seconds() -> float:
    """User and system time of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run one command and print its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["write", "scan"])
    parser.add_argument("store")
    for name, default in (("messages", 0), ("rounds", 1), ("queues", 64), ("body", 300)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--index", action="store_true")
    args = parser.parse_args()
    print(json.dumps({"write": write, "scan": scan}[args.command](args)), flush=True)


if __name__ == "__main__":
    main()
