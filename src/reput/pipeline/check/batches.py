"""The check of queues of batches: each is built again, and compared entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.files import fs
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.pipeline.build.queues.batch_queues import build_batch_queues
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.check.findings import log_place, note_out_of_order, outside_finding
from reput.pipeline.check.judge import JudgeOfFiles, LackingQueue
from reput.pipeline.check.queue_file_tasks import Mismatch, file_findings, not_file_findings
from reput.pipeline.check.queue_finding import QueueFinding
from reput.pipeline.check.rules import NOTE
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import Job
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.pipeline.split.sinks import BatchSink
from reput.pipeline.split.stitch import Stitched
from reput.queue.batch_kind import BATCHES, BatchKind, BatchQueueFiles
from reput.queue.compare import Compared, compare, rows_of
from reput.store.disk.queue_types import misplaced_queues

_ENTRIES_AT_ONCE = 1 << 13
_MISSING_MOST = 1 << 22


class BatchCompared(NamedTuple):
    """The differences between a queue on disk and its records; entries are numbered from the queue's byte 0.

    `expected`: the numbers of its records' entries. `past_end` counts entries after them; the first of these points to
    log offset `past_offset`.
    """

    key: QueueKey
    expected: OffsetRange
    entries: Compared
    past_end: int = 0
    first_past_end: int = -1
    past_offset: int = -1


class BatchCheck:
    """See `kinds.QueueCheck`; an entry's place is known only when all splits are, so tasks compare nothing."""

    def compare(
        self,
        job: Job,
        live_folder: str,  # noqa: ARG002 - as QueueCheck has it
        split: Split,
        batch: QueueBatch,
        rows: Sequence[int],
    ) -> list[Mismatch]:
        """Leave the split's entries, as a build does."""
        BatchSink().take(job, split, batch, rows)
        return []

    def judge(
        self,
        check: Check,
        stitched: Stitched,
        table: SplitQueues,  # noqa: ARG002 - as QueueCheck has it
        mismatches: Mapping[int, list[Mismatch]],  # noqa: ARG002 - as QueueCheck has it
    ) -> None:
        """Build the queues again from what the splits left, and compare them."""
        _check_batches(check, stitched)


def _check_batches(check: Check, stitched: Stitched) -> None:
    for what in misplaced_queues(check.layout, check.settings.types):
        check.report.damage("queue-type", what.partition(":")[0], None, 1, what.partition(": ")[2])
    live = {queue.key: queue for queue in BatchKind(check.layout.batch_consume_queue).queues()}
    outcomes: dict[QueueKey, QueueOutcome] = {}
    if live or any(result.batches for result in stitched.results):
        with check.stage("batches"):
            built = build_batch_queues(check.engine, check.job, stitched.results, check.listener)
            outcomes = {outcome.key: outcome for outcome in built}
            keys = sorted({*live, *outcomes})
            task = partial(_compare_task, check.job, str(check.layout.batch_consume_queue), check.log.min_offset)
            compared = check.engine.run(task, keys, check.listener.advance)
        judge = _BatchJudge(check, BATCHES, check.layout.batch_consume_queue, check.job.batch_queue_file_size)
        for one in compared:
            if not one.entries.is_equal:
                judge.take(LackingQueue(one.key, one.expected, one.entries, fs.exists(judge.folder_of(one.key))))
            _past_end_findings(check, judge, one, stitched.end)
        judge.end()
    for queue in live.values():
        _file_findings(check, queue, stitched.end)
    _record_findings(check, stitched, list(outcomes.values()))
    check.report.queues += len(outcomes)
    check.report.queue_entries += sum(outcome.entries for outcome in outcomes.values())
    check.report.queue_messages += sum(outcome.next - outcome.first for outcome in outcomes.values())


def _compare_task(job: Job, live_folder: str, log_min_offset: int, key: QueueKey) -> BatchCompared:
    built, live = BatchKind(Path(job.batch_queue_folder)).queue(key), BatchKind(Path(live_folder)).queue(key)
    span = built.span()
    expected = _Pieces(built.pieces(span.entries))
    present = _Pieces(_every_entry(live, job.batch_queue_file_size))
    # Entries that point below the log's first byte have expired.
    number = live.filled[0].start // BATCH_ENTRY_SIZE if live.filled else 0
    number += present.skip(lambda row: row["size"] > 0 and 0 <= row["physical_offset"] < log_min_offset)
    return _compare(key, number, expected, present)


def _compare(key: QueueKey, number: int, expected: _Pieces, present: _Pieces) -> BatchCompared:
    compared, first = Compared(), number
    while len(wanted := expected.take(_ENTRIES_AT_ONCE)):
        found = rows_of(present.take(len(wanted)).reshape(-1), BATCH_ENTRY_SIZE, len(wanted))
        compared.add(number, compare(wanted, found), wanted.reshape(-1).view(BATCH_ENTRY.dtype))
        number += len(wanted)
    result = BatchCompared(key, OffsetRange(first, number), compared)
    while len(found := present.take(_ENTRIES_AT_ONCE)):
        used = np.flatnonzero(found.any(axis=1))
        if len(used) and not result.past_end:
            first = int(used[0])
            offset = int(found[first].view(BATCH_ENTRY.dtype)["physical_offset"][0])
            result = result._replace(first_past_end=number + first, past_offset=offset)
        result = result._replace(past_end=result.past_end + len(used))
        number += len(found)
    return result


class _Pieces:
    """Entries in pieces of any length, as rows of bytes, read in pieces of a wanted length."""

    def __init__(self, pieces: Iterator[NDArray[np.void]]) -> None:
        self._pieces = pieces
        self._rest = np.empty((0, BATCH_ENTRY_SIZE), dtype=np.uint8)

    def take(self, count: int) -> NDArray[np.uint8]:
        """Return the next `count` entries, fewer at the end."""
        found: list[NDArray[np.uint8]] = []
        while count:
            if not len(self._rest):
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = rows_of(piece.view(np.uint8), BATCH_ENTRY_SIZE)
            found.append(self._rest[:count])
            count -= len(found[-1])
            self._rest = self._rest[len(found[-1]) :]
        return np.concatenate(found) if found else self._rest

    def skip(self, holds: Callable[[np.void], bool]) -> int:
        """Skip the first entries for which `holds` is true; returns their number."""
        skipped = 0
        while len(rows := self.take(_ENTRIES_AT_ONCE)):
            entries = rows.reshape(-1).view(BATCH_ENTRY.dtype)
            kept = next((number for number, row in enumerate(entries) if not holds(row)), len(rows))
            skipped += kept
            if kept < len(rows):
                self._rest = np.concatenate([rows[kept:], self._rest])
                break
        return skipped


def _every_entry(queue: BatchQueueFiles, file_size: int) -> Iterator[NDArray[np.void]]:
    """Yield all places of a queue's files, used or not; zeros for a missing file, unless the gap is too large."""
    number = -1
    for file in queue.filled:
        start, places = file.start // BATCH_ENTRY_SIZE, min(file.size, file_size) // BATCH_ENTRY_SIZE
        while 0 <= number < start:
            if start - number > _MISSING_MOST:
                return
            count = min(_ENTRIES_AT_ONCE, start - number)
            yield np.zeros(count, dtype=BATCH_ENTRY.dtype)
            number += count
        for at in range(0, places, _ENTRIES_AT_ONCE):
            size = min(_ENTRIES_AT_ONCE, places - at) * BATCH_ENTRY_SIZE
            data = (fs.read_bytes(file.path, size, at * BATCH_ENTRY_SIZE) or b"").ljust(size, b"\0")
            yield np.frombuffer(data, dtype=BATCH_ENTRY.dtype)
        number = start + places


class _BatchJudge(JudgeOfFiles):
    """Judges queues of batches: the number of an entry is no queue offset."""

    counted, content = "entry", "batches"
    entry_size = BATCH_ENTRY_SIZE


def _past_end_findings(check: Check, judge: JudgeOfFiles, one: BatchCompared, log_end: int) -> None:
    if one.past_end and check.job.judged_to is None:
        file, offset, _ = judge.place_of(one.key, one.first_past_end)
        detail = f"entries after the queue's last record, the first points to {one.past_offset}"
        finding = QueueFinding("queue-entry-past-end", file, offset, one.past_end, one.past_offset, detail)
        outside_finding(check, finding, log_end)


def _file_findings(check: Check, queue: BatchQueueFiles, log_end: int) -> None:
    size, files = check.job.batch_queue_file_size, queue.folder.files
    # A process that holds the store may be making the last file.
    is_made = bool(files) and check.job.judged_to is not None and files[-1].size != size
    found = file_findings(files, size, files[-1].start if is_made else None)
    for one in (*found, *not_file_findings(queue.folder.not_files)):
        outside_finding(check, one, log_end)


def _record_findings(check: Check, stitched: Stitched, outcomes: Sequence[QueueOutcome]) -> None:
    """Report what is odd in the log itself."""
    for outcome in outcomes:
        if outcome.is_odd:
            note_out_of_order(check, outcome)
    found = [result.oddities for result in stitched.results if result.oddities.without_entry]
    if found:
        file, _ = log_place(check.log, found[0].first_without_entry)
        count = sum(one.without_entry for one in found)
        detail = (
            "batches whose INNER_NUM or INNER_BASE is impossible, first at log offset "
            f"{found[0].first_without_entry}: they have no entry"
        )
        check.report.remark(NOTE, "batch-without-entry", file, count, detail)
