"""check, queue files: each split's entries at their places, then the queues out of order, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files import fs
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, OffsetRange, QueueKey, QueueRange
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.reorder.stage import reorder_queues
from reput.pipeline.check.ext import plain
from reput.pipeline.check.findings import note_out_of_order, note_unused, outside_finding
from reput.pipeline.check.judge import JudgeOfFiles, LackingQueue
from reput.pipeline.check.queue_file_tasks import (
    Mismatch,
    QueueToCheck,
    check_outside,
    stored_entries,
)
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import Job
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.pipeline.split.sink import queue_path
from reput.pipeline.split.stitch import Stitched
from reput.queue.compare import Compared, compare_entries
from reput.queue.file_kind import FILE
from reput.queue.files import list_queues

_QUEUES_A_TASK = 256


class FileCheck:
    """See `kinds.QueueCheck`."""

    def compare(
        self,
        job: Job,
        live_folder: str,
        split: Split,  # noqa: ARG002 - as QueueCheck has it
        batch: QueueBatch,
        rows: Sequence[int],  # noqa: ARG002 - as QueueCheck has it
    ) -> list[Mismatch]:
        """Compare the entries of one split: each has a place in the files."""
        return _compare(job, live_folder, batch)

    def judge(
        self, check: Check, stitched: Stitched, table: SplitQueues, mismatches: Mapping[int, list[Mismatch]]
    ) -> None:
        """Report the findings of the splits, and check what they could not."""
        _judge(check, stitched, table, mismatches)


def _compare(job: Job, live_folder: str, batch: QueueBatch) -> list[Mismatch]:
    found = []
    for row, key in batch.queues():
        # A queue out of order is compared as a whole, later.
        if not batch.steady[row] or not job.holds(FILE, key):
            continue
        expected = np.frombuffer(batch.queue_entries(row), dtype=np.uint8)
        comparison = _Comparison(job, live_folder, key)
        comparison.add(int(batch.first[row]), expected)
        if (one := comparison.mismatch()) is not None:
            found.append(one)
    return found


class _Comparison:
    """Compares a queue's live entries with those that its records give."""

    def __init__(self, job: Job, live_folder: str, key: QueueKey) -> None:
        self._job = job
        self._key = key
        self._folder = queue_path(live_folder, key)
        self._compared = Compared()

    def add(self, first: int, expected: NDArray[np.uint8]) -> None:
        """Compare the entries from queue offset `first` on."""
        present = stored_entries(self._folder, self._job.queue_file_size, first, len(expected) // ENTRY_SIZE)
        found = compare_entries(expected, plain(self._job, self._key, present))
        self._compared.add(first, found, expected.view(ENTRY.dtype))

    def mismatch(self) -> Mismatch | None:
        """Return the differences; None if there are none."""
        return None if self._compared.is_equal else Mismatch(self._key, self._compared)


def _judge(check: Check, stitched: Stitched, table: SplitQueues, mismatches: Mapping[int, list[Mismatch]]) -> None:
    unordered = [key for key in table.out_of_order() if check.job.holds(FILE, key)]
    if unordered:
        with check.stage("reorder"):
            _check_out_of_order(check, stitched, table, unordered)
    in_order = {key for key, row in table.rows.items() if table.in_order[row]}
    found = [one for result in stitched.results for one in mismatches.get(result.number, ()) if one.key in in_order]
    _judge_queues(check, table, found)
    with check.stage("queues"):
        _outside_findings(check, table, stitched.end)


def _check_out_of_order(check: Check, stitched: Stitched, table: SplitQueues, unordered: list[QueueKey]) -> None:
    pairs = zip(stitched.splits, stitched.results, strict=True)
    splits = [split for split, result in pairs if result.records]
    outcomes = reorder_queues(check.engine, check.job, splits, unordered, check.listener)
    for outcome in outcomes:
        row = table.rows[outcome.key]
        table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries
        note_out_of_order(check, outcome)
    tasks = [(outcome, str(check.layout.consume_queue)) for outcome in outcomes]
    found = [
        one for one in check.engine.run(partial(_compare_out_of_order, check.job), tasks, check.listener.advance) if one
    ]
    _judge_queues(check, table, found)


def _judge_queues(check: Check, table: SplitQueues, found: list[Mismatch]) -> None:
    """Judge the queues in which splits, in log order, have found differences."""
    by_queue: dict[QueueKey, Compared] = {}
    for one in found:
        by_queue[one.key] = by_queue[one.key].followed_by(one.entries) if one.key in by_queue else one.entries
    judge = JudgeOfFiles(check, FILE, check.layout.consume_queue, check.job.queue_file_size)
    for key, entries in by_queue.items():
        row = table.rows[key]
        expected = OffsetRange(int(table.first[row]), int(table.next[row]))
        is_there, is_in_order = fs.exists(judge.folder_of(key)), bool(table.in_order[row])
        judge.take(LackingQueue(key, expected, entries, is_there, is_in_order))
    judge.end()


def _compare_out_of_order(job: Job, work: tuple[QueueOutcome, str]) -> Mismatch | None:
    outcome, live_folder = work
    step = job.queue_file_size // ENTRY_SIZE
    comparison = _Comparison(job, live_folder, outcome.key)
    for first in range(outcome.first, outcome.next, step):
        count = min(step, outcome.next - first)
        comparison.add(
            first, stored_entries(queue_path(job.queue_folder, outcome.key), job.queue_file_size, first, count)
        )
    return comparison.mismatch()


def _outside_findings(check: Check, table: SplitQueues, log_end: int) -> None:
    queues, unused = [], list[QueueKey]()
    for queue in list_queues(check.layout.consume_queue):
        key = queue.key
        if not check.job.holds(FILE, key):
            unused.append(key)
            continue
        row = table.rows.get(key)
        first, end = (int(table.first[row]), int(table.next[row])) if row is not None else (0, 0)
        queues.append(QueueToCheck(str(queue.path), QueueRange(key, first, end)))
    note_unused(check, str(check.layout.consume_queue), unused)
    chunks = [tuple(queues[at : at + _QUEUES_A_TASK]) for at in range(0, len(queues), _QUEUES_A_TASK)]
    task = partial(check_outside, check.job, check.log.min_offset)
    for found in check.engine.run(task, chunks, check.listener.advance):
        for one in found:
            outside_finding(check, one, log_end)
