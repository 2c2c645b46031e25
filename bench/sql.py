"""One SQL92 filter over the same messages by RocketMQ's own code and by reput, in one run.

    MESSAGES=1000000 ROUNDS=5 python bench/sql.py

Both sides look at the records of one mapped log file: properties taken from the record, the filter asked, the matching
messages counted. Parsing the filter, opening the file and one round to warm up are not timed; the best round counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import asked
import machine
import numpy as np
import pyarrow as pa

import reput
from peer import peer
from reput.dispatch.sql import compile as compile_filter
from reput.dispatch.sql.columns import RecordProperties
from reput.formats import paths

EXPRESSION = "amount > 100 AND region = 'eu'"
REGIONS = ("eu", "us", "asia", "africa")


class SqlRatio(NamedTuple):
    """The seconds of both sides for a filter over `messages`, of which `matched` match."""

    expression: str
    messages: int
    matched: int
    peer_s: float
    reput_s: float

    @property
    def ratio(self) -> float:
        """The peer's time over ours."""
        return self.peer_s / self.reput_s


def compare(
    messages: int = 1_000_000, rounds: int = 10, expression: str = EXPRESSION, folder: Path | None = None
) -> SqlRatio:
    """Measure one filter on both sides; the messages are written to a new store below `folder`, and removed.

    Raises:
        RuntimeError: the two sides do not find the same.
    """
    with tempfile.TemporaryDirectory(dir=folder) as work:
        store = Path(work) / "store"
        write(store, messages)
        log = store / paths.COMMIT_LOG / paths.offset_name(0)
        ours = _ours(log, messages, expression, rounds)
        heap = machine.peer_heap()
        theirs: dict[str, Any] = peer.run("bench-sql", log, expression, "--rounds", rounds, heap=heap)
    found = messages, ours[0]
    if (theirs["messages"], theirs["matched"]) != found:
        raise RuntimeError(f"RocketMQ looked at {theirs['messages']} and found {theirs['matched']}, reput {found}")
    return SqlRatio(expression, messages, ours[0], theirs["nanoseconds"] / 1e9, ours[1])


def write(store: Path, messages: int) -> None:
    """A store with one log file of messages as an application has them: a key, a tag and two properties of its own."""
    size = 1 << 30 if messages > 10_000 else 16 << 20
    config = reput.StoreConfig(mapped_file_size_commit_log=size)
    with reput.MessageStore.open(store, config, create=True) as opened:
        for begin in range(0, messages, 10_000):
            numbers = range(begin, min(messages, begin + 10_000))
            table = pa.table(
                {
                    "topic": ["orders"] * len(numbers),
                    "queue_id": [number % 4 for number in numbers],
                    "body": [b"x" * 100] * len(numbers),
                    "tags": ["paid"] * len(numbers),
                    "keys": [f"order-{number}" for number in numbers],
                    "properties": pa.array(
                        [
                            [("amount", str(number * 7919 % 1000)), ("region", REGIONS[number % len(REGIONS)])]
                            for number in numbers
                        ],
                        pa.map_(pa.string(), pa.string()),
                    ),
                }
            )
            opened.put_messages(table)


def _ours(log: Path, messages: int, expression: str, rounds: int) -> tuple[int, float]:
    data = np.memmap(log, dtype=np.uint8, mode="r")
    positions = record_positions(data, messages)
    wanted = compile_filter(expression)
    times = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        matched = int(np.count_nonzero(wanted.select(RecordProperties(data, positions))))
        times.append(time.perf_counter() - begin)
    return matched, min(times[1:])


def record_positions(data: np.ndarray[Any, np.dtype[np.uint8]], messages: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the places of the first `messages` records of a log file."""
    positions = np.empty(messages, dtype=np.int64)
    position, view = 0, data.data
    for number in range(messages):
        positions[number] = position
        position += int.from_bytes(view[position : position + 4])
    return positions


def main() -> None:
    """Measure the sizes that the environment asks for."""
    found = compare(round(asked.amount("MESSAGES", 1_000_000)), asked.rounds(5))
    sys.stdout.write(
        f"{found.expression}: {found.messages} messages, {found.matched} match; RocketMQ {found.peer_s:.3f} s, "
        f"reput {found.reput_s:.3f} s\nratio sql={found.ratio:.1f}\n"
    )


if __name__ == "__main__":
    main()
