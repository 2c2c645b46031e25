"""check, RocksDB: tasks hold stretches of queues, as the log has them, against the database; then the ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reput.dispatch.batch import QueueBatch
from reput.errors import DamagedStoreError
from reput.formats import rocksdb as fmt
from reput.formats.consume_queue import PRE_BLANK, QueueKey
from reput.formats.record import queue_offset_bound
from reput.formats.rocksdb import VALUE_SIZE, OffsetValue
from reput.pipeline.check_findings import note_crooked
from reput.pipeline.check_queues import Mismatch
from reput.pipeline.check_state import Check
from reput.pipeline.job import Job
from reput.pipeline.merge import QueueTable
from reput.pipeline.plan import Split
from reput.pipeline.queue_builder import QueueOutcome
from reput.pipeline.rocksdb_columns import stretch_columns
from reput.pipeline.rocksdb_parts import Piece, save_values
from reput.pipeline.rocksdb_rules import CrookedQueue
from reput.pipeline.rocksdb_stretches import plan_stretches
from reput.pipeline.rocksdb_tables import Stretch, chunks
from reput.pipeline.stitch import Stitched
from reput.queue.compare import Compared, compare
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import ROCKSDB, open_reader
from reput.store.report import NOTE
from reput.store.retained import configured_topics

_NO_ENTRY = np.frombuffer(PRE_BLANK + bytes(8), dtype=np.uint8)
_NAMED = 5


class Different(NamedTuple):
    """A queue that differs from its records; entries are counted by queue offset.

    `next` is the offset after its last record; `ends` says what is wrong with its ends in the database ("": nothing).
    """

    key: QueueKey
    next: int
    entries: Compared
    ends: str

    @property
    def lacks_its_end(self) -> bool:
        """Whether entries are missing at its end alone."""
        return self.entries.first_missing + self.entries.missing == self.next


class StretchCompared(NamedTuple):
    """What a task found: queues that differ, and what the crooked ones did."""

    different: tuple[Different, ...]
    outcomes: tuple[QueueOutcome, ...]


class RocksdbCheck:
    """See `kinds.QueueCheck`."""

    def compare(
        self,
        job: Job,
        live_folder: str,  # noqa: ARG002 - as QueueCheck has it
        split: Split,
        batch: QueueBatch,
        rows: Sequence[int],
    ) -> list[Mismatch]:
        """Leave the split's values: they are held against the database when all splits are known."""
        save_values(job, split.number, batch, rows)
        return []

    def judge(
        self,
        check: Check,
        stitched: Stitched,
        table: QueueTable,
        mismatches: Mapping[int, list[Mismatch]],  # noqa: ARG002 - as QueueCheck has it
    ) -> None:
        """Hold the database against what the splits left."""
        with check.stage("rocksdb"):
            _check_rocksdb(check, stitched, table)


def _check_rocksdb(check: Check, stitched: Stitched, table: QueueTable) -> None:
    try:
        _hold_against_log(check, stitched, table)
    except DamagedStoreError as error:
        check.report.damage("rocksdb-unreadable", str(check.layout.consume_queue), None, 1, str(error))


def _hold_against_log(check: Check, stitched: Stitched, table: QueueTable) -> None:
    stretches = plan_stretches(check.job, stitched.results, table)
    task = partial(compare_stretch, check.job, str(check.layout.consume_queue))
    found = check.engine.run(task, stretches, check.listener.advance)
    for one in found:
        for outcome in one.outcomes:
            row = table.rows[outcome.key]
            table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries
            # Another kind in front of this one has told it.
            if check.job.kinds[0] == ROCKSDB:
                note_crooked(check, outcome)
    _findings(check, [different for one in found for different in one.different])
    with open_reader(check.layout.consume_queue) as reader:
        entries = EntryTable(reader.families)
        _queues_outside(check, table, entries, stitched.end)
        _restart_point(check, entries, stitched.end)


def compare_stretch(job: Job, folder: str, stretch: Stretch) -> StretchCompared:
    """Hold the queues of a stretch, as splits have left them, against the database in `folder`."""
    different, outcomes = [], []
    with open_reader(Path(folder)) as reader:
        entries = EntryTable(reader.families)
        for key, pieces in stretch_columns(job, stretch.ranges).queues():
            expected: Iterable[Piece] = pieces
            if key in stretch.crooked:
                crooked = CrookedQueue(job, key, f"{stretch.number}-check")
                outcomes.append(crooked.build(pieces))
                expected = crooked.result()
            one = _compare(entries, key, expected, grows=job.judged_to is not None)
            if one.ends or not one.entries.is_equal:
                different.append(one)
    return StretchCompared(tuple(different), tuple(outcomes))


def _compare(entries: EntryTable, key: QueueKey, expected: Iterable[Piece], *, grows: bool) -> Different:
    """Hold a queue against its records; where it `grows`, it may go on after the last of them."""
    compared = Compared()
    first = last = OffsetValue(-1, -1)
    for begin, values in chunks(expected):
        rows = np.frombuffer(values, dtype=np.uint8).reshape(-1, VALUE_SIZE)
        present = entries.values(key, begin, begin + len(rows))
        if first.queue_offset < 0:
            first = OffsetValue(int.from_bytes(values[:8]), begin)
        last = OffsetValue(int.from_bytes(values[-VALUE_SIZE:][:8]), begin + len(rows) - 1)
        compared.add(begin, compare(rows, present, _NO_ENTRY))
    ends = _wrong_ends(entries, key, first, last, grows)
    return Different(key, last.queue_offset + 1, compared, ends)


