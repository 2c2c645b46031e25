"""The Python client's side of `bench/client.py`: the measurements of `Load.java`, a line each.

Usage: ADDRESS PREFIX SECONDS CONSUMED; the topics `send`, `batch` and `poll` with that prefix are there before.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import reput

BODY = bytes(128)
BATCH = 100
POLLED = 500


def main() -> int:
    """Measure in the order of `Load.java`."""
    address, prefix, seconds, consumed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    with reput.Producer("load", address) as producer:
        for threads, name in ((16, "warm-up"), (1, "send_1"), (16, "send_16")):
            send(producer, f"{prefix}send", threads, seconds, name)
        submit(producer, f"{prefix}send", seconds)
        batches(producer, f"{prefix}batch", seconds, consumed)
        poll(producer, address, f"{prefix}poll")
    consume(address, f"{prefix}batch", consumed)
    return 0


def report(name: str, count: int, seconds: float, nanos: list[int]) -> None:
    """Write a measurement."""
    line: dict[str, Any] = {"name": name, "count": count, "rate": round(count / seconds) if seconds else 0}
    nanos.sort()
    if nanos:
        line |= {"p50_us": nanos[len(nanos) // 2] // 1000, "p99_us": nanos[int(len(nanos) * 0.99)] // 1000}
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


def message(topic: str, body: bytes = BODY) -> reput.Message:
    """A message as `Load.java` makes them."""
    return reput.Message(topic, body, tags="tag", keys="key")


def send(producer: reput.Producer, topic: str, threads: int, seconds: float, name: str) -> None:
    """Send from some threads, one message after the other in each."""
    begin = time.perf_counter()

    def one_by_one(_: int) -> list[int]:
        own = []
        now = time.perf_counter_ns()
        while now < (begin + seconds) * 1e9:
            producer.send(message(topic))
            after = time.perf_counter_ns()
            own.append(after - now)
            now = after
        return own

    with ThreadPoolExecutor(threads) as pool:
        nanos = [one for own in pool.map(one_by_one, range(threads)) for one in own]
    report(name, len(nanos), time.perf_counter() - begin, nanos)


def submit(producer: reput.Producer, topic: str, seconds: float) -> None:
    """Send without a wait for each, 256 under way."""
    free, sent, begin = threading.Semaphore(256), 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        free.acquire()
        producer.submit(message(topic)).add_done_callback(lambda _: free.release())
        sent += 1
    for _ in range(256):
        free.acquire()
    report("async", sent, time.perf_counter() - begin, [])


def batches(producer: reput.Producer, topic: str, seconds: float, least: int) -> None:
    """Send batches, and then, not measured, as many as will be consumed."""
    sent, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        sent += len(producer.send_batch([message(topic) for _ in range(BATCH)]))
    report("batch", sent, time.perf_counter() - begin, [])
    while sent < least:
        sent += len(producer.send_batch([message(topic) for _ in range(BATCH)]))


def poll(producer: reput.Producer, address: str, topic: str) -> None:
    """Send messages one by one to a consumer that waits: from the send to the poll's return."""
    nanos: list[int] = []
    with reput.Consumer("pollers", address, {topic: "*"}) as consumer:
        consumer.start()
        time.sleep(2)

        def take() -> None:
            while len(nanos) < POLLED:
                for one in consumer.poll(timeout_s=30):
                    nanos.append(time.perf_counter_ns() - int(one.body))
                    consumer.commit(one)

        thread = threading.Thread(target=take)
        thread.start()
        for _ in range(POLLED):
            producer.send(message(topic, b"%d" % time.perf_counter_ns()))
            time.sleep(0.004)
        thread.join()
    report("poll", POLLED, 0, nanos)


def consume(address: str, topic: str, most: int) -> None:
    """Read what `batches` has sent, from the first message to the last of a number of them; each body is looked at."""
    got, begin = 0, 0.0
    with reput.Consumer("load-readers", address, {topic: "*"}, start_at="first") as consumer:
        while got < most:
            messages = consumer.poll(1000, timeout_s=30)
            begin = begin or time.perf_counter()
            got += sum(len(one.body) == len(BODY) for one in messages)
            consumer.commit(messages)
        report("consume", got, time.perf_counter() - begin, [])


if __name__ == "__main__":
    sys.exit(main())
