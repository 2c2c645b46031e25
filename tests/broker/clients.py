"""Runs RocketMQ's Java client against a broker: the program `client` of `peer`, which Maven builds once."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from peer import peer

if TYPE_CHECKING:
    from pathlib import Path

RUN_TIMEOUT_S = 180


def run(scenario: str, address: str, topic: str, count: int, *further: str, logs: Path) -> Any:
    """Run a scenario of `Scenario.java` and return what it saw.

    Raises:
        PeerError: it failed, or took too long; the text has what it wrote on stderr.
    """
    program = peer.PROGRAMS["client"]
    words = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Drocketmq.client.logRoot={logs}"]
    words += ["-cp", program.classpath, *program.words, scenario, address, topic, str(count), *further]
    try:
        done = subprocess.run(words, capture_output=True, timeout=RUN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise peer.PeerError(f"{scenario} took more than {RUN_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise peer.PeerError(f"{scenario} failed: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)
