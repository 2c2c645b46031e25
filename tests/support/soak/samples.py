"""Samples of what the programs of a soak hold: memory, handles and threads; and of the store's bytes on the disk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """The memory of a process that no file backs (bytes), its open handles, its threads."""

    memory: int
    handles: int
    threads: int


def sample(pid: int) -> Sample | None:
    """Look at a process; None if it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        handles = len(list((process / "fd").iterdir()))
    except OSError:
        return None
    if "RssAnon" not in status:  # it has ended, and nobody has asked how
        return None
    kib = int(status["RssAnon"].split()[0]) + int(status["VmSwap"].split()[0])
    return Sample(kib << 10, handles, int(status["Threads"]))


def disk_bytes(folder: Path) -> int:
    """The bytes that the files below a folder take on the disk."""
    total = 0
    for path in folder.rglob("*"):
        # The writer may delete it meanwhile.
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total
