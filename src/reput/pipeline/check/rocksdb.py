"""check, RocksDB: tasks compare groups of queues with the database; then the ends are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from reput.dispatch.batch import QueueBatch
from reput.errors import DamagedStoreError
from reput.formats.log.record import queue_offset_bound
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.build.rocksdb.compare import Different, compare_stretch
from reput.pipeline.build.rocksdb.stretches import plan_stretches
from reput.pipeline.check.findings import note_out_of_order, note_unused, outside_finding
from reput.pipeline.check.judge import LackingQueue, Place, QueueJudge
from reput.pipeline.check.queue_file_tasks import Mismatch
from reput.pipeline.check.queue_finding import QueueFinding
from reput.pipeline.check.rules import NOTE
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import Job
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.pipeline.split.rocksdb_parts import save_values
from reput.pipeline.split.stitch import Stitched
from reput.queue.compare import Compared
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import ROCKSDB, open_reader

_TRIES_BESIDE_A_WRITER = 3


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
        """Write the split's values: they are compared with the database when all splits are known."""
        save_values(job, split.number, batch, rows)
        return []

    def judge(
        self,
        check: Check,
        stitched: Stitched,
        table: SplitQueues,
        mismatches: Mapping[int, list[Mismatch]],  # noqa: ARG002 - as QueueCheck has it
    ) -> None:
        """Compare the database with the values of the splits."""
        with check.stage("rocksdb"):
            _check_rocksdb(check, stitched, table)


def _check_rocksdb(check: Check, stitched: Stitched, table: SplitQueues) -> None:
    """Compare the database with the log. Beside a writer, which adds and removes files, an error is not believed."""
    findings = check.report.findings
    known, tries = len(findings), _TRIES_BESIDE_A_WRITER if check.job.judged_to is not None else 1
    for left in reversed(range(tries)):
        try:
            _compare_with_log(check, stitched, table)
        except DamagedStoreError as error:
            del findings[known:]
            if not left:
                check.report.damage("rocksdb-unreadable", str(check.layout.queue_database), None, 1, str(error))
        else:
            return


def _compare_with_log(check: Check, stitched: Stitched, table: SplitQueues) -> None:
    stretches = plan_stretches(check.job, stitched.results, table)
    task = partial(compare_stretch, check.job, str(check.layout.queue_database))
    found = check.engine.run(task, stretches, check.listener.advance)
    for one in found:
        for outcome in one.outcomes:
            row = table.rows[outcome.key]
            table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries
            # An earlier kind has reported it.
            if not any(check.job.holds(kind, outcome.key) for kind in check.job.kinds[: _turn(check)]):
                note_out_of_order(check, outcome)
    with open_reader(check.layout.queue_database) as reader:
        entries = EntryTable(reader.families)
        _findings(check, [different for one in found for different in one.different], entries)
        _queues_outside(check, table, entries, stitched.end)
        _restart_point(check, entries, stitched.end)


def _turn(check: Check) -> int:
    """Return the number of kinds that were checked before this one."""
    return check.job.kinds.index(ROCKSDB)


class _DatabaseJudge(QueueJudge):
    """Judges queues in the database, which is complete up to the log offset `restart`."""

    without = "without an entry"

    def __init__(self, check: Check, restart: int) -> None:
        super().__init__(check, ROCKSDB, check.layout.queue_database)
        self._restart = restart

    def place_of(self, key: QueueKey, number: int) -> Place:  # noqa: ARG002 - as QueueJudge has it
        """Return the database, and the queue's name."""
        return Place(self.folder_of(key), None, f"{key}: ")

    def folder_of(self, key: QueueKey) -> str:  # noqa: ARG002 - as QueueJudge has it
        """Return the database."""
        return str(self.folder)

    def waits(self, offset: int) -> bool:
        """Return True for a record at or above the restart point."""
        return offset >= self._restart

    def report_lost(self, place: str, count: int, detail: str) -> None:
        """Report lost queues: RocketMQ writes entries out seldom, and dispatches them again after a crash."""
        self.check.out_of_date("queue-missing", place, None, count, detail)


