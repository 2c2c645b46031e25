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

import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import asked
import machine
import psutil
import runs
from report import Report, Section, draw_ratios, plot
from served import TOPICS, java_words, load_words, measured, reput_side, rocketmq_side, rounds_of_both

from broker.clients.brokers import Serving, make_topics
from broker.remoting import Client, pull_fields
from reput.formats.wire.codes import RequestCode

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "HELD", "PEER_HEAP")
COUNTED = (
    "One Java client (5.5.0) a round and side, on the same machine; bodies of 128 bytes; both flush asynchronously.",
    "send_1, send_16: synchronous sends from 1 and 16 threads; async: 256 under way; batch: batches of 100.",
    "rate: messages a second; p50, p99: of a send, or from a send to the listener of a consumer that waits (poll).",
    "cpu_us: the broker's processor time a message. That of poll and consume has what comes before them, too.",
    "held_p99_ms: from a send to the answer of the pull that waits for it, of 1,000 pulls that are held at once.",
    "RocketMQ's heap has its pages from the start, as its start script has it; start_s and memory are those of another",
    "    run of the same load, with a heap that grows.",
    "start_s: from the start of the process to the first answer about a route.",
    "rss_mib: memory after the load, mapped files of the store included; anonymous_mib: without them.",
    "x: how far reput is ahead. The line of ratios has p99 and rss as reput's over RocketMQ's, start_s as reput's.",
)


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer("broker", "client"):
        return 2
    rounds, lines = rounds_of_both("broker", measure)
    about = machine.environment("bench-broker", SETTINGS, rounds)
    about |= {name: machine.version(name) for name in ("orjson", "uvloop")}
    title = "RocketMQ's broker and `reput serve`, with the same Java client"
    table = [Section.of(lines.values())]
    Report("broker", title, about, COUNTED, lines, table, [ratios(lines)], draw=partial(_draw, lines=lines)).publish()
    return 0


def measure(side: str, folder: Path) -> dict[str, Any]:
    """One round of one side, by measurement."""
    folder.mkdir()
    values = _loaded(side, folder / "rates")
    if side == "peer":
        # Its start script gives it a heap whose pages are there from the start. Memory is that of a heap that grows.
        grown = _loaded(side, folder / "memory", has_pages=False)
        values |= {name: grown[name] for name in ("start_s", "rss_mib", "anonymous_mib")}
    return values


def _loaded(side: str, folder: Path, *, has_pages: bool = True) -> dict[str, Any]:
    folder.mkdir()
    held = round(asked.amount("HELD", 1000, 100))
    started = rocketmq_side(folder, has_pages=has_pages) if side == "peer" else reput_side(folder)
    with started as (serving, process, start_s):
        make_topics(serving, {**TOPICS, "load-held": held})
        values: dict[str, Any] = {"start_s": start_s}
        words = [*java_words(folder), *load_words(serving)]
        for line in measured(serving, [process.pid], folder, words):
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


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """The ratios of the last line of output, as COUNTED defines them."""
    names = {"send": "send_16_rate", "send_batch": "batch_rate", "consume": "consume_rate"}
    found = {short: lines[name].ratio for short, name in names.items()}
    p99, rss = 1 / lines["send_16_p99_us"].ratio, 1 / lines["rss_mib"].ratio
    return found | {"p99": p99, "start_s": lines["start_s"].median, "rss": rss}


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, size=(9, 6)) as (axes,):
        draw_ratios(axes, lines)


if __name__ == "__main__":
    sys.exit(main())
