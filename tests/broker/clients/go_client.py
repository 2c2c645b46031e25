"""Runs RocketMQ's Go client (`go/main.go`) against a broker."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.clients.brokers import make_topics
from peer import peer

if TYPE_CHECKING:
    from broker.clients.brokers import Serving

FOLDER = Path(__file__).parent / "go"
PROGRAM = peer.TARGET_DIR / "go-client"
PREFIX = "vgo-"
TOPICS = {"go": 4, "go-retry": 2}
BUILD_TIMEOUT_S = 600
RUN_TIMEOUT_S = 180


@functools.cache
def unavailable() -> str | None:
    """Why the client cannot run here, or None once it is built and can."""
    if shutil.which("go") is None:
        return "the Go client needs Go: no go on the PATH"
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            ("go", "build", "-o", str(PROGRAM), "."),
            cwd=FOLDER,
            capture_output=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the Go client is not built within {BUILD_TIMEOUT_S} s"
    return None if done.returncode == 0 else f"the Go client cannot be built: {done.stderr.decode(errors='replace')}"


def run(serving: Serving) -> dict[str, Any]:
    """Return what the client saw.

    Raises:
        PeerError: it failed.
    """
    make_topics(serving, {f"{PREFIX}{topic}": queues for topic, queues in TOPICS.items()})
    words = (str(PROGRAM), serving.namesrv, PREFIX)
    done = subprocess.run(words, capture_output=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise peer.PeerError(f"the Go client of {serving.name} failed: {done.stderr.decode(errors='replace')}")
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome
