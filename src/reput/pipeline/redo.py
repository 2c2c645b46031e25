"""redo: queues whose offsets do not run straight through the log are built again in log order, by the rules.

A repeated offset: the first record wins, like the peer's `ConsumeQueue.putMessagePositionInfo`. An offset that restarts
at 0 (the topic was deleted and made again): a new generation, the last one wins. A gap: pre-blank entries, since a hole
of zeros would make RocketMQ cut the queue there.

Two stages: tasks take the entries of the queues concerned out of each split, then one task a queue goes through them.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from reput.pipeline.sink import finish_folders, queue_path, write_entries
from reput.pipeline.tasks import columns_for

_BLANKS_AT_ONCE = 50_000


class Extract(NamedTuple):
    """Where a split's entries of one crooked queue lie in its extract file: from entry `start`, `count` of them."""

    split: int
    start: int
    entries: int


class QueueOutcome(NamedTuple):
    """A queue as it was built: its first and next queue offset, its entries, and what its records did.

    `repeats`: records left out because their offset was taken; `blanks`: pre-blank entries in gaps; `restarts`:
    generations that went because the numbering began again; `dropped`: entries of those.
    """

    key: QueueKey
    first: int
    next: int
    entries: int
    repeats: int
    blanks: int
    restarts: int
    dropped: int


class Run(NamedTuple):
    """Consecutive queue offsets in log order: the first of them, and their entries' bytes."""

    first: int
    entries: memoryview

    @property
    def next(self) -> int:
        """The offset behind the run."""
        return self.first + len(self.entries) // ENTRY_SIZE


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
    batch = group_by_queue(decoded.columns, job.types)
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
        builder = _QueueBuilder(attempt, key)
        outcome = _build(job, builder, extracts)
        target = queue_path(job.queue_folder, key)
        fs.remove_tree(target)
        if builder.next >= 0:
            fs.make_dirs(Path(target).parent, job.owner)
            fs.rename(queue_path(attempt.queue_folder, key), target)
            finish_folders(job, [target])
    return outcome


def append_queue(job: Job, key: QueueKey, end: int, extracts: Sequence[tuple[Extract, int]]) -> QueueOutcome:
    """Let one live queue, which ends at queue offset `end`, go on with its extracts, by the same rules, in place."""
    with job.writing():
        builder = _QueueBuilder(job, key)
        if end > 0:
            builder.first = builder.next = end
        outcome = _build(job, builder, extracts)
        finish_folders(job, [queue_path(job.queue_folder, key)] if builder.next >= 0 else [])
        return outcome


def _build(job: Job, builder: _QueueBuilder, extracts: Sequence[tuple[Extract, int]]) -> QueueOutcome:
    after_zero = deque(_what_follows_zero(job, extracts))
    expected = -1
    for run in _runs(job, extracts):
        starts = run.first != expected
        following = after_zero.popleft() if starts and run.first == 0 else -1
        builder.take(run, following if starts else None)
        expected = run.next
    return builder.outcome()


def _what_follows_zero(job: Job, extracts: Sequence[tuple[Extract, int]]) -> list[int]:
    """For each stretch of consecutive offsets that starts at 0, the offset behind its end (-1: none)."""
    follows: list[int] = []
    expected, from_zero = -1, False
    for run in _runs(job, extracts):
        if run.first != expected:
            if from_zero:
                follows.append(run.first)
            from_zero = run.first == 0
        expected = run.next
    if from_zero:
        follows.append(-1)
    return follows


def _runs(job: Job, extracts: Sequence[tuple[Extract, int]]) -> Iterator[Run]:
    for part, in_file in extracts:
        path = extract_path(job, part.split)
        offsets: NDArray[np.int64] = fs.load_array(path, "i8", part.entries, part.start * 8)
        entries = fs.load_array(path, "u1", part.entries * ENTRY_SIZE, in_file * 8 + part.start * ENTRY_SIZE)
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), part.entries], strict=True):
            yield Run(int(offsets[begin]), entries.data[begin * ENTRY_SIZE : end * ENTRY_SIZE])


class _QueueBuilder:
    """The rules over the runs of one queue; writes as it goes, so that memory stays at one split's entries."""

    def __init__(self, job: Job, key: QueueKey) -> None:
        self.job = job
        self.key = key
        self.first = self.next = -1
        self.repeats = self.blanks = self.restarts = self.dropped = 0

    def take(self, run: Run, following: int | None) -> None:
        """Take the next run in log order.

        `following` is the offset that comes behind the stretch which this run starts at 0 (-1: none or another start);
        None says that this run only goes on where the one before ended.
        """
        if self.next < 0:
            self.first = self.next = run.first
        elif run.first > self.next:
            self._fill(run.first)
        elif run.first < self.next:
            if following is not None and run.first == 0 and self._restarts(following):
                self._start_again()
            else:
                run = self._without_repeats(run)
        self._write(run)

    def _restarts(self, following: int) -> bool:
        # Message 0 given twice at once is a repeat; where the queue goes on as if nothing had been, so is the stretch.
        return self.next > 1 and following != self.next

    def _start_again(self) -> None:
        fs.remove_tree(queue_path(self.job.queue_folder, self.key))
        self.restarts += 1
        self.dropped += self.next - self.first - self.blanks
        self.first = self.next = 0
        self.blanks = 0

    def _without_repeats(self, run: Run) -> Run:
        repeated = min(self.next, run.next) - run.first
        self.repeats += repeated
        return Run(run.first + repeated, run.entries[repeated * ENTRY_SIZE :])

    def _fill(self, until: int) -> None:
        self.blanks += until - self.next
        while self.next < until:
            count = min(until - self.next, _BLANKS_AT_ONCE)
            write_entries(self.job, self.key, self.next, memoryview(PRE_BLANK * count))
            self.next += count

    def _write(self, run: Run) -> None:
        if run.entries:
            write_entries(self.job, self.key, run.first, run.entries)
            self.next = run.next

    def outcome(self) -> QueueOutcome:
        """What was built."""
        return QueueOutcome(
            key=self.key,
            first=max(self.first, 0),
            next=max(self.next, 0),
            entries=0 if self.next < 0 else self.next - self.first - self.blanks,
            repeats=self.repeats,
            blanks=self.blanks,
            restarts=self.restarts,
            dropped=self.dropped,
        )
