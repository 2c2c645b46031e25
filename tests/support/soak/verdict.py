"""The verdict on a soak: nothing is lost, and what the programs hold does not grow."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.soak.board import QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from support.soak.board import Board
    from support.soak.samples import Sample

_MEMORY_SHARE, _MEMORY_BYTES = 1.10, 24 << 20
_HANDLES, _THREADS = 8, 2
_DISK_SHARE, _DISK_BYTES = 1.15, 64 << 20
_LAG_SHARE, _LAG_BYTES = 1.5, 64 << 20
_FEWEST = 90
"""Samples of a program below which nothing is said of growth."""


class Moment(NamedTuple):
    """A look at one time: each program's sample, the store's bytes on the disk, and those of log without indexes."""

    programs: Mapping[str, Sample]
    disk: int
    lag: int = 0


def lost(board: Board) -> list[str]:
    """Say for each queue that was not read as it was written what differs."""
    found = []
    for queue in range(QUEUES):
        put, read = int(board.put[queue]), int(board.read[queue])
        if put != read:
            found.append(f"queue {queue}: {put:,} messages were stored, {read:,} read")
        elif board.put_sums[queue] != board.read_sums[queue]:
            found.append(f"queue {queue}: the checksums of what was stored and of what was read differ")
    return found


def grown(moments: Sequence[Moment]) -> list[str]:
    """Say what the last third of the moments holds more than the second one. The first third is for warming up."""
    seen = defaultdict(list)
    for moment in moments:
        seen["the store", "bytes on the disk"].append(moment.disk)
        seen["the follower", "bytes of log without indexes"].append(moment.lag)
        for name, sample in moment.programs.items():
            for what, value in zip(("bytes of memory", "handles", "threads"), sample, strict=True):
                seen[name, what].append(value)
    bounds = {
        "bytes of memory": (_MEMORY_SHARE, _MEMORY_BYTES),
        "handles": (1.0, _HANDLES),
        "threads": (1.0, _THREADS),
        "bytes on the disk": (_DISK_SHARE, _DISK_BYTES),
        "bytes of log without indexes": (_LAG_SHARE, _LAG_BYTES),
    }
    found = []
    for (name, what), values in seen.items():
        if len(values) >= _FEWEST:
            before, after = _thirds(values)
            share, more = bounds[what]
            if after > before * share + more:
                found.append(f"{name}: {before:,.0f} {what} in the second third, {after:,.0f} in the last one")
    return found


def _thirds(values: Sequence[int]) -> tuple[float, float]:
    third = len(values) // 3
    return statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])


def growth(moments: Sequence[Moment], name: str) -> str:
    """The memory of a program in the second and in the last third (MiB), its handles and its threads, for a table."""
    samples = [moment.programs[name] for moment in moments if name in moment.programs]
    if len(samples) < _FEWEST:
        return "too few samples"
    columns: Iterable[Sequence[int]] = zip(*samples, strict=True)
    memory, handles, threads = (_thirds(column) for column in columns)
    return (
        f"{memory[0] / 2**20:.0f} to {memory[1] / 2**20:.0f} MiB, {handles[0]:.0f} to {handles[1]:.0f} handles, "
        f"{threads[0]:.0f} to {threads[1]:.0f} threads"
    )
