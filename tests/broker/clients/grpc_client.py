"""Runs RocketMQ's Python client, which speaks gRPC (`grpc_program.py`), against a broker."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from peer import peer

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "grpc_program.py"
VERSION = "5.1.2"
FOLDER = ROOT / ".cache" / f"python-client-{VERSION}"
INSTALL_TIMEOUT_S = 600
RUN_TIMEOUT_S = 240


@functools.cache
def unavailable() -> str | None:
    """Why the client cannot run here, or None once it is installed, in a folder of its own, and can."""
    done = FOLDER / "done"
    if done.exists():
        return None
    words = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        str(FOLDER),
        "--upgrade",
        "-c",
        str(ROOT / "constraints.txt"),
    )
    try:
        ran = subprocess.run(
            (*words, f"rocketmq-python-client=={VERSION}"),
            capture_output=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"rocketmq-python-client is not installed within {INSTALL_TIMEOUT_S} s"
    if ran.returncode != 0:
        return f"rocketmq-python-client {VERSION} cannot be installed: {ran.stderr.decode(errors='replace')}"
    done.touch()
    return None


def run(address: str) -> dict[str, Any]:
    """Return what the client saw of the gRPC port at `host:port`.

    Raises:
        PeerError: it failed.
    """
    ran = subprocess.run(
        (sys.executable, "-P", str(PROGRAM), address),
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0:
        raise peer.PeerError(f"RocketMQ's Python client failed: {ran.stderr.decode(errors='replace')}")
    outcome: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return outcome
