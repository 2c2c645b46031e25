"""grow, long ranges: decoded once into parts, proved, and placed while the next range is decoded.

A write in place cannot be taken back, so the first stage leaves its parts in a folder of the range: queue entries,
queue ranges, index items. When the driver has proved that the splits join, tasks of the second stage write the entries
to their places and chain the items, one IndexFile for each task. Chaining takes longest and uses one core for each
file, so the first stage of the next range shares the job. It begins at this range's end, which is proved by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.queue.queue_types import QueueTypes
from reput.pipeline.build.index.plan import IndexFilePlan, IndexFileResult
from reput.pipeline.build.index.write import build_index_file
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split
from reput.pipeline.split.sink import place_entries
from reput.pipeline.split.tasks import decode_and_sink
from reput.queue.runs import EntryRun

_PLACED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class DecodedRange:
    """Splits from log offset `begin` up to `end`, decoded into the staging folder `folder`, and not proved yet.

    `types`: the queue types that were known then.
    """

    begin: int
    end: int
    folder: str
    types: QueueTypes
    splits: tuple[Split, ...]
    results: tuple[SplitResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvedRange:
    """Splits that all begin at true boundaries, and their results; splits without a record are left out.

    `end`: the log offset after the last record. `stopped`: the bytes there are no record.
    """

    splits: tuple[Split, ...]
    results: tuple[SplitResult, ...]
    end: int
    stopped: bool


class Placement(NamedTuple):
    """Splits whose entries one task writes to their places."""

    splits: tuple[int, ...]


class PlacedQueues(NamedTuple):
    """Queues that were left alone: their entries would overwrite entries of records below the frontier."""

    refused: tuple[QueueKey, ...]


Work = Split | IndexFilePlan | Placement
Outcome = SplitResult | IndexFileResult | PlacedQueues


def range_task(placing: Job, decoding: Job, work: Work) -> Outcome:
    """Run a task of either stage: of the range that is placed, or of the next range, which is decoded."""
    if isinstance(work, Split):
        return decode_and_sink(decoding, work)
    if isinstance(work, IndexFilePlan):
        return build_index_file(placing, work)
    return PlacedQueues(tuple(key for number in work.splits for key in place_split(placing, number)))


def place_split(job: Job, number: int) -> list[QueueKey]:
    """Write the entries that a split left to their places; queues out of order are left to be reordered.

    Returns the queues that were left alone, because they would have overwritten entries of records below the frontier.
    """
    left, entries = parts.load_ranges(job, number), parts.load_entries(job, number)
    counts = left.entries.tolist()
    runs = (
        (key, EntryRun(first, entries.data[(end - count) * ENTRY_SIZE : end * ENTRY_SIZE]))
        for key, first, count, end, steady in zip(
            left.keys, left.first.tolist(), counts, accumulate(counts), left.steady.tolist(), strict=True
        )
        if steady
    )
    with job.writing():
        return place_entries(job, runs)


def placements(results: Sequence[SplitResult]) -> list[Placement]:
    """Return tasks that place the parts of these splits, a few each: one takes less time than the start of a task."""
    numbers = [result.number for result in results]
    return [Placement(tuple(numbers[at : at + _PLACED_AT_ONCE])) for at in range(0, len(numbers), _PLACED_AT_ONCE)]
