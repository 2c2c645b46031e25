"""The part of a rebuild that is about queues of batches."""

from __future__ import annotations

from reput.files import fs
from reput.formats import paths
from reput.formats.batch_consume_queue import BatchEntry, encode_batch_entry
from reput.formats.consume_queue import QueueKey
from reput.formats.record import batch_offset_bound
from reput.log.reader import place
from reput.pipeline.build.batch_build import BatchOutcome, build_batch_queues
from reput.pipeline.build.rebuild_state import RebuildRun
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.sink import queue_path
from reput.pipeline.split.stitch import Stitched
from reput.queue.batch_files import BatchFiles
from reput.store.disk.queue_types import misplaced_queues
from reput.store.disk.report import QueueOddity


def batch_topics(run: RebuildRun, stitched: Stitched) -> frozenset[bytes]:
    """The topics with queues of batches: those that are configured or present, and those whose records tell."""
    return run.settings.types.batch.union(*(result.inferred for result in stitched.results))


def build_batches(run: RebuildRun, stitched: Stitched, table: SplitQueues) -> list[BatchOutcome]:
    """Build the queues of batches; what the other queues got of their topics goes."""
    inferred: frozenset[bytes] = frozenset().union(*(result.inferred for result in stitched.results))
    table.drop_topics(inferred)
    for topic in sorted(inferred):
        fs.remove_tree(f"{run.job.queue_folder}/{topic.decode()}")
    outcomes: list[BatchOutcome] = []
    if any(result.batches for result in stitched.results):
        run.shut_out_late_tasks()
        with run.stage("batches"):
            outcomes = build_batch_queues(run.engine, run.job, stitched.results, run.listener)
    _keep_numbers(run, stitched, {outcome.key: outcome for outcome in outcomes})
    _report(run, stitched, outcomes)
    return outcomes


def enter_batches(table: SplitQueues, outcomes: list[BatchOutcome]) -> None:
    """Let the table of queues, which the report is made of, know these too."""
    for outcome in outcomes:
        row = table.row(outcome.key)
        table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries


def _keep_numbers(run: RebuildRun, stitched: Stitched, built: dict[QueueKey, BatchOutcome]) -> None:
    """A queue whose records have all expired, or lie in a gap, keeps its last entry, and so its numbering."""
    lost = [(gap.begin, gap.end) for gap in run.report.gaps]
    for queue in BatchFiles(run.layout.batch_consume_queue).queues():
        key, last = queue.key, queue.span().last
        if last is None or not paths.is_topic_folder_name(key.topic) or not run.job.wants(key.topic):
            continue
        outcome = built.get(key)
        if outcome is not None:
            if lost and last.next_offset > outcome.next:
                run.report.warnings.append(
                    f"{key}: ended at queue offset {last.next_offset}, ends at {outcome.next} now. New messages will "
                    "be given numbers that consumers may have behind them: reset the offsets of consumers past its end"
                )
            continue
        at = last.physical_offset
        is_gone = at < run.log.min_offset or any(begin <= at < end for begin, end in lost)
        if key.topic in run.settings.types.simple or not is_gone:
            continue
        if last.next_offset > batch_offset_bound(stitched.end):
            run.report.warnings.append(
                f"{key}: no record, and the old queue's end at {last.next_offset} is more than a log of this size can "
                f"hold; its numbering begins again at 0 (keep {queue.place} if consumers still have offsets there)"
            )
            continue
        _write_last(run, key, last)
        run.report.retained_queues.append(f"{key} goes on at {last.next_offset} (from {queue.place})")


def _write_last(run: RebuildRun, key: QueueKey, last: BatchEntry) -> None:
    folder = queue_path(run.job.batch_queue_folder, key)
    fs.write_at(
        f"{folder}/{paths.offset_name(0)}", run.job.batch_queue_file_size, run.job.owner, encode_batch_entry(last), 0
    )


def _report(run: RebuildRun, stitched: Stitched, outcomes: list[BatchOutcome]) -> None:
    report = run.report
    for outcome in outcomes:
        if outcome.is_odd:
            topic, queue_id = outcome.key.topic.decode(), outcome.key.queue_id
            counts = outcome.repeats, outcome.missing, outcome.restarts, outcome.dropped
            report.crooked_queues.append(QueueOddity(topic, queue_id, *counts))
    found = [result.oddities for result in stitched.results if result.oddities.without_entry]
    if found:
        report.warnings.append(
            f"{place(run.log, found[0].first_without_entry)}: a batch whose INNER_NUM or INNER_BASE cannot be; "
            f"{sum(one.without_entry for one in found)} such records have no entry"
        )
    report.notes += [f"{what}; they are not built again" for what in misplaced_queues(run.layout, run.settings.types)]


def batch_parts(run: RebuildRun, whole: bool) -> list[str]:
    """What of the queues of batches is swapped in: the whole folder, or the topics that were built."""
    folder = run.job.batch_queue_folder
    if whole and (fs.exists(run.layout.batch_consume_queue) or fs.exists(folder)):
        fs.make_dirs(folder, run.job.owner)
        return [paths.BATCH_CONSUME_QUEUE]
    topics = [] if whole else [entry.name for entry in fs.list_dir(folder) if entry.is_dir]
    return [f"{paths.BATCH_CONSUME_QUEUE}/{topic}" for topic in topics]