def _wrong_ends(entries: EntryTable, key: QueueKey, first: OffsetValue, last: OffsetValue, grows: bool) -> str:
    """What is wrong with a queue's `max` and `min`; a `min` that is behind is not, RocketMQ moves it on."""
    told_last, told_first = entries.offset(key, fmt.MAX), entries.offset(key, fmt.MIN)
    if told_last is None:
        return "no max"
    if told_last.queue_offset < last.queue_offset or (
        told_last.queue_offset == last.queue_offset and told_last != last
    ):
        return f"max is {told_last.queue_offset} at log offset {told_last.physical_offset}"
    is_ahead = told_last.queue_offset > last.queue_offset and not grows
    if is_ahead and (wrong := _wrong_behind(entries, key, last, told_last)):
        return f"max is {told_last.queue_offset}, {wrong}"
    if told_first is not None and told_first.queue_offset > first.queue_offset:
        return f"min is {told_first.queue_offset}, the first record's queue offset {first.queue_offset}"
    return ""


def _wrong_behind(entries: EntryTable, key: QueueKey, last: OffsetValue, told: OffsetValue) -> str:
    """What is wrong with a `max` behind the last record: only blank entries for lost messages may lead up to it.

    A new message gets the number behind `max`. RocketMQ sets it together with an entry; where a queue is begun at a
    number (`RocksDBConsumeQueue.initializeWithOffset`) it has no records.
    """
    behind = next(entries.messages(key, last.queue_offset + 1), None)
    if behind is not None and behind[0] <= told.queue_offset:
        return "behind the last record"
    if entries.entry(key, told.queue_offset) is None:
        return "where it has no entry: new messages would stand behind a hole"
    if told.physical_offset != last.physical_offset:
        return f"at log offset {told.physical_offset}, the last record's is {last.physical_offset}"
    return ""


def _findings(check: Check, found: list[Different]) -> None:
    report, place = check.report, str(check.layout.consume_queue)
    configured = configured_topics(check.layout)
    absent = []
    for one in found:
        missing, wrong = one.entries.missing, one.entries.wrong
        if wrong:
            detail = (
                f"{one.key}: entries that are not what their records give, first queue offset {one.entries.first_wrong}"
            )
            report.damage("queue-entry-wrong", place, None, wrong, detail)
        if missing and one.key in check.half_deleted:
            continue
        if one.ends == "no max" and missing and one.lacks_its_end:
            if configured is not None and one.key.topic not in configured:
                detail = f"{one.key}: the topic was deleted, {missing} of its messages are still in the log"
                report.remark(NOTE, "queue-of-deleted-topic", place, 1, detail)
            else:
                absent.append(one)
            continue
        if missing and one.lacks_its_end:
            detail = f"{one.key} ends at offset {one.entries.first_missing}, its records at {one.next}"
            check.behind("queue-behind", place, None, missing, detail)
        elif missing:
            detail = f"{one.key}: records without an entry, first queue offset {one.entries.first_missing}"
            report.damage("queue-entry-missing", place, None, missing, detail)
        elif one.ends:
            report.damage("queue-end-wrong", place, None, 1, f"{one.key} ends at {one.next}: {one.ends}")
    if absent:
        named = ", ".join(str(one.key) for one in absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
        total = sum(one.entries.missing for one in absent)
        detail = f"queues without an entry: {named}; {total} messages cannot be consumed"
        report.damage("queue-missing", place, None, len(absent), detail)


def _queues_outside(check: Check, table: QueueTable, entries: EntryTable, log_end: int) -> None:
    """Queues of which the log has no record: what their last entry names must have expired."""
    place = str(check.layout.consume_queue)
    for key, last, _ in entries.ends():
        row = table.rows.get(key)
        if row is not None and table.count[row]:
            continue
        if last.queue_offset > queue_offset_bound(max(log_end, check.log.end_offset)):
            detail = f"{key}: max is {last.queue_offset}, more than a log of this size can have brought"
            check.report.damage("queue-end-wrong", place, None, 1, detail)
        found = entries.entry(key, last.queue_offset)
        if found is None or found[0].is_pre_blank or found[0].physical_offset < check.log.min_offset:
            continue
        if check.job.judged_to is not None and found[0].physical_offset >= check.job.judged_to:
            continue
        detail = (
            f"{key}: queue offset {last.queue_offset} points to {found[0].physical_offset}, where this queue has no "
            "record"
        )
        if found[0].physical_offset >= log_end:
            check.report.after_crash("queue-entry-past-end", place, None, 1, f"{detail}; the log ends at {log_end}")
        else:
            check.report.damage("queue-entry-without-record", place, None, 1, detail)


def _restart_point(check: Check, entries: EntryTable, log_end: int) -> None:
    if check.job.judged_to is not None:
        return
    place, restart = str(check.layout.consume_queue), entries.restart_offset()
    if restart is None and log_end > check.log.min_offset:
        detail = "RocketMQ goes through the whole log when it opens the store"
        check.report.remark(NOTE, "restart-point-missing", place, 1, detail)
    elif restart is not None and restart > log_end:
        detail = f"the restart point {restart} lies behind the log's end {log_end}"
        check.report.after_crash("restart-point-past-end", place, None, 1, detail)
