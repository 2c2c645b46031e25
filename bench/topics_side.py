"""reput's side of the comparison by topics: `topics_side.py STORE --queues Q [--set NAME=VALUE]`.

It does what `TopicsTurn.java` does, and answers the same lines. A mode of its own is `columns`: Arrow columns of 1,000
messages of all queues.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import reput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUEUES_PER_TOPIC = 8
BATCH = 100
TAIL_MESSAGES = 4_000_000
"""Messages without indexes from which on these are built between two measurements: puts wait at twice as many."""
COLUMNS = 1000
MESSAGES = 500_000
BODIES = 1024
FIRST_BODY_BYTES = 128
FIRST_BATCH = 20
"""Messages of the first batch of a queue; one more follows it, as on the other sides."""
OTHER_BYTES = 200
CLOCK_EVERY = 64
TABLES = 100
"""The number of tables of columns that are prepared; they are put again from the first one on."""
OK = reput.PutStatus.PUT_OK


class Given(NamedTuple):
    """The values that an application gives for one message."""

    topic: str
    queue_id: int
    body: bytes
    tags: str
    keys: str
    unique_key: str


class Side:
    """A store, the messages that are put into it, and the place of the next one."""

    def __init__(self, path: str, queues: int, settings: dict[str, str]) -> None:
        config = reput.StoreConfig.from_properties(settings)
        self.store = reput.MessageStore.open(path, config, create=True)
        chance = random.Random(1)
        topics = [f"bench-{number:04d}" for number in range((queues + QUEUES_PER_TOPIC - 1) // QUEUES_PER_TOPIC)]
        self.queues = [(topics[queue // QUEUES_PER_TOPIC], queue % QUEUES_PER_TOPIC) for queue in range(queues)]
        self.chosen = [chance.randrange(queues) for _ in range(MESSAGES)]
        self.tags = [f"tag-{number % 100:02d}" for number in range(MESSAGES)]
        self.keys = [f"order-{number:010d}" for number in range(MESSAGES)]
        self.unique_keys = [f"{number:032X}" for number in range(MESSAGES)]
        self.chance = chance
        self.bodies: list[bytes] = []

    def make_bodies(self, size: int) -> None:
        """Make the bodies of the next messages."""
        self.bodies = [self.chance.randbytes(size) for _ in range(BODIES)]

    def given(self, number: int, queue: int | None = None) -> Given:
        """The values of one message, for its own queue or another."""
        topic, queue_id = self.queues[self.chosen[number] if queue is None else queue]
        body = self.bodies[number % BODIES]
        return Given(topic, queue_id, body, self.tags[number], self.keys[number], self.unique_keys[number])

    def put_into_each(self) -> int:
        """Put some messages into each queue; return their number."""
        put, queues = 0, range(len(self.queues))
        for queue in queues:
            put += put_batch(self.store, [self.given(queue % BATCH + number, queue) for number in range(FIRST_BATCH)])
        for queue in queues:
            put += put_some(self.store, [self.given(queue % MESSAGES, queue)])
        return put

    def some(self) -> Iterator[list[Given]]:
        """Messages for single puts, some at a time."""
        return self._parts(CLOCK_EVERY, same_queue=False)

    def batches(self) -> Iterator[list[Given]]:
        """Messages of one queue at a time."""
        return self._parts(BATCH, same_queue=True)

    def _parts(self, size: int, *, same_queue: bool) -> Iterator[list[Given]]:
        parts = []
        for first in range(0, MESSAGES - size + 1, size):
            queue = self.chosen[first] if same_queue else None
            parts.append([self.given(number, queue) for number in range(first, first + size)])
        return cycle(parts)

    def tables(self) -> Iterator[pa.Table]:
        """Columns of messages of all queues."""
        made = []
        for first in range(0, TABLES * COLUMNS, COLUMNS):
            columns = zip(*map(self.given, range(first, first + COLUMNS)), strict=True)
            made.append(pa.table(dict(zip(Given._fields, map(list, columns), strict=True))))
        return cycle(made)


def put_some(store: reput.MessageStore, part: list[Given]) -> int:
    """Make and put messages one by one."""
    message, put = reput.Message, store.put_message
    for topic, queue_id, body, tags, keys, unique_key in part:
        result = put(message(topic, body, tags, keys, unique_key=unique_key), queue_id)
        if result.status is not OK:
            raise RuntimeError(f"a put failed: {result}")
    return len(part)


def put_batch(store: reput.MessageStore, part: list[Given]) -> int:
    """Make messages of one queue and put them at once."""
    message = reput.Message
    messages = [
        message(topic, body, tags, keys, unique_key=unique_key) for topic, _, body, tags, keys, unique_key in part
    ]
    if (result := store.put_messages(messages, part[0].queue_id)).status is not OK:
        raise RuntimeError(f"a batch failed: {result}")
    return len(part)


def put_table(store: reput.MessageStore, table: pa.Table) -> int:
    """Put columns."""
    if (result := store.put_messages(table)).status is not OK:
        raise RuntimeError(f"columns failed: {result}")
    return len(table)


def work(store: reput.MessageStore, put: Callable[..., int], parts: Iterator[Any], ms: int, most: int) -> list[float]:
    """Put until the time or the messages are over; return the messages and the seconds."""
    done, begin = 0, time.perf_counter()
    end = begin + ms / 1000
    now = begin
    while now < end and done < most:
        done += put(store, next(parts))
        now = time.perf_counter()
    return [done, now - begin]


def main() -> None:
    """Open the store, and do what the lines on stdin say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--queues", type=int, default=64)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    begin = time.perf_counter()
    side = Side(args.store, args.queues, dict(one.split("=", 1) for one in args.set))
    side.make_bodies(FIRST_BODY_BYTES)
    total = side.put_into_each()
    print(json.dumps({"queues": args.queues, "seconds": time.perf_counter() - begin}), flush=True)
    modes = {"single": (put_some, side.some), "batch": (put_batch, side.batches), "columns": (put_table, side.tables)}
    for line in sys.stdin:
        mode, body, warm_up_ms, timed_ms, bytes_max, each = line.split()
        side.make_bodies(int(body))
        if side.store.lag().messages > TAIL_MESSAGES:
            side.store.reput(spark=False)
        if int(each):
            total += side.put_into_each()
        put, parts_of = modes[mode]
        parts, most = parts_of(), int(bytes_max) // (int(body) + OTHER_BYTES)
        warmed, _ = work(side.store, put, parts, int(warm_up_ms), most)
        messages, seconds = work(side.store, put, parts, int(timed_ms), most)
        total += int(warmed + messages)
        print(json.dumps({"messages": messages, "seconds": seconds}), flush=True)
    stored = sum(queue.max_offset for queue in side.store.queues())
    print(json.dumps({"put": total, "stored": stored}), flush=True)
    os._exit(0)  # as on the other sides: nobody opens this store again


if __name__ == "__main__":
    main()
