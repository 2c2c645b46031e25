"""Serve RocketMQ's Java client with RocketMQ's broker and with `reput serve`, in turn, on the same machine.

One client process for each side and round sends from 1 and 16 threads, asynchronously and in batches of 100, waits for
single messages by long polling, and consumes what the batches sent. Bodies have 128 bytes. Both brokers flush
asynchronously. Started: from the start of the process to the first answer about a topic's route. Memory: what the
process has resident after the load, mapped files of the store included, and without them (anonymous).

Environment:
    QUICK         1: short: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    SECONDS       seconds of each way to send; default 5
    CONSUMED      messages that are consumed; default 200000
    HELD          pulls that are held at once; default 1000
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio send=.. send_batch=.. consume=.. p99=.. start_s=.. rss=..`: our rates by the
peer's (16 threads; batches; consumed), our 99th percentile of a send from 16 threads by the peer's, our seconds to
start, our resident memory by the peer's.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
import psutil
from machine import say
from page import ratio_line
from workload import REPOSITORY

from broker.clients.brokers import Serving, make_topics, talking_rocketmq
from broker.remoting import Client, pull_fields
from peer import peer
from reput.broker.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "HELD", "PEER_HEAP")
TOPICS = {"load-send": 8, "load-batch": 8, "load-poll": 2}
START_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 600


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    for program in ("broker", "client"):
        if reason := peer.available(program):
            say(reason)
            return 2
    quick = os.environ.get("QUICK", "") not in ("", "0")
    rounds = int(os.environ.get("ROUNDS", "1" if quick else "3"))
    parent = Path(os.environ.get("BENCH_DIR", REPOSITORY / "bench" / "work"))
    parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {"peer": [], "reput": []}
    for number in range(1, rounds + 1):
        for side, measured in found.items():
            with tempfile.TemporaryDirectory(prefix="broker-", dir=parent) as folder:
                measured.append(measure(side, Path(folder), quick))
            say(f"round {number} of {rounds}: {side}: {json.dumps(measured[-1])}")
    medians = {side: _medians(values) for side, values in found.items()}
    report = {
        "environment": machine.environment("bench-broker", SETTINGS, rounds),
        "rounds": found,
        "medians": medians,
    }
    results = Path(os.environ.get("RESULTS_DIR", parent if quick else REPOSITORY / "bench" / "results"))
    results.mkdir(parents=True, exist_ok=True)
    (results / "broker-2c.json").write_text(json.dumps(report, indent=2) + "\n")
    _print(medians)
    return 0


def measure(side: str, folder: Path, quick: bool) -> dict[str, Any]:
    """One round of one side, by measurement."""
    seconds = os.environ.get("SECONDS", "1" if quick else "5")
    consumed = os.environ.get("CONSUMED", "20000" if quick else "200000")
    held = int(os.environ.get("HELD", "100" if quick else "1000"))
    with (_peer if side == "peer" else _reput)(folder) as (serving, process, start_s):
        make_topics(serving, {**TOPICS, "load-held": held})
        values: dict[str, Any] = {"start_s": start_s}
        for line in _client(serving, folder, seconds, consumed):
            name = line.pop("name")
            values |= {f"{name}_{key}": value for key, value in line.items() if value}
        values["held_p99_ms"] = _held_ms(serving, held)
        memory = psutil.Process(process.pid).memory_full_info()
        values |= {"rss_mib": memory.rss >> 20, "anonymous_mib": memory.rss - memory.shared >> 20}
        return values


@contextlib.contextmanager
def _peer(folder: Path) -> Iterator[tuple[Serving, subprocess.Popen[bytes], float]]:
    begin = time.perf_counter()
    jvm = (f"-Xms{machine.peer_heap()}", f"-Xmx{machine.peer_heap()}")
    with talking_rocketmq(folder / "store", folder / "home", {}, jvm) as (serving, process):
        yield serving, process, _answered(serving, begin)


@contextlib.contextmanager
def _reput(folder: Path) -> Iterator[tuple[Serving, subprocess.Popen[bytes], float]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begin = time.perf_counter()
    words = [sys.executable, "-m", "reput", "serve", str(folder / "store"), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    serving = Serving("reput", address, address, folder / "store")
    try:
        yield serving, process, _answered(serving, begin)
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


def _answered(serving: Serving, begin: float) -> float:
    """Wait for the answer about a route; return the seconds since `begin`."""
    while time.perf_counter() < begin + START_TIMEOUT_S:
        with contextlib.suppress(OSError), Client(serving.namesrv) as client:
            if client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.SUCCESS:
                return round(time.perf_counter() - begin, 3)
        time.sleep(0.005)
    raise RuntimeError(f"{serving.name} does not answer")


def _client(serving: Serving, folder: Path, seconds: str, consumed: str) -> list[dict[str, Any]]:
    program = peer.PROGRAMS["client"]
    words = ["java", "-Xmx1g", f"-Duser.home={folder}", f"-Drocketmq.client.logRoot={folder}", "-cp", program.classpath]
    words += ["reput.clients.Load", serving.namesrv, "load-", seconds, consumed]
    done = subprocess.run(words, capture_output=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the client of {serving.name} failed: {done.stderr.decode(errors='replace')[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"name"')]


def _held_ms(serving: Serving, count: int) -> float:
    """Hold a count of pulls, a queue each, and send to each; return the 99th percentile from send to pull's answer."""
    with Client(serving.broker) as puller, Client(serving.broker) as sender:
        held = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 15_000, "consumerGroup": "load-held"}
        numbers = [
            puller.send(RequestCode.PULL_MESSAGE, **pull_fields("load-held", one, 0, **held)) for one in range(count)
        ]
        time.sleep(0.5)
        times = []
        for queue_id, number in enumerate(numbers):
            begin = time.perf_counter()
            sender.put("load-held", queue_id=queue_id)
            puller.answer(number)
            times.append((time.perf_counter() - begin) * 1000)
    return round(statistics.quantiles(times, n=100)[98], 2)


def _medians(values: list[dict[str, Any]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in values) for name in values[0]}


def _print(medians: dict[str, dict[str, float]]) -> None:
    theirs, ours = medians["peer"], medians["reput"]
    for name, value in theirs.items():
        say(f"{name:16} peer {value:>12,} reput {ours[name]:>12,}")

    names = {"send": "send_16_rate", "send_batch": "batch_rate", "consume": "consume_rate", "p99": "send_16_p99_us"}
    ratios = {short: ours[name] / theirs[name] for short, name in names.items()}
    ratios |= {"start_s": ours["start_s"], "rss": ours["rss_mib"] / theirs["rss_mib"]}
    sys.stdout.write(f"{ratio_line(ratios)}\n")


if __name__ == "__main__":
    sys.exit(main())
