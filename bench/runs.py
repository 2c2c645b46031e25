"""One run of each thing compared: the peer, reput as a fresh process, reput warm; and reput's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from machine import say
from workload import REPOSITORY, Workload

from peer import peer

SAMPLE_INTERVAL_S = 0.1
RUN_TIMEOUT_S = 7200


class RunError(Exception):
    """A run failed; the text holds its standard error."""


def lacks_peer(*programs: str) -> bool:
    """Print why a program of the peer cannot run here, by default that of the store; False if all can."""
    reasons = map(peer.available, programs or ("store",))
    reason = next((reason for reason in reasons if reason is not None), None)
    if reason is not None:
        say(reason)
    return reason is not None


def peer_rebuild(workload: Workload, heap: str) -> dict[str, Any]:
    """The peer's report: `seconds_total_with_sync` runs from the start of load until all is synced."""
    workload.reset()
    report: dict[str, Any] = peer.run("rebuild", workload.store, heap=heap, timeout_s=RUN_TIMEOUT_S)
    return report


def end_to_end_seconds(workload: Workload, *options: str) -> float:
    """Wall clock of `python -m reput rebuild`: the start of Python included, and that of what it starts."""
    workload.reset()
    begin = time.perf_counter()
    _finish(*_start([*_rebuild_command(workload.store), *options]))
    return time.perf_counter() - begin


def warm_seconds(workload: Workload, warm_up: Workload) -> float:
    """Seconds of `reput.rebuild(store, spark=session)` in a session that has rebuilt a small store before."""
    warm_up.reset()
    workload.reset()
    script = str(Path(__file__).with_name("warm_rebuild.py"))
    output = _finish(*_start([sys.executable, script, str(workload.store), str(warm_up.store)]))
    return float(json.loads(output.splitlines()[-1])["seconds"])


def peak_pss_bytes(workload: Workload) -> int:
    """The most memory that a fresh `reput rebuild` and its children held at once: PSS, sampled."""
    workload.reset()
    command, process = _start(_rebuild_command(workload.store))
    peak = 0
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_INTERVAL_S):
            peak = max(peak, tree_pss_bytes(process.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        _finish(command, process)
    finally:
        done.set()
        sampler.join()
    return peak


def check_is_sound(store: Path) -> bool:
    """Return True if `reput check` finds that a store's indexes agree with its log."""
    _, process = _start([sys.executable, "-m", "reput", "check", str(store), "--json", "--quiet"])
    output, _ = process.communicate(timeout=RUN_TIMEOUT_S)
    return process.returncode == 0 and bool(json.loads(output.splitlines()[-1])["sound"])


def tree_pss_bytes(pid: int) -> int:
    """PSS of a process and all its descendants: memory that several share counts once, divided among them."""
    return sum(pss_by_role(pid).values())


def pss_by_role(pid: int) -> dict[str, int]:
    """PSS of a process ("driver"), of the Java below it ("java") and of all others below it ("workers")."""
    found = {"driver": 0, "java": 0, "workers": 0}
    try:
        root = psutil.Process(pid)
        below = root.children(recursive=True)
    except psutil.NoSuchProcess:
        return found
    found["driver"] = _pss_bytes(pid)
    for process in below:
        found["java" if _is_java(process) else "workers"] += _pss_bytes(process.pid)
    return found


def _is_java(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "java")
    except psutil.NoSuchProcess:
        return False


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0  # it has ended
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def start_side(script: str, command: str, *words: Any, stdin: int | None = None) -> subprocess.Popen[str]:
    """A process of reput's side of a benchmark: a script beside this one."""
    path = Path(__file__).with_name(script)
    return _start([sys.executable, str(path), command, *map(str, words)], stdin)[1]


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the last line that such a process printed, decoded.

    Raises:
        RunError: it failed.
    """
    output = _finish([str(word) for word in process.args], process)  # type: ignore[union-attr]
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def _rebuild_command(store: Path) -> list[str]:
    return [sys.executable, "-m", "reput", "rebuild", str(store), "--json"]


def _start(command: list[str], stdin: int | None = None) -> tuple[list[str], subprocess.Popen[str]]:
    environment = side_environment()
    pipe = subprocess.PIPE
    return command, subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, text=True, env=environment)


def side_environment() -> dict[str, str]:
    """The environment of a process that runs reput."""
    paths = [str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        "PYSPARK_PYTHON": sys.executable,  # Spark's own default is whatever python3 is on the PATH
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def _finish(command: list[str], process: subprocess.Popen[str]) -> str:
    try:
        output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    except BaseException:
        process.kill()
        raise
    if process.returncode != 0:
        raise RunError(f"{' '.join(command)} gave status {process.returncode}: {errors.strip()}")
    return output
