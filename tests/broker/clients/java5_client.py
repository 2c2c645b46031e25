"""Runs RocketMQ's Java client of version 5 (`reput.clients5.Scenario`) against a gRPC port."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from broker.clients.brokers import SETTINGS, make_group, make_topics
from broker.clients.run import java_words
from peer import peer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from broker.clients.brokers import Serving

PROGRAM = "client5"
TOPICS = {
    "normal": "NORMAL",
    "refused": "NORMAL",
    "fifo": "FIFO",
    "delay": "DELAY",
    "recall": "DELAY",
    "transaction": "TRANSACTION",
    "leases": "NORMAL",
    "dead": "NORMAL",
    "push": "NORMAL",
    "ordered": "FIFO",
    "killed": "NORMAL",
    "lite": "LITE",
    "exclusive": "LITE",
}
"""The topics of the scenarios, which have their names, with their types of messages."""
SCENARIO_SETTINGS = {**SETTINGS, "recallMessageEnable": "true", "enableLmq": "true", "enableMultiDispatch": "true"}
SEEN: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "normal": lambda outcome: [len(outcome[name]) for name in ("even", "high", "all", "then")] == [6, 4, 13, 0],
    "refused": lambda outcome: outcome["no such topic"] == "NotFoundException",
    "fifo": lambda outcome: outcome["g1"] == ["g1-1", "g1-4", "g1-7", "g1-10"],
    "delay": lambda outcome: len(outcome["got"]) == 1 and not outcome["too early"],
    "recall": lambda outcome: len(outcome["got"]) == 1 and outcome["same id"],
    "transaction": lambda outcome: len(outcome["got"]) == 2,
    "leases": lambda outcome: len(outcome["got"]) == 4 and not outcome["came early"],
    "dead": lambda outcome: len(outcome["got"]) == 2 and not outcome["then"],
    "push": lambda outcome: outcome["done"] and len(outcome["got"]) == 32,
    "ordered": lambda outcome: outcome["done"] and len(outcome["got"]) == 9,
    "lite": lambda outcome: outcome["done"] and len(outcome["got"]) == 10 and outcome["from the first"],
    "exclusive": lambda outcome: outcome["gets notice"] and outcome["second"] == ["after", "before"],
    "killed": lambda outcome: outcome["all hang"] and [one[-1] for one in outcome["taken"]] == ["2"] * 4,
}
"""The scenarios, and what must be so in each: two ports that both do nothing agree, too."""
RUN_TIMEOUT_S = 330
_QUEUES = 2


def run(serving: Serving, home: Path) -> dict[str, Any]:
    """Run all scenarios at the same time; return the line of each. `home`: a folder for the client's logs.

    Raises:
        PeerError: Java failed, or took too long.
    """
    assert serving.grpc is not None
    make_topics(serving, dict.fromkeys(TOPICS, _QUEUES), TOPICS)
    make_group(serving, "ordered-readers", consumeMessageOrderly=True)
    make_group(serving, "dead-readers", retryMaxTimes=1)
    make_group(serving, "lite-readers", attributes={"+lite.bind.topic": "lite"})
    exclusive = {"+lite.sub.model": "Exclusive", "+lite.sub.reset.offset.exclusive": "true"}
    make_group(serving, "exclusive-readers", attributes={"+lite.bind.topic": "exclusive", **exclusive})
    words = [*java_words(PROGRAM, home), *peer.PROGRAMS[PROGRAM].words, serving.grpc, *SEEN]
    try:
        done = subprocess.run(words, capture_output=True, timeout=RUN_TIMEOUT_S, cwd=home, check=False)
    except subprocess.TimeoutExpired as late:
        raise peer.PeerError(f"clients of {serving.name} took more than {RUN_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise peer.PeerError(f"clients of {serving.name} failed: {done.stderr.decode(errors='replace').strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"')]
    return {line["scenario"]: line for line in lines}
