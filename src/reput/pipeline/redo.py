"""redo: queues whose offsets do not run straight through the log are built again in log order (`queue_builder`).

Two stages: tasks take the entries of the queues concerned out of each split, then one task a queue goes through them.
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
from reput.formats.consume_queue import ENTRY_SIZE, PRE_BLANK, QueueKey
from reput.pipeline.decode import decode_split
from reput.pipeline.job import Job
from reput.pipeline.plan import Split
from reput.pipeline.queue_builder import QueueOutcome, Run, build_queue
from reput.pipeline.sink import finish_folders, queue_path, write_entries
from reput.pipeline.tasks import columns_for

_BLANKS_AT_ONCE = 50_000


class Extract(NamedTuple):
    """Where a split's entries of one crooked queue lie in its extract file: from entry `start`, `count` of them."""

    split: int
    start: int
    entries: int


def extract_path(job: Job, number: int) -> str:
    """The file with what a split holds of the crooked queues: queue offsets (int64), then entries (20 bytes each)."""
    return f"{job.parts_folder}/{number}.extract"


def table_path(job: Job, number: int) -> str:
    """The file that lists a split's extracts: int64, how many entries they have in all, then three values each.

    Those are the queue's number among the crooked ones, ascending, and the extract's start and entries.
    """
    return f"{job.parts_folder}/{number}.extracts"


def extract(job: Job, split: Split, keys: Sequence[QueueKey]) -> int:
    """Take the entries of these queues out of a split, in log order within each queue; returns how many have some."""
    decoded = decode_split(split, job.decode, columns_for(split))
    batch = group_by_queue(decoded.columns, job.types, job.deleted)
    numbers = {key: number for number, key in enumerate(keys)}
    rows = sorted((numbers[key], row) for row, key in batch.queues() if key in numbers)
    offsets = batch.queue_offsets()
    pieces, table, at = [], [], 0
    for number, row in rows:
        begin, end = int(batch.start[row]), int(batch.start[row + 1])
        pieces.append((offsets[begin:end], batch.entries[begin * ENTRY_SIZE : end * ENTRY_SIZE]))
        table += [number, at, end - begin]
        at += end - begin
    if pieces:
        with job.writing():
            fs.save_array(
                extract_path(job, split.number),
                np.concatenate([piece[0] for piece in pieces]),
                np.concatenate([piece[1] for piece in pieces]),
            )
            fs.save_array(table_path(job, split.number), np.array([at, *table], dtype=np.int64))
    return len(rows)


def extracts_of(job: Job, splits: Sequence[tuple[int, int]], first: int, count: int) -> list[list[tuple[Extract, int]]]:
    """The extracts of the crooked queues [first, first + count), each with the number of all entries in its file.

    `splits`: number of each split that has extracts, in log order, and how many queues it has.
    """
    found: list[list[tuple[Extract, int]]] = [[] for _ in range(count)]
    for split, rows in splits:
        values = fs.load_array(table_path(job, split), "i8", 1 + 3 * rows)
        table = values[1:].reshape(rows, 3)
        begin, end = np.searchsorted(table[:, 0], [first, first + count])
        for number, start, entries in table[begin:end].tolist():
            found[number - first].append((Extract(split, start, entries), int(values[0])))
    return found


def redo_queue(job: Job, key: QueueKey, extracts: Sequence[tuple[Extract, int]]) -> QueueOutcome:
    """Build one queue from its extracts, each with the number of all entries in its file, in log order."""
    with job.writing():
        # Each attempt builds in a folder of its own, so that one that dies leaves a finished one alone.
        attempt = replace(job, staging=f"{job.parts_folder}/{uuid.uuid4().hex}")
        outcome = build_queue(key, partial(_runs, job, extracts), _QueueFiles(attempt, key))
        target = queue_path(job.queue_folder, key)
        fs.remove_tree(target)
        if extracts:
            fs.make_dirs(Path(target).parent, job.owner)
            fs.rename(queue_path(attempt.queue_folder, key), target)
            finish_folders(job, [target])
    return outcome


def append_queue(job: Job, key: QueueKey, end: int, extracts: Sequence[tuple[Extract, int]]) -> QueueOutcome:
    """Let one live queue, which ends at queue offset `end`, go on with its extracts, by the same rules, in place."""
    with job.writing():
        outcome = build_queue(key, partial(_runs, job, extracts), _QueueFiles(job, key), end)
        finish_folders(job, [queue_path(job.queue_folder, key)] if extracts or end else [])
        return outcome


def _runs(job: Job, extracts: Sequence[tuple[Extract, int]]) -> Iterator[Run]:
    for part, in_file in extracts:
        path = extract_path(job, part.split)
        offsets: NDArray[np.int64] = fs.load_array(path, "i8", part.entries, part.start * 8)
        entries = fs.load_array(path, "u1", part.entries * ENTRY_SIZE, in_file * 8 + part.start * ENTRY_SIZE)
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), part.entries], strict=True):
            yield Run(int(offsets[begin]), entries.data[begin * ENTRY_SIZE : end * ENTRY_SIZE])


class _QueueFiles:
    """A queue's files, as they are built."""

    def __init__(self, job: Job, key: QueueKey) -> None:
        self.job = job
        self.key = key

    def put(self, run: Run) -> None:
        """Entries to their places."""
        write_entries(self.job, self.key, run.first, run.entries)

    def blank(self, begin: int, end: int, following: Run) -> None:  # noqa: ARG002 - as QueueTarget has it
        """Pre-blank entries into a gap."""
        while begin < end:
            count = min(end - begin, _BLANKS_AT_ONCE)
            write_entries(self.job, self.key, begin, memoryview(PRE_BLANK * count))
            begin += count

    def drop(self) -> None:
        """The files go."""
        fs.remove_tree(queue_path(self.job.queue_folder, self.key))
