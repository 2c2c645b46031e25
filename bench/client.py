"""Measure `reput.Producer` and `reput.Consumer` beside RocketMQ's Java client, with both brokers, on one machine.

Each round runs both clients, each in a process of its own, with RocketMQ's broker and with `reput serve`, in turn. A
client sends from 1 and 16 threads, without waits (256 under way) and in batches of 100, waits for single messages by
long polling, and consumes what the batches sent. Bodies have 128 bytes. Both brokers flush asynchronously.

Environment:
    QUICK         1: short: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    SECONDS       seconds of each way to send; default 5
    CONSUMED      messages that are consumed; default 200000
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last lines of the output have our rates by the Java client's: with RocketMQ's broker, then with `reput serve`.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import asked
import machine
import runs
from lines import Line, keep
from machine import say
from report import Report, Section, draw_ratios, plot
from served import TOPICS, java_words, load_words, measured, reput_side, rocketmq_side

from broker.clients.brokers import make_topics

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "PEER_HEAP")
SIDES = {"RocketMQ": rocketmq_side, "reput serve": reput_side}
CLIENTS = ("Java", "Python")
COUNTED = (
    "Each client (Java 5.5.0; reput) is one process, on the broker's machine; bodies of 128 bytes; async flush.",
    "send_1, send_16: synchronous sends from 1 and 16 threads; async: 256 under way; batch: batches of 100.",
    "rate: messages a second; p50, p99: of a send, or from a send to the consumer that waits (poll).",
    "The first sends of each client are a warm-up and are not counted.",
    "RocketMQ: its Java client. reput: its client in Python. x: how far reput's client is ahead.",
)


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer("broker", "client"):
        return 2
    rounds = asked.rounds()
    lines: dict[str, dict[str, Line]] = {side: {} for side in SIDES}
    with asked.work_folder("client") as work:
        for number in range(1, rounds + 1):
            for side in SIDES:
                for client in CLIENTS:
                    folder = work / f"{number}-{client}-{side}".replace(" ", "-")
                    values = measure(side, client, folder)
                    keep(lines[side], values, is_peer=client == "Java")
                    say(f"round {number} of {rounds}: {client}, {side}: {json.dumps(values)}")
    about = machine.environment("bench-client", SETTINGS, rounds)
    flat = {f"{side}: {name}": line for side, found in lines.items() for name, line in found.items()}
    tables = [Section.of(found.values(), f"With {side}") for side, found in lines.items()]
    title = "RocketMQ's Java client and `reput.Producer` and `reput.Consumer`, with both brokers"
    ratios = [
        {name.removesuffix("_rate"): line.ratio for name, line in found.items() if name.endswith("_rate")}
        for found in lines.values()
    ]
    Report("client", title, about, COUNTED, flat, tables, ratios, draw=partial(_draw, lines=flat)).publish()
    return 0


def measure(side: str, client: str, folder: Path) -> dict[str, float]:
    """One round of one client with one broker, by measurement."""
    folder.mkdir()
    with SIDES[side](folder) as (serving, process, _):
        make_topics(serving, TOPICS)
        own = [sys.executable, str(Path(__file__).with_name("client_side.py"))]
        words = [*(java_words(folder) if client == "Java" else own), *load_words(serving)]
        return {
            f"{line['name']}_{key}": value
            for line in measured(serving, [process.pid], folder, words)
            for key, value in line.items()
            if line["name"] != "warm-up" and key not in {"name", "cpu_us"} and value
        }


def _draw(path: Path, lines: dict[str, Line]) -> None:
    with plot(path, size=(9, 8)) as (axes,):
        draw_ratios(axes, lines, "reput's client over RocketMQ's Java client")


if __name__ == "__main__":
    sys.exit(main())
