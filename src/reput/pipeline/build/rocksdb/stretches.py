"""Stretches of queues, in the order of RocksDB's keys: one task builds the tables of a stretch, or compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.build.rocksdb.tables import TableQueues
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.parts import key_order
from reput.pipeline.split.rocksdb_parts import PartRange

_LEAST_ENTRIES, _MOST_ENTRIES = 1 << 17, 1 << 21
_STRETCHES = 16
_MOST_QUEUES = 50_000


def plan_stretches(
    job: Job, results: Sequence[SplitResult], table: SplitQueues, ends: Mapping[QueueKey, int] | None = None
) -> list[TableQueues]:
    """Cut the queues, in the order of their keys, into stretches with about the same number of entries.

    `ends`: the queue offsets at which queues that have entries continue.
    """
    if not table.keys:
        return []
    ordered = sorted(range(len(table.keys)), key=lambda row: key_order(table.keys[row]))
    rank = np.empty(len(ordered), dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    firsts = _cuts(table.count[ordered])
    out_of_order: list[set[QueueKey]] = [set() for _ in firsts]
    for key in table.out_of_order():
        out_of_order[int(np.searchsorted(firsts, rank[table.rows[key]], side="right")) - 1].add(key)
    ranges: list[list[PartRange]] = [[] for _ in firsts]
    for result in results:
        if not result.records:
            continue
        left = parts.load_ranges(job, result.number)
        ranks = rank[[table.rows[key] for key in left.keys]] if left.keys else np.empty(0, dtype=np.int64)
        rows = [*np.searchsorted(ranks, firsts).tolist(), len(ranks)]
        before = [0, *np.cumsum(left.entries).tolist()]
        for number, (begin, end) in enumerate(pairwise(rows)):
            if begin < end:
                ranges[number].append(PartRange(result.number, begin, end, before[begin]))
    return [
        TableQueues(
            number,
            tuple(found),
            frozenset(out_of_order[number]),
            {key: ends[key] for key in out_of_order[number] if ends.get(key)} if ends else {},
        )
        for number, found in enumerate(ranges)
        if found
    ]


def all_in_one(job: Job, results: Sequence[SplitResult]) -> list[PartRange]:
    """Return all queues of the splits as one stretch."""
    ranges = []
    for result in results:
        if result.records:
            left = parts.load_ranges(job, result.number)
            if left.keys:
                ranges.append(PartRange(result.number, 0, len(left.keys), 0))
    return ranges


def _cuts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first queue of each stretch, for queues with these numbers of entries."""
    before = np.cumsum(counts) - counts
    each = min(max(int(counts.sum()) // _STRETCHES, _LEAST_ENTRIES), _MOST_ENTRIES)
    stretch = before // each + np.arange(len(counts)) // _MOST_QUEUES
    return np.flatnonzero(np.diff(stretch, prepend=-1))
