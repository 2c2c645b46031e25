"""Next offsets after a rebuild: a queue whose last messages expired or are lost keeps its numbering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reput.formats.log.record import queue_offset_bound
from reput.formats.own import files as own
from reput.formats.own.given_offsets import GivenOffsets
from reput.formats.queue.consume_queue import QueueKey, QueueRange
from reput.pipeline.build.rebuild.report import lost_ranges, report_shortened, warn_of_many_repeats
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.stages.state import Lost, NextOffsets, RangeQueues
from reput.store.disk.given_offsets import first_record, offsets_of_store, write_given_offsets
from reput.store.disk.retained import Retained, retained_queues, shortened_queues, unbelievable_queues


def keep_next_offsets(run: Rebuild, queues: RangeQueues) -> NextOffsets:
    """Find the queues whose numbering the log alone would shorten, and report them."""
    present, given = {key for key, _ in queues.present()}, _given_offsets(run, queues.end)
    # Queues of other kinds keep their numbers in their own way (`QueueBuilder.keep_numbers`).
    retained = [
        one
        for one in retained_queues(run.store, present, queues.end, given)
        if run.job.wants_entries_of(one.key.topic) and one.key not in run.job.deleted
    ]
    _report_retained(run, queues, present, retained)
    lost = Lost(run.log.min_offset, [(gap.begin, gap.end) for gap in run.report.gaps])
    for builder in run.builders:
        kept = builder.keep_numbers(run, queues, lost)
        run.report.retained_queues += kept.retained
        run.report.warnings += kept.warnings
    return NextOffsets(retained, _ends_to_keep(run, queues, present, given))


def _given_offsets(run: Rebuild, log_end: int) -> dict[QueueKey, int]:
    """Return the next offsets that reput has kept, of topics that the broker still has."""
    return offsets_of_store(run.store, run.given, log_end, run.owned.watermarks["wrote_offset"])


def keep_given_offsets(
    run: Rebuild, queues: RangeQueues, retained: Sequence[Retained], last: own.Fingerprint | None
) -> None:
    """Keep the next offsets of the queues that are live now. `last`: the log's last record."""
    table = queues.table
    now = {key: int(table.next[row]) for key, row in table.rows.items() if run.job.wants_entries_of(key.topic)}
    now |= {one.key: one.next for one in retained}
    before = {} if run.job.of_all_topics else _given_offsets(run, queues.end)
    with run.store.maps() as log:
        first = first_record(log)
    write_given_offsets(run.layout, GivenOffsets(queues.end, first, last, before | now))


def _report_retained(run: Rebuild, queues: RangeQueues, present: set[QueueKey], retained: list[Retained]) -> None:
    for lost in unbelievable_queues(run.store, present, queues.end):
        if run.job.wants_entries_of(lost.key.topic):
            run.report.warnings.append(
                f"{lost.key}: no record, and the old queue's end at {lost.next} is more than a log of this size can "
                f"hold; its numbering begins again at 0 (keep {lost.source} if consumers still have offsets there)"
            )
    run.report.warnings += [
        # Its remedy is this rebuild.
        f"the old queues cannot be read, so queues without records may begin again at 0: {why.damage}"
        for why in run.store.unreadable.values()
    ]
    warn_of_many_repeats(run.report)
    for kept in retained:
        run.report.retained_queues.append(f"{kept.key} goes on at {kept.next} (from {kept.source})")
        if kept.is_committed:
            run.report.warnings.append(
                f"{kept.key}: no record and no old queue; its numbering goes on at {kept.next}, the highest committed "
                f"offset in {kept.source}"
            )


def _ends_to_keep(
    run: Rebuild, queues: RangeQueues, present: set[QueueKey], given: Mapping[QueueKey, int]
) -> list[QueueRange]:
    """Return the queues whose last messages are lost; report those that end too early for another reason."""
    table = queues.table
    ends = {key: int(table.next[table.rows[key]]) for key in present}
    kept, given = [], _bounded(run, queues.end, ends, given)
    for queue in shortened_queues(run.store, ends, lost_ranges(run, queues.end), queues.end, given):
        report_shortened(run.report, queue, queue.lost)
        if queue.lost:
            kept.append(QueueRange(queue.key, queue.next, queue.old_end))
            table.next[table.rows[queue.key]] = queue.old_end
    return kept


def _bounded(
    run: Rebuild, log_end: int, ends: Mapping[QueueKey, int], given: Mapping[QueueKey, int]
) -> Mapping[QueueKey, int]:
    """Return the given offsets, but none if the blanks up to them would be more than this log can have had messages."""
    missing = sum(max(0, given[key] - end) for key, end in ends.items() if key in given)
    if missing <= queue_offset_bound(log_end):
        return given
    run.report.warnings.append(
        f"{own.GIVEN_OFFSETS_PART} names {missing} lost messages, more than a log of this size can have had; it is "
        "left out"
    )
    return {}
