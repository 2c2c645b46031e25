"""Serve RocketMQ's Java client of version 5 by gRPC with RocketMQ's proxy and broker and with `reput serve`, in turn.

One client process for each side and round sends from 1 and 16 threads and without waits, gets single messages that it
waits for, and takes and acknowledges what is there, by a push consumer and by a simple one. Bodies have 128 bytes. Both
flush asynchronously. RocketMQ's proxy is a process of its own before its broker; `reput serve` is one process.

Environment:
    QUICK         1: short: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    SECONDS       seconds of each way to send; default 5
    CONSUMED      messages that each consumer takes; default 20000
    PEER_HEAP     the JVM heap of RocketMQ's broker; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output has our rates by RocketMQ's, and our 99th percentile of a send from 16 threads by theirs.
"""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import asked
import machine
import psutil
import runs
from report import Report, Section, draw_ratios, plot
from served import java_words, measured, reput_side, rocketmq_side, rounds_of_both

from broker.clients.brokers import Serving, listens, make_topics, proxied
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lines import Line

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "PEER_HEAP")
TOPICS = {"load-send": 8, "load-poll": 2, "load-consume": 8, "load-receive": 8}
PROXY_JVM = ("-Xms1g", "-Xmx1g")
COUNTED = (
    "One Java client (rocketmq-client-java 5.2.0) a round and side, on the same machine; bodies of 128 bytes; no TLS.",
    "send_1, send_16: synchronous sends from 1 and 16 threads; async: 256 under way.",
    "consume: a push consumer; receive: a simple one with 16 threads, 32 messages a call. Both acknowledge each one.",
    "rate: messages a second; p50, p99: of a send, or from a send to a push consumer that waits (poll).",
    "cpu_us: processor time a message of broker and proxy. That of poll and consumers has what comes before them, too.",
    "RocketMQ's heaps grow with the load; with all their pages from the start its rates may be higher.",
    "rss_mib: memory after the load, mapped files of the store included, of broker and proxy together.",
    "x: how far reput is ahead. The line of ratios has p99 and rss as reput's over RocketMQ's.",
)


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer("broker", "proxy", "client5"):
        return 2
    rounds, lines = rounds_of_both("grpc", measure)
    about = machine.environment("bench-grpc", SETTINGS, rounds)
    about |= {name: machine.version(name) for name in ("grpcio", "protobuf", "uvloop")}
    title = "RocketMQ's proxy and `reput serve` by gRPC, with the same Java client"
    table = [Section.of(lines.values())]
    Report("grpc", title, about, COUNTED, lines, table, [ratios(lines)], draw=partial(_draw, lines=lines)).publish()
    return 0


@contextlib.contextmanager
def served(side: str, folder: Path) -> Iterator[tuple[Serving, list[int]]]:
    """A gRPC port on a store below `folder`, and the processes that serve it."""
    if side == "reput":
        with reput_side(folder, has_grpc=True) as (serving, process, _):
            yield serving, [process.pid]
    else:
        with (
            rocketmq_side(folder, has_pages=False) as (broker, process, _),
            proxied(broker, folder / "proxy", PROXY_JVM) as proxy,
        ):
            yield proxy[0], [process.pid, proxy[1].pid]


def measure(side: str, folder: Path) -> dict[str, Any]:
    """One round of one side, by measurement."""
    folder.mkdir()
    seconds, consumed = asked.amount("SECONDS", 5, 1), asked.amount("CONSUMED", 20_000, 1000)
    with served(side, folder) as (serving, processes):
        assert serving.grpc is not None
        port = int(serving.grpc.rpartition(":")[2])
        wait_until(lambda: listens(port))
        make_topics(serving, TOPICS)
        words = [
            *java_words(folder, "client5", "reput.clients5.Load"),
            serving.grpc,
            f"{seconds:.0f}",
            f"{consumed:.0f}",
        ]
        values: dict[str, Any] = {}
        for line in measured(serving, processes, folder, words):
            name = line.pop("name")
            values |= {f"{name}_{key}": value for key, value in line.items() if value and name != "warm-up"}
        return values | {"rss_mib": sum(psutil.Process(one).memory_info().rss for one in processes) >> 20}


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """The ratios of the last line of output, as COUNTED defines them."""
    names = ("send_1", "send_16", "async", "consume", "receive")
    found = {name: lines[f"{name}_rate"].ratio for name in names}
    return found | {"p99": 1 / lines["send_16_p99_us"].ratio, "rss": 1 / lines["rss_mib"].ratio}


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, size=(9, 6)) as (axes,):
        draw_ratios(axes, lines)


if __name__ == "__main__":
    sys.exit(main())
