"""Serve RocketMQ's Java client with RocketMQ's broker and with `reput serve`, in turn, on the same machine.

One client process for each side and round sends from 1 and 16 threads, asynchronously and in batches of 100, waits for
single messages by long polling, and consumes what the batches sent. Bodies have 128 bytes. Both brokers flush
asynchronously. Started: from the start of the process to the first answer about a topic's route. Memory: what the
process has resident after the load, mapped files of the store included, and without them (anonymous). `cpu_us`: the
broker's processor time a message, which other work on the machine changes least.

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

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import psutil
from machine import say
from page import ratio_line, write_page
from served import TOPICS, java_words, measured, reput_side, rocketmq_side
from workload import REPOSITORY

from broker.clients.brokers import Serving, make_topics
from broker.remoting import Client, pull_fields
from peer import peer
from reput.formats.wire.codes import RequestCode

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "HELD", "PEER_HEAP")
COUNTED = (
    "One Java client (5.5.0) a round and side, on the same machine; bodies of 128 bytes; both flush asynchronously.",
    "send_1, send_16: synchronous sends from 1 and 16 threads; async: 256 under way; batch: batches of 100.",
    "rate: messages a second; p50, p99: of a send, or from a send to the listener of a consumer that waits (poll).",
    "cpu_us: the broker's processor time a message. That of poll and consume has what comes before them, too.",
    "held_p99_ms: from a send to the answer of the pull that waits for it, of 1,000 pulls that are held at once.",
    "start_s: from the start of the process to the first answer about a route.",
    "rss_mib: memory after the load, mapped files of the store included; anonymous_mib: without them.",
)


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
        for side, done in found.items():
            with tempfile.TemporaryDirectory(prefix="broker-", dir=parent) as folder:
                done.append(measure(side, Path(folder), quick))
            say(f"round {number} of {rounds}: {side}: {json.dumps(done[-1])}")
    about = machine.environment("bench-broker", SETTINGS, rounds)
    report = {
        "environment": about | {name: machine.version(name) for name in ("orjson", "uvloop")},
        "rounds": found,
        "medians": {side: _medians(values) for side, values in found.items()},
    }
    results = Path(os.environ.get("RESULTS_DIR", parent if quick else REPOSITORY / "bench" / "results"))
    results.mkdir(parents=True, exist_ok=True)
    _report(results / "broker-2c", report)
    return 0


def measure(side: str, folder: Path, quick: bool) -> dict[str, Any]:
    """One round of one side, by measurement."""
    seconds = os.environ.get("SECONDS", "1" if quick else "5")
    consumed = os.environ.get("CONSUMED", "20000" if quick else "200000")
    held = int(os.environ.get("HELD", "100" if quick else "1000"))
    with (rocketmq_side if side == "peer" else reput_side)(folder) as (serving, process, start_s):
        make_topics(serving, {**TOPICS, "load-held": held})
        values: dict[str, Any] = {"start_s": start_s}
        words = [*java_words(folder), serving.namesrv, "load-", seconds, consumed]
        for line in measured(serving, process.pid, folder, words):
            name = line.pop("name")
            values |= {f"{name}_{key}": value for key, value in line.items() if value}
        values["held_p99_ms"] = _held_ms(serving, held)
        memory = psutil.Process(process.pid).memory_full_info()
        values |= {"rss_mib": memory.rss >> 20, "anonymous_mib": memory.rss - memory.shared >> 20}
        return values


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


def _ratios(medians: dict[str, dict[str, float]]) -> dict[str, float]:
    theirs, ours = medians["peer"], medians["reput"]
    names = {"send": "send_16_rate", "send_batch": "batch_rate", "consume": "consume_rate", "p99": "send_16_p99_us"}
    ratios = {short: ours[name] / theirs[name] for short, name in names.items()}
    return ratios | {"start_s": ours["start_s"], "rss": ours["rss_mib"] / theirs["rss_mib"]}


def _report(stem: Path, report: dict[str, Any]) -> None:
    """Save JSON and page, and print the medians and their ratios."""
    stem.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    theirs, ours = report["medians"]["peer"], report["medians"]["reput"]
    table = [["", "RocketMQ", "reput", "x"]]
    for name, value in theirs.items():
        table.append([name, f"{value:,}", f"{ours[name]:,}", f"{ours[name] / value:.2f}"])
        say(f"{name:16} peer {value:>12,} reput {ours[name]:>12,}")
    ratios = _ratios(report["medians"])
    title = "RocketMQ's broker and `reput serve`, with the same Java client"
    write_page(stem, title, report["environment"], COUNTED, table, [ratios])
    sys.stdout.write(f"{ratio_line(ratios)}\n")


if __name__ == "__main__":
    sys.exit(main())
