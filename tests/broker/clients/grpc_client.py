"""Runs RocketMQ's Python client, which speaks gRPC (`grpc_program.py`), against a broker."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer import peer

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def environment() -> dict[str, str]:
    """The variables of a process that runs the program."""
    return {**os.environ, "PYTHONPATH": str(FOLDER)}


@contextlib.contextmanager
def running(address: str, *words: str, trusts: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The program at the gRPC port at `host:port`, in a process of its own; it is killed in the end.

    Args:
        address: the port.
        words: what it does, if not all.
        trusts: the file of the certificate that it trusts.
    """
    pipe = subprocess.PIPE
    command = (sys.executable, "-P", str(PROGRAM), address, *words)
    variables = environment()
    if trusts is not None:
        variables["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(trusts)
    with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def seen_by(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Let the program go on, and return what it saw at its end.

    Raises:
        PeerError: it failed.
    """
    out, errors = process.communicate(b"\n", RUN_TIMEOUT_S)
    if process.returncode != 0:
        raise peer.PeerError(f"RocketMQ's Python client failed: {errors.decode(errors='replace')}")
    outcome: dict[str, Any] = json.loads(out.splitlines()[-1])
    return outcome
