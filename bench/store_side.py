"""reput's side of the store benchmark, one thing a process: `store_side.py COMMAND STORE ...`; prints one JSON line.

put STORE --messages N --warm-up W --queues Q [--sync] [--indexed]
    [--columns B | --objects B | --send | --threads T | --under-way U]
read STORE --pull 32 --pull 500 --bodies 32 --questions FILE --seconds S
open STORE --warm-up-store SMALL
ask STORE --count N --questions FILE    writes the questions that both sides answer
fsync FOLDER --seconds S

As on the peer's side, what an application gives (topic, body, tags, keys, unique key; or a batch's columns) is prepared
outside the clock; making the message object, its properties, and putting it are inside. Chunks are long, so that the
clock hardly ever stops: what the store does in the background it does beside the puts, not in pauses between them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import deque
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import reput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    Queues = Sequence[tuple[str, int, int, int]]

CHUNK = 500_000
QUEUES_PER_TOPIC = 8
BODY_BYTES = 119
"""With the ten bytes of a topic's name and 76 of properties this makes records of 296 bytes."""
KEY_MESSAGES_MAX = 32
OK = reput.PutStatus.PUT_OK
_NOISE = random.Random(1).randbytes(1 << 20)


class Chunk(NamedTuple):
    """The values that applications give, one a message in each list."""

    topic: list[str]
    queue_id: list[int]
    body: list[bytes]
    tags: list[str]
    keys: list[str]
    unique_key: list[str]


def chunk(chance: random.Random, first: int, size: int, queues: int) -> Chunk:
    """The messages `first` to `first + size`, spread over the queues by chance."""
    numbers = range(first, first + size)
    queue = [chance.randrange(queues) for _ in numbers]
    starts = [chance.randrange(len(_NOISE) - BODY_BYTES) for _ in numbers]
    return Chunk(
        [f"bench-{one // QUEUES_PER_TOPIC:04d}" for one in queue],
        [one % QUEUES_PER_TOPIC for one in queue],
        [_NOISE[start : start + BODY_BYTES] for start in starts],
        [f"tag-{number % 100:02d}" for number in numbers],
        [f"order-{number:010d}" for number in numbers],
        [f"{number:032X}" for number in numbers],
    )


def put_each(store: reput.MessageStore, given: Chunk) -> float:
    """Seconds to make and put messages one by one."""
    message, put = reput.Message, store.put_message
    begin = time.perf_counter()
    for topic, queue_id, body, tags, keys, unique_key in zip(*given, strict=True):
        result = put(message(topic, body, tags, keys, unique_key=unique_key), queue_id)
        if result.status is not OK:
            raise RuntimeError(f"a put failed: {result}")
    return time.perf_counter() - begin


def send_each(store: reput.MessageStore, given: Chunk) -> float:
    """Seconds to put messages one by one by senders, one for each queue, which are made on the way."""
    senders: dict[tuple[str, int], Callable[..., reput.PutResult]] = {}
    begin = time.perf_counter()
    for topic, queue_id, body, tags, keys, unique_key in zip(*given, strict=True):
        put = senders.get((topic, queue_id))
        if put is None:
            put = senders[topic, queue_id] = store.sender(topic, queue_id).put
        result = put(body, tags, keys, unique_key=unique_key)
        if result.status is not OK:
            raise RuntimeError(f"a put failed: {result}")
    return time.perf_counter() - begin


def put_objects(store: reput.MessageStore, given: Chunk, rows: int) -> float:
    """Seconds to make messages and put them as lists."""
    message, put = reput.Message, store.put_messages
    begin = time.perf_counter()
    for at in range(0, len(given.topic), rows):
        part = zip(*(column[at : at + rows] for column in given), strict=True)
        messages, queue_ids = [], []
        for topic, queue_id, body, tags, keys, unique_key in part:
            messages.append(message(topic, body, tags, keys, unique_key=unique_key))
            queue_ids.append(queue_id)
        result = put(messages, queue_ids)
        if result.status is not OK:
            raise RuntimeError(f"a batch failed: {result}")
    return time.perf_counter() - begin


