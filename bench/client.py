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

The last lines of the output have our rates by the Java client's, with each broker.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
from machine import say
from page import ratio_line, write_page
from served import TOPICS, java_words, measured, reput_side, rocketmq_side
from workload import REPOSITORY

from broker.clients.brokers import make_topics
from peer import peer

SETTINGS = ("QUICK", "SECONDS", "CONSUMED", "PEER_HEAP")
SIDES = {"RocketMQ": rocketmq_side, "reput serve": reput_side}
CLIENTS = ("Java", "Python")
COUNTED = (
    "Each client (Java 5.5.0; reput) is one process, on the broker's machine; bodies of 128 bytes; async flush.",
    "send_1, send_16: synchronous sends from 1 and 16 threads; async: 256 under way; batch: batches of 100.",
    "rate: messages a second; p50, p99: of a send, or from a send to the consumer that waits (poll).",
    "The first sends of each client are a warm-up and are not counted.",
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
    found: dict[str, list[dict[str, Any]]] = {f"{client}, {side}": [] for side in SIDES for client in CLIENTS}
    for number in range(1, rounds + 1):
        for side in SIDES:
            for client in CLIENTS:
                with tempfile.TemporaryDirectory(prefix="client-", dir=parent) as folder:
                    found[f"{client}, {side}"].append(measure(side, client, Path(folder), quick))
                say(f"round {number} of {rounds}: {client}, {side}: {json.dumps(found[f'{client}, {side}'][-1])}")
    medians = {
        name: {key: statistics.median(one[key] for one in done) for key in done[0]} for name, done in found.items()
    }
    report = {"environment": machine.environment("bench-client", SETTINGS, rounds), "rounds": found, "medians": medians}
    results = Path(os.environ.get("RESULTS_DIR", parent if quick else REPOSITORY / "bench" / "results"))
    results.mkdir(parents=True, exist_ok=True)
    _report(results / "client-2c", report)
    return 0


def measure(side: str, client: str, folder: Path, quick: bool) -> dict[str, Any]:
    """One round of one client with one broker, by measurement."""
    seconds = os.environ.get("SECONDS", "1" if quick else "5")
    consumed = os.environ.get("CONSUMED", "20000" if quick else "200000")
    with SIDES[side](folder) as (serving, process, _):
        make_topics(serving, TOPICS)
        own = [sys.executable, str(Path(__file__).with_name("client_side.py"))]
        words = [*(java_words(folder) if client == "Java" else own), serving.namesrv, "load-", seconds, consumed]
        return {
            f"{line['name']}_{key}": value
            for line in measured(serving, process.pid, folder, words)
            for key, value in line.items()
            if line["name"] != "warm-up" and key not in {"name", "cpu_us"} and value
        }


def _report(stem: Path, report: dict[str, Any]) -> None:
    """Save JSON and page, and print the medians and their ratios."""
    stem.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    medians = report["medians"]
    table = [["", *medians]]
    table += [[name, *(f"{done[name]:,}" for done in medians.values())] for name in next(iter(medians.values()))]
    for row in table:
        say("  ".join(f"{cell:>20}" for cell in row))
    ratios = []
    for side in SIDES:
        theirs, ours = medians[f"Java, {side}"], medians[f"Python, {side}"]
        ratios.append(
            {name.removesuffix("_rate"): ours[name] / theirs[name] for name in ours if name.endswith("_rate")}
        )
        sys.stdout.write(f"{side}: {ratio_line(ratios[-1])}\n")
    title = "RocketMQ's Java client and `reput.Producer` and `reput.Consumer`, with both brokers"
    write_page(stem, title, report["environment"], COUNTED, table, ratios)


if __name__ == "__main__":
    sys.exit(main())
