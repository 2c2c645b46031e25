"""The machine and the versions that a benchmark ran with, without the name of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from workload import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable


def environment(target: str, settings: Iterable[str], rounds: int) -> dict[str, Any]:
    """Versions, the machine's size, and the command: make's target with those of the settings that were given."""
    given = [f'{name}="{os.environ[name]}"' for name in settings if name in os.environ]
    return {
        "command": " ".join([f"make {target}", *given, f"ROUNDS={rounds}"]),
        "begun": BEGUN,
        "cores": cores(),
        "processor": processor(),
        "kernel": platform.release(),
        "file_system": file_system(Path(os.environ.get("BENCH_DIR", REPOSITORY))),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "peer_heap": peer_heap(),
        "rocketmq": rocketmq("pom.xml"),
        "rocketmq_broker": rocketmq("pom-broker.xml"),
        "java": java_version(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("reput", "pyspark", "numba", "numpy", "pyarrow")},
        "commit": COMMIT,
    }


def peer_heap() -> str:
    """PEER_HEAP; else 6 GiB as the design's numbers have it, or half the memory where that is less."""
    default = f"{min(6 * 1024, psutil.virtual_memory().total // 2 // 2**20)}m"
    return os.environ.get("PEER_HEAP", default)


def processor() -> str:
    """Return the model of the processor; "unknown" where the system does not say it."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def file_system(path: Path) -> str:
    """Return the type of the file system that has a path."""
    places = [one for one in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(one.mountpoint)]
    return max(places, key=lambda one: len(one.mountpoint)).fstype


def rocketmq(pom: str) -> str:
    """Return the version of RocketMQ that a Maven project of the peer names."""
    found = re.search("<rocketmq.version>(.*)</", (REPOSITORY / "tests" / "peer" / "java" / pom).read_text("utf-8"))
    assert found is not None, pom
    return found[1]


def java_version() -> str:
    """Return the name and version of Java, in one line."""
    banner = subprocess.run(("java", "-version"), capture_output=True, text=True, check=False).stderr
    return banner.splitlines()[0] if banner else "unknown"


def version(package: str) -> str:
    """The installed version of a package, or "not installed" (reput run from its sources)."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """The commit that is measured, where this is a checkout with git at hand; "+" after it: the source has changes."""
    try:
        found = _git("rev-parse", "--short", "HEAD")
        return found + "+" * bool(_git("status", "--porcelain", "--", "src", "bench/*.py")) if found else "unknown"
    except FileNotFoundError:
        return "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(("git", "-C", str(REPOSITORY), *words), capture_output=True, text=True, check=False)
    return done.stdout.strip()


BEGUN, COMMIT = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", commit()
"""Of the moment in which the benchmark began: a commit that is made meanwhile is not the one that it measures."""


def cores() -> int:
    """The number of cores that a benchmark may use."""
    return len(os.sched_getaffinity(0))


def limits() -> dict[str, int]:
    """The system's limits that decide how many files a process may hold open and map."""
    mapped = int(Path("/proc/sys/vm/max_map_count").read_text())
    return {"open_files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "mapped_files_max": mapped}


def say(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)