def put_at_once(store: reput.MessageStore, given: Chunk, threads: int) -> float:
    """Seconds to put messages from several threads, each a part of them in a row."""
    ends = [len(given.topic) * number // threads for number in range(threads + 1)]
    parts = [Chunk(*(column[begin:end] for column in given)) for begin, end in pairwise(ends)]
    writers = [threading.Thread(target=put_each, args=(store, part)) for part in parts]
    begin = time.perf_counter()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return time.perf_counter() - begin


def put_under_way(store: reput.MessageStore, given: Chunk, most: int) -> float:
    """Return the seconds to put messages from one thread that lets that number be under way."""
    message, put = reput.Message, store.put_message_async
    under_way: deque[Future[reput.PutResult]] = deque()
    begin = time.perf_counter()
    for topic, queue_id, body, tags, keys, unique_key in zip(*given, strict=True):
        if len(under_way) == most and under_way.popleft().result().status is not OK:
            raise RuntimeError("a put failed")
        under_way.append(put(message(topic, body, tags, keys, unique_key=unique_key), queue_id))
    if any(future.result().status is not OK for future in under_way):
        raise RuntimeError("a put failed")
    return time.perf_counter() - begin


def put_columns(store: reput.MessageStore, given: Chunk, rows: int) -> float:
    """Seconds to put messages as batches of columns."""
    tables = [
        pa.table({name: column[at : at + rows] for name, column in given._asdict().items()})
        for at in range(0, len(given.topic), rows)
    ]
    begin = time.perf_counter()
    for table in tables:
        result = store.put_messages(table)
        if result.status is not OK:
            raise RuntimeError(f"a batch failed: {result}")
    return time.perf_counter() - begin


def put(args: argparse.Namespace) -> dict[str, Any]:
    """Put into a new store; `--messages` are timed, `--warm-up` come before them."""
    config = reput.StoreConfig(flush_disk_type="SYNC_FLUSH" if args.sync else "ASYNC_FLUSH")
    store = reput.MessageStore.open(args.store, config, create=True)
    chance, seconds = random.Random(2), 0.0
    for first, count, timed in ((0, args.warm_up, False), (args.warm_up, args.messages, True)):
        for done in range(0, count, CHUNK):
            given = chunk(chance, first + done, min(CHUNK, count - done), args.queues)
            if args.columns:
                took = put_columns(store, given, args.columns)
            elif args.objects:
                took = put_objects(store, given, args.objects)
            elif args.send:
                took = send_each(store, given)
            elif args.under_way:
                took = put_under_way(store, given, args.under_way)
            elif args.threads > 1:
                took = put_at_once(store, given, args.threads)
            else:
                took = put_each(store, given)
            seconds += took if timed else 0
        if args.indexed:
            begin = time.perf_counter()
            store.reput()
            seconds += time.perf_counter() - begin if timed else 0
    report = {"seconds": seconds, "messages": sum(queue.max_offset for queue in store.queues())}
    report["log_bytes"] = store.view.confirmed()
    store.close(reput=False)
    return report


def timed(work: Callable[[], tuple[int, int]], seconds: float) -> dict[str, Any]:
    """Passes to warm up, then timed ones; the rate of what they did, and one pass's sum of answers."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        work()
    done, passed = 0, (0, 0)
    begin = time.perf_counter()
    while not done or time.perf_counter() - begin < seconds:
        passed = work()
        done += passed[0]
    return {"rate": done / (time.perf_counter() - begin), "done": passed[0], "sum": passed[1]}


def get_all(
    store: reput.MessageStore, queues: Queues, most: int, size_of: Callable[[reput.GetResult], int] | None = None
) -> tuple[int, int]:
    """Pull all messages; return their number, and the sum of what `size_of` says of each pull."""
    get, count, size = store.get_message, 0, 0
    for topic, queue_id, offset, end in queues:
        while offset < end:
            result = get(topic, queue_id, offset, most)
            count += len(result)
            if size_of is not None:
                size += size_of(result)
            offset = result.next_offset  # noqa: PLW2901 - where the next pull of this queue begins
    return count, size


def record_bytes(result: reput.GetResult) -> int:
    """The bytes of the records of a pull."""
    return result.total_bytes


def body_bytes(result: reput.GetResult) -> int:
    """The bytes of the bodies of a pull, whose messages are decoded for it."""
    return sum(len(message.body) for message in result)


def read(args: argparse.Namespace) -> dict[str, Any]:
    """Pull everything, and answer the questions."""
    store = reput.MessageStore.open(args.store, read_only=True)
    queues, report = store.queues(), {}
    for most in args.pull:
        _, size = get_all(store, queues, most, record_bytes)
        report[f"get_{most}"] = {**timed(partial(get_all, store, queues, most), args.seconds), "sum": size}
    for most in args.bodies:
        report[f"bodies_{most}"] = timed(partial(get_all, store, queues, most, body_bytes), args.seconds)
    if args.questions:
        questions = [json.loads(line) for line in Path(args.questions).read_text().splitlines()]
        times = [question["time"] for question in questions if "time" in question]
        # A program has one text for each of its topics, not one a question.
        keys = [(sys.intern(question["key"][0]), question["key"][1]) for question in questions if "key" in question]
        by_time, by_key = store.offset_by_time, store.query_message

        def ask_times() -> tuple[int, int]:
            found = 0
            for topic, queue_id, time_ms in times:
                found += by_time(topic, queue_id, time_ms)
            return len(times), found

        def ask_keys() -> tuple[int, int]:
            found = 0
            for topic, key in keys:
                found += len(by_key(topic, key, KEY_MESSAGES_MAX))
            return len(keys), found

        report |= {"time": timed(ask_times, args.seconds), "key": timed(ask_keys, args.seconds)}
        report |= read_many(store, times, keys, args.seconds)
    store.close()
    return report


def read_many(
    store: reput.MessageStore, times: list[list[Any]], keys: list[tuple[str, str]], seconds: float
) -> dict[str, Any]:
    """Answer the same questions in one call for each topic; an application has its own lists already."""
    queues_of: dict[str, tuple[list[int], list[int]]] = {}
    keys_of: dict[str, list[str]] = {}
    for topic, queue_id, time_ms in times:
        queue_ids, asked = queues_of.setdefault(topic, ([], []))
        queue_ids.append(queue_id)
        asked.append(time_ms)
    for topic, key in keys:
        keys_of.setdefault(topic, []).append(key)

    def ask_times() -> tuple[int, int]:
        return len(times), sum(int(store.offsets_by_time(topic, *asked).sum()) for topic, asked in queues_of.items())

    def ask_keys() -> tuple[int, int]:
        answers = (store.query_messages(topic, asked, KEY_MESSAGES_MAX) for topic, asked in keys_of.items())
        return len(keys), sum(int(found.counts.sum()) for found in answers)

    return {"times": timed(ask_times, seconds), "keys": timed(ask_keys, seconds)}


def open_killed(args: argparse.Namespace) -> dict[str, Any]:
    """Open a store whose log no index covers, as a kill leaves it; a small one first, untimed."""
    reput.MessageStore.open(args.warm_up_store, create=True).close(reput=False)
    begin = time.perf_counter()
    store = reput.MessageStore.open(args.store, create=True)
    seconds = time.perf_counter() - begin
    messages = sum(queue.max_offset - queue.min_offset for queue in store.queues())
    store.close(reput=False)
    return {"seconds": seconds, "messages": messages}


def ask(args: argparse.Namespace) -> dict[str, Any]:
    """Write questions by time and by unique key, of messages chosen by chance."""
    store, chance, lines = reput.MessageStore.open(args.store, read_only=True), random.Random(3), []
    queues = [queue for queue in store.queues() if queue.max_offset > queue.min_offset]
    for _ in range(args.count):
        topic, queue_id, first, end = chance.choice(queues)
        message = store.get_message(topic, queue_id, chance.randrange(first, end), 1)[0]
        lines.append({"time": [topic, queue_id, message.store_timestamp + chance.randrange(-2, 3)]})
        lines.append({"key": [topic, message.unique_key]})
    Path(args.questions).write_text("".join(json.dumps(line) + "\n" for line in lines))
    store.close()
    return {"questions": len(lines)}


def fsync(args: argparse.Namespace) -> dict[str, Any]:
    """Return how often a second the device makes one more small write durable, in a file that has its room already."""
    path = Path(args.store) / "fsync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, 1 << 28)
    os.fsync(descriptor)
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        os.pwrite(descriptor, _NOISE[:296], count * 296)
        os.fdatasync(descriptor)
        count += 1
    rate = count / (time.perf_counter() - begin)
    os.close(descriptor)
    path.unlink()
    return {"rate": rate}


COMMANDS = {"put": put, "read": read, "open": open_killed, "ask": ask, "fsync": fsync}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("store")
    for name in ("messages", "warm-up", "queues", "columns", "objects", "count", "under-way"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pull", type=int, action="append", default=[])
    parser.add_argument("--bodies", type=int, action="append", default=[])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--send", action="store_true")
    parser.add_argument("--indexed", action="store_true")
    parser.add_argument("--questions")
    parser.add_argument("--warm-up-store")
    args = parser.parse_args()
    print(json.dumps(COMMANDS[args.command](args)))


if __name__ == "__main__":
    main()
