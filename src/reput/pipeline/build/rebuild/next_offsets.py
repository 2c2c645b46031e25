"""Next offsets after a rebuild: a queue whose last messages expired or are lost keeps its numbering."""

from __future__ import annotations

from reput.formats import paths
from reput.formats.batch_consume_queue import BatchEntry
from reput.formats.consume_queue import QueueKey, QueueRange
from reput.formats.record import batch_offset_bound
from reput.pipeline.build.rebuild.options import LOG
from reput.pipeline.build.rebuild.report import lost_ranges, report_shortened, warn_of_many_repeats
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.stages.state import NextOffsets, RangeQueues
from reput.queue.batch_kind import BatchKind
from reput.store.disk.retained import Retained, retained_queues, shortened_queues, unbelievable_queues, unreadable_kinds


def keep_next_offsets(run: Rebuild, queues: RangeQueues) -> NextOffsets:
    """Find the queues whose numbering the log alone would shorten, and report them."""
    present = {key for key, _ in queues.present()}
    # Queues of batches keep their numbers in their own way.
    batches = run.job.types.batch
    retained = [
        one
        for one in retained_queues(run.layout, run.store.metadata, present, queues.end)
        if run.job.wants(one.key.topic) and one.key.topic not in batches and one.key not in run.job.deleted
    ]
    _report_retained(run, queues, present, retained)
    # Another source than the log has no queues of batches, which stay as they are.
    last_batches = _batches_to_keep(run, queues) if run.options.source == LOG else []
    return NextOffsets(retained, _ends_to_keep(run, queues, present), last_batches)


def _report_retained(run: Rebuild, queues: RangeQueues, present: set[QueueKey], retained: list[Retained]) -> None:
    for lost in unbelievable_queues(run.layout, present, queues.end):
        if run.job.wants(lost.key.topic) and lost.key.topic not in run.job.types.batch:
            run.report.warnings.append(
                f"{lost.key}: no record, and the old queue's end at {lost.next} is more than a log of this size can "
                f"hold; its numbering begins again at 0 (keep {lost.source} if consumers still have offsets there)"
            )
    run.report.warnings += [
        f"the old queues cannot be read, so queues without records may begin again at 0: {why}"
        for why in unreadable_kinds(run.layout)
    ]
    warn_of_many_repeats(run.report)
    for kept in retained:
        run.report.retained_queues.append(f"{kept.key} goes on at {kept.next} (from {kept.source})")
        if kept.is_committed:
            run.report.warnings.append(
                f"{kept.key}: no record and no old queue; its numbering goes on at {kept.next}, the highest committed "
                f"offset in {kept.source}"
            )


def _ends_to_keep(run: Rebuild, queues: RangeQueues, present: set[QueueKey]) -> list[QueueRange]:
    """Return the queues whose last messages are lost; report those that end too early for another reason."""
    table = queues.table
    ends = {key: int(table.next[table.rows[key]]) for key in present}
    kept = []
    for queue in shortened_queues(run.layout, run.store.metadata, ends, lost_ranges(run, queues.end), queues.end):
        report_shortened(run.report, queue, queue.lost)
        if queue.lost:
            kept.append(QueueRange(queue.key, queue.next, queue.old_end))
            table.next[table.rows[queue.key]] = queue.old_end
    return kept


def _batches_to_keep(run: Rebuild, queues: RangeQueues) -> list[tuple[QueueKey, BatchEntry]]:
    """Return the last entries of the queues of batches whose records have all expired, or lie in a gap of the log."""
    built = {outcome.key: outcome for outcome in queues.others}
    kept = []
    lost = [(gap.begin, gap.end) for gap in run.report.gaps]
    for queue in BatchKind(run.layout.batch_consume_queue).queues():
        key, last = queue.key, queue.span().last
        if last is None or not paths.is_topic_folder_name(key.topic) or not run.job.wants(key.topic):
            continue
        outcome = built.get(key)
        if outcome is not None:
            if lost and last.next_offset > outcome.next:
                run.report.warnings.append(
                    f"{key}: ended at queue offset {last.next_offset}, ends at {outcome.next} now. New messages will "
                    "be given numbers that consumers may have passed: reset the offsets of consumers past its end"
                )
            continue
        at = last.physical_offset
        is_gone = at < run.log.min_offset or any(begin <= at < end for begin, end in lost)
        if key.topic in run.settings.types.simple or not is_gone:
            continue
        if last.next_offset > batch_offset_bound(queues.end):
            run.report.warnings.append(
                f"{key}: no record, and the old queue's end at {last.next_offset} is more than a log of this size can "
                f"hold; its numbering begins again at 0 (keep {queue.place} if consumers still have offsets there)"
            )
            continue
        kept.append((key, last))
        run.report.retained_queues.append(f"{key} goes on at {last.next_offset} (from {queue.place})")
    return kept
