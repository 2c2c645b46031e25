"""rebuild, its queues: what decode tasks left becomes whole queues of each kind, and queues keep their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.pipeline.build.kinds import SIDES, QueueSide
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.rebuild_batches import batch_topics
from reput.pipeline.build.rebuild_report import lost_ranges, report_shortened, warn_of_many_repeats
from reput.pipeline.build.rebuild_state import EndToKeep, RebuildRun
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.stitch import Stitched
from reput.store.disk.report import QueueOddity
from reput.store.disk.retained import Retained, retained_queues, shortened_queues, unbelievable_queues, unreadable_kinds


def finish_queues(run: RebuildRun, stitched: Stitched, table: SplitQueues) -> list[Retained]:
    """Complete the staged queues of every kind; returns the queues that keep their numbers without any record."""
    sides = [SIDES[kind]() for kind in run.job.kinds]
    outcomes: list[QueueOutcome] = []
    crooked, has_ext = bool(table.crooked()), run.job.ext is not None
    if crooked or has_ext or any(side.reads_parts for side in sides):
        run.shut_out_late_tasks()
    if crooked and has_ext:
        # Whoever still writes entries would wipe the units' addresses: those who do them again are shut out, too.
        for side in sides:
            outcomes = side.build(run, stitched, table)
        run.shut_out_late_tasks()
        run.start_index()
    else:
        run.start_index()
        for side in sides:
            outcomes = side.build(run, stitched, table)
    for outcome in outcomes:
        row = table.rows[outcome.key]
        table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries
        if outcome.repeats or outcome.blanks or outcome.restarts:
            run.report.crooked_queues.append(_oddity(outcome))
    present = {key for key, row in table.rows.items() if table.count[row]}
    # Queues of batches keep their numbers in their own way.
    others = batch_topics(run, stitched)
    retained = [
        kept
        for kept in retained_queues(run.layout, present, stitched.end)
        if run.job.wants(kept.key.topic) and kept.key.topic not in others and kept.key not in run.job.deleted
    ]
    _report_retained(run, stitched, present, retained)
    kept = _ends_to_keep(run, stitched, table, present)
    for side in sides:
        side.finish(run, table, retained, kept, stitched.end)
    if run.options.verify:
        with run.stage("verify"):
            _verify(run, sides, table)
    return retained


def _verify(run: RebuildRun, sides: Sequence[QueueSide], table: SplitQueues) -> None:
    wrong = [text for side in sides for text in side.verify(run, table)]
    if wrong:
        raise DamagedStoreError(
            f"{run.job.queue_folder}: the new queues, read back, are not what was written: {'; '.join(wrong[:5])} "
            f"({len(wrong)} queues in all). The old ones are live; is the disk sound?"
        )


def _oddity(outcome: QueueOutcome) -> QueueOddity:
    return QueueOddity(
        outcome.key.topic.decode(),
        outcome.key.queue_id,
        outcome.repeats,
        outcome.blanks,
        outcome.restarts,
        outcome.dropped,
    )


def _report_retained(run: RebuildRun, stitched: Stitched, present: set[QueueKey], retained: list[Retained]) -> None:
    for lost in unbelievable_queues(run.layout, present, stitched.end):
        if run.job.wants(lost.key.topic) and lost.key.topic not in batch_topics(run, stitched):
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
        if kept.source.endswith(".json"):
            run.report.warnings.append(
                f"{kept.key}: no record and no old queue; its numbering goes on at {kept.next}, the highest committed "
                "offset in consumerOffset.json"
            )


def _ends_to_keep(run: RebuildRun, stitched: Stitched, table: SplitQueues, present: set[QueueKey]) -> list[EndToKeep]:
    """Queues whose last messages are lost keep their numbering; those that end too early otherwise are told."""
    ends = {key: int(table.next[table.rows[key]]) for key in present}
    kept = []
    for queue in shortened_queues(run.layout, ends, lost_ranges(run, stitched), stitched.end):
        report_shortened(run.report, queue, queue.lost)
        if queue.lost:
            kept.append(EndToKeep(queue.key, queue.next, queue.old_end))
            table.next[table.rows[queue.key]] = queue.old_end
    return kept


def queue_parts(run: RebuildRun) -> list[str]:
    """What the kinds that were built have swapped in, relative to the store."""
    found = {part: None for kind in run.job.kinds for part in SIDES[kind]().parts(run)}
    if paths.CONSUME_QUEUE in found:
        return [part for part in found if not part.startswith(f"{paths.CONSUME_QUEUE}/")]
    return list(found)