def _findings(check: Check, found: list[Different], entries: EntryTable) -> None:
    """Report the queues that differ."""
    judge = _DatabaseJudge(check, entries.restart_offset() or 0)
    for one in found:
        if one.entries.wrong and _is_of_before(judge, one.entries):
            count, begin = one.entries.wrong + one.entries.missing, one.entries.first_wrong
            detail = f"{one.key}: the queue began again, and its records from queue offset {begin} on wait for entries"
            check.out_of_date("queue-out-of-date", str(judge.folder), None, count, detail)
            continue
        judge.take(LackingQueue(one.key, one.offsets, one.entries, one.is_there))
        if one.ends and not one.entries.missing:
            detail = f"{one.key} ends at {one.offsets.max_offset}: {one.ends}"
            if _has_entries_after_its_end(judge, one.key, entries):
                check.out_of_date("queue-out-of-date", str(judge.folder), None, 1, detail)
            else:
                check.report.damage("queue-end-wrong", str(judge.folder), None, 1, detail)
    judge.end()


def _is_of_before(judge: QueueJudge, entries: Compared) -> bool:
    """Return True if all entries that differ are of records that wait for theirs.

    Such a queue began again at 0, and the database has it as it was before: a broker deleted the topic, and was killed
    before RocksDB wrote the deletion out. RocketMQ and reput replace these entries when they open the store.
    """
    places = (entries.wrong_from, entries.missing_from) if entries.missing else (entries.wrong_from,)
    return all(judge.waits(place) for place in places)


def _has_entries_after_its_end(judge: QueueJudge, key: QueueKey, entries: EntryTable) -> bool:
    """Return True if the entries after a queue's `max` are of records that are dispatched again.

    A program that was killed wrote them, and the ends of the queues were not on the disk yet.
    """
    last = entries.offset(key, fmt.MAX)
    following = None if last is None else entries.entry(key, last.queue_offset + 1)
    return following is not None and judge.waits(following[0].physical_offset)


def _queues_outside(check: Check, table: SplitQueues, entries: EntryTable, log_end: int) -> None:
    """Check queues without a record in the log: the record of their last entry must have expired."""
    place, unused = str(check.layout.queue_database), list[QueueKey]()
    for key, last, _ in entries.ends():
        if not check.job.holds(ROCKSDB, key):
            unused.append(key)
            continue
        row = table.rows.get(key)
        if row is not None and table.count[row]:
            continue
        if last.queue_offset > queue_offset_bound(max(log_end, check.log.end_offset)):
            detail = f"{key}: max is {last.queue_offset}, more than a log of this size can have"
            check.report.damage("queue-end-wrong", place, None, 1, detail)
        found = entries.entry(key, last.queue_offset)
        if found is None or found[0].is_pre_blank or found[0].physical_offset < check.log.min_offset:
            continue
        if check.job.judged_to is not None and found[0].physical_offset >= check.job.judged_to:
            continue
        offset = found[0].physical_offset
        rule = "queue-entry-past-end" if offset >= log_end else "queue-entry-without-record"
        detail = f"{key}: queue offset {last.queue_offset} points to {offset}, where this queue has no record"
        outside_finding(check, QueueFinding(rule, place, None, 1, offset, detail), log_end)
    note_unused(check, place, unused)


def _restart_point(check: Check, entries: EntryTable, log_end: int) -> None:
    if check.job.judged_to is not None:
        return
    place, restart = str(check.layout.queue_database), entries.restart_offset()
    if restart is None and log_end > check.log.min_offset:
        detail = "RocketMQ goes through the whole log when it opens the store"
        check.report.remark(NOTE, "restart-point-missing", place, 1, detail)
    elif restart is not None and restart > log_end:
        detail = f"the restart point {restart} is after the log's end {log_end}"
        check.report.after_crash("restart-point-past-end", place, None, 1, detail)
