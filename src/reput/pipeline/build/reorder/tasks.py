"""reorder: queues whose offsets are out of order in the log are built again in log order (`queue_builder`).

There are two stages: tasks take the entries of these queues out of each split, then tasks build the queues from them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import group_by_queue
from reput.files import fs
from reput.files.part_file import Part, part_path, write_part
from reput.formats.own.part_file import PartKind
from reput.formats.queue.consume_queue import BLANKS_AT_ONCE, ENTRY_SIZE, PRE_BLANK, QueueKey
from reput.pipeline.build.reorder.queue_builder import QueueOutcome, build_queue
from reput.pipeline.split.decode import decode_split
from reput.pipeline.split.job import Job
from reput.pipeline.split.plan import Split
from reput.pipeline.split.sink import finish_folders, queue_path, write_entries
from reput.pipeline.split.tasks import columns_for
from reput.queue.runs import EntryRun, runs_of

EXTRACTS = PartKind(
    "extracts",
    {"queue": "i8", "start": "i8", "entries": "i8"},
    {"queue_offset": "i8", "entry": f"V{ENTRY_SIZE}"},
)
"""A split's entries of out-of-order queues. Each row has the place of one queue's entries; queues ascend."""


class Extract(NamedTuple):
    """The place of a split's entries of one out-of-order queue in its part: from entry `start`, `entries` of them."""

    split: int
    start: int
    entries: int


def extract(job: Job, split: Split, keys: Sequence[QueueKey]) -> int:
    """Take the entries of these queues out of a split, each queue's in log order; returns the number of queues."""
    decoded = decode_split(split, job.decode, columns_for(split))
    batch = group_by_queue(decoded.columns, job.types, job.deleted)
    numbers = {key: number for number, key in enumerate(keys)}
    rows = sorted((numbers[key], row) for row, key in batch.queues() if key in numbers)
    offsets = batch.queue_offsets()
    if rows:
        with job.writing():
            save_extracts(
                job,
                split.number,
                [number for number, _ in rows],
                [offsets[batch.start[row] : batch.start[row + 1]] for _, row in rows],
                np.concatenate([batch.entries_of(row) for _, row in rows]),
            )
    return len(rows)


def save_extracts(
    job: Job, split: int, queues: Sequence[int], offsets: Sequence[NDArray[np.int64]], entries: NDArray[np.uint8]
) -> None:
    """Leave a split's entries of the out-of-order queues with these numbers; `offsets` has an array for each queue."""
    counts = np.array(list(map(len, offsets)), dtype=np.int64)
    write_part(
        part_path(job.parts_folder, EXTRACTS, split),
        EXTRACTS,
        queue=np.array(queues, dtype=np.int64),
        start=np.cumsum(counts) - counts,
        entries=counts,
        queue_offset=np.concatenate(offsets),
        entry=entries,
    )


def _part_of(job: Job, split: int) -> Part:
    return Part(part_path(job.parts_folder, EXTRACTS, split), EXTRACTS)


def extracts_of(job: Job, splits: Sequence[int], first: int, count: int) -> list[list[Extract]]:
    """Return the extracts of the out-of-order queues [first, first + count).

    `splits`: the splits that have extracts, in log order.
    """
    found: list[list[Extract]] = [[] for _ in range(count)]
    for split in splits:
        part = _part_of(job, split)
        queues = part.read("queue")
        begin, end = np.searchsorted(queues, [first, first + count]).tolist()
        starts, entries = part.read("start", begin, end), part.read("entries", begin, end)
        for number, *place in zip(queues[begin:end].tolist(), starts.tolist(), entries.tolist(), strict=True):
            found[number - first].append(Extract(split, *place))
    return found


def reorder_queue(job: Job, key: QueueKey, extracts: Sequence[Extract], end: int = 0) -> QueueOutcome:
    """Build one queue from its extracts, in log order; a live queue that ends at queue offset `end` continues there."""
    with job.writing():
        # A live queue continues in place. Each attempt at a new one builds in a folder of its own, so that an attempt
        # that dies leaves a finished one alone.
        target = job if job.live else replace(job, staging=f"{job.parts_folder}/{uuid.uuid4().hex}")
        outcome = build_queue(key, partial(_runs, job, extracts), _ReorderedQueue(target, key), end)
        folder = queue_path(job.queue_folder, key)
        if not job.live:
            fs.remove_tree(folder)
            if extracts:
                fs.make_dirs(Path(folder).parent, job.owner)
                fs.rename(queue_path(target.queue_folder, key), folder)
        finish_folders(job, [folder] if extracts or end else [])
    return outcome


def _runs(job: Job, extracts: Sequence[Extract]) -> Iterator[EntryRun]:
    for one in extracts:
        part, until = _part_of(job, one.split), one.start + one.entries
        offsets = part.read("queue_offset", one.start, until)
        entries = part.read("entry", one.start, until).view(np.uint8)
        yield from runs_of(offsets, entries.data)


class _ReorderedQueue:
    """The files of a queue that is built; see `QueueTarget`."""

    def __init__(self, job: Job, key: QueueKey) -> None:
        self.job = job
        self.key = key

    def put(self, run: EntryRun) -> None:
        """Write entries to their places."""
        write_entries(self.job, self.key, run.first, run.entries)

    def blank(self, begin: int, end: int, following: EntryRun) -> None:  # noqa: ARG002 - as QueueTarget has it
        """Write pre-blank entries into a gap."""
        while begin < end:
            count = min(end - begin, BLANKS_AT_ONCE)
            write_entries(self.job, self.key, begin, memoryview(PRE_BLANK * count))
            begin += count

    def drop(self) -> None:
        """Remove the files."""
        fs.remove_tree(queue_path(self.job.queue_folder, self.key))
