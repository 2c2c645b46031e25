"""Fills the report of a rebuild (`build/rebuild_report.py`), and refuses the damage that a rebuild may not hide."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from reput.errors import ConfigError, DamagedLogError, DamagedStoreError
from reput.files import fs
from reput.formats.layout import INT64_MAX, NO_LIMIT
from reput.formats.log.record import Verdict
from reput.formats.stored_text import shown_text, stored_bytes
from reput.formats.topics.lite_topics import is_light
from reput.log.read.files import LogFiles
from reput.log.read.reader import file_name, place, written_bytes
from reput.log.read.scan import MISSING_FILE, Gap
from reput.nearest import FEW, near, some
from reput.pipeline.build.index.built import IndexBuilt
from reput.pipeline.build.index.plan import IndexFileResult
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.rebuild_report import LogGap, QueueOddity, RebuildReport, TopicSummary
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.stages.state import RangeQueues
from reput.pipeline.split.job import SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.stitch import Stitched, time_regressions
from reput.store.disk.queue_types import misplaced_queues
from reput.store.disk.retained import Retained, Shortened
from reput.store.recover.bad_end import why_damaged
from reput.store.recover.known_good import why_known_good

_MANY_REPEATS = 100


def judge_log(run: Rebuild, stitched: Stitched) -> None:
    """Refuse damage in the log, unless the rebuild salvages; report its gaps and its tail.

    Raises:
        DamagedLogError: the log is damaged in the middle, and the rebuild does not salvage.
    """
    report, log = run.report, run.log
    gaps = sorted([*stitched.gaps, *_holes_apart(log, stitched)])
    report.gaps = [LogGap(gap.begin, gap.end, file_name(log, gap.begin), _why(log, gap)) for gap in gaps]
    _measure_tail(run, stitched)
    if report.gaps and not run.options.salvage:
        raise DamagedLogError(_damage_text(run, report.gaps))
    if report.gaps:
        report.warnings.append(
            "RocketMQ stops at the first byte that is no record when its own recovery scans that file, and may cut the "
            f"log there: keep a copy of the log from offset {report.gaps[0].begin} on before a broker opens this store"
        )


def _holes_apart(log: LogFiles, stitched: Stitched) -> list[Gap]:
    """Return the ranges of missing files that records follow and that no gap of the chain covers."""
    return [
        Gap(begin, end, Verdict.TRUNCATED)
        for begin, end in log.gaps
        if end <= stitched.end and not any(gap.begin <= begin and end <= gap.end for gap in stitched.gaps)
    ]


def _why(log: LogFiles, gap: Gap) -> str:
    return MISSING_FILE if (gap.begin, gap.end) in log.gaps else gap.verdict.meaning


def _damage_text(run: Rebuild, gaps: Sequence[LogGap]) -> str:
    listed = "; ".join(
        f"{place(run.log, gap.begin)}: {gap.why}, {gap.size} bytes suspect until the next record at {gap.end}"
        for gap in islice(gaps, 5)
    )
    more = f" and {len(gaps) - 5} more places" if len(gaps) > 5 else ""
    return (
        f"the log is damaged, with good records after it: {listed}{more}. "
        "The old indexes are untouched. Restore these bytes from a replica or a backup, or add --salvage to build "
        "from all good records"
    )


def _measure_tail(run: Rebuild, stitched: Stitched) -> None:
    verdict = stitched.tail_verdict
    size = 0 if verdict is None else written_bytes(run.log, stitched.end)
    if verdict is None or not size:
        _look_for_lost_end(run, stitched)
        return
    run.report.torn_tail_offset, run.report.torn_tail_bytes = stitched.end, size
    found = f"{place(run.log, stitched.end)}: {verdict.meaning}, {size} bytes, and no record after it"
    with run.store.maps() as log:
        known = why_damaged(run.store, log, stitched.end, size)
    if not run.log.is_whole:
        # reput does not open this log to write, and RocketMQ does so only if no length is odd.
        given_up = f", though {known}: these messages are given up" if known else ""
        run.report.warnings.append(f"{found}{given_up}. It was left out of the indexes and stays in the log")
    elif not known:
        run.report.notes.append(
            f"{found}: what a crash leaves of its last writes. It was left out of the indexes and stays in the log, "
            "until RocketMQ or reput opens the store to write and cuts it off"
        )
    elif run.options.salvage:
        run.report.warnings.append(
            f"{found}, though {known}: these messages are given up. They are cut off when the store is next opened to "
            "write"
        )
    else:
        run.keeps_known_good = True
        run.report.warnings.append(
            f"{found}, though {known}: a crash does not leave such an end. The indexes end before it. RocketMQ would "
            "cut it off when it opens the store; reput will not open it to write. Restore these bytes from a replica "
            "or a backup, or give them up with --salvage"
        )


def _look_for_lost_end(run: Rebuild, stitched: Stitched) -> None:
    """Report a log that ends, with nothing after it, before what was durable: the numbers of its messages stay used."""
    last = next((result for result in reversed(stitched.results) if result.records), None)
    if last is None:
        return
    with run.store.maps() as log:
        # With the time of the last record no file is read again, unless the checkpoint has a later one.
        known = why_known_good(run.layout, log, stitched.end, 1, last.last_store_timestamp)
    if not known:
        return
    run.has_lost_end = True
    run.keeps_known_good = not run.options.salvage
    run.report.warnings.append(
        f"the log ends at {stitched.end}, though {known}: its last file or its end is lost, or an older copy is in its "
        "place. The messages after it are lost, and queues keep their numbering. Restore the files from a replica or a "
        "backup and run this again, or give them up with --salvage, which ends this warning"
    )


def fill_report(
    run: Rebuild,
    stitched: Stitched,
    table: SplitQueues,
    retained: list[Retained],
    indexes: Sequence[IndexBuilt],
) -> None:
    """Fill the report with what was built, and from what."""
    report, results, index_files = run.report, stitched.results, files_of(indexes)
    report.log_min_offset, report.log_max_offset = run.log.min_offset, stitched.end
    report.log_bytes = stitched.end - run.log.min_offset - sum(gap.size for gap in report.gaps)
    report.messages = sum(result.records for result in results)
    report.index_items = sum(result.items for result in results) if index_files else 0
    report.index_entries = sum(index.entries for index in indexes)
    report.prepared = sum(result.oddities.prepared for result in results)
    report.rolled_back = sum(result.oddities.rolled_back for result in results)
    report.stitched_again = len(stitched.decoded_again)
    report.index_files = [file.name for file in index_files or ()]
    report.topics = topic_summaries(table)
    report.queues = sum(topic.queues for topic in report.topics) + len(retained)
    report.queue_entries = sum(topic.entries for topic in report.topics)
    _report_times(report, results)
    broker = run.store.topics
    configured = broker.names
    # A broker's configuration does not list light queues.
    built = [topic.topic for topic in report.topics if not is_light(topic.topic)]
    deleted = [topic for topic in built if broker.was_deleted(topic.encode())]
    if deleted:
        report.notes.append(
            f"not in {broker.place.name}, perhaps deleted: {some(deleted, FEW)}; "
            "their queues were built from what is left in the log (--skip-topic leaves one out)"
        )
    missing = sorted(topic for topic in run.job.topics or () if topic not in {key.topic for key in table.keys})
    for topic in missing:
        known = topic in configured or any(one.key.topic == topic for one in retained)
        known = known or _has_old_queues(run, os.fsdecode(topic))
        what = "; its queues keep their numbering" if known else ", nor the store a queue (`reput info` lists them)"
        report.warnings.append(f"--topic {os.fsdecode(topic)}: the log has no message of this topic{what}")


def _report_times(report: RebuildReport, results: Sequence[SplitResult]) -> None:
    if found := time_regressions(results):
        report.time_regressions, report.first_time_regression = found
        report.warnings.append(found.text)


def files_of(indexes: Sequence[IndexBuilt]) -> list[IndexFileResult] | None:
    """Return the IndexFiles that were built; None if IndexFiles were left alone."""
    return next((list(index.files) for index in indexes if index.files is not None), None)


def topic_summaries(table: SplitQueues) -> list[TopicSummary]:
    """Return a summary of what was built of each topic."""
    found: dict[bytes, TopicSummary] = {}
    for key, row in table.rows.items():
        if not table.count[row]:
            continue
        topic = found.setdefault(key.topic, TopicSummary(key.topic.decode(), 0, 0, NO_LIMIT, 0))
        topic.queues += 1
        topic.entries += int(table.count[row])
        topic.min_offset = min(topic.min_offset, int(table.first[row]))
        topic.max_offset = max(topic.max_offset, int(table.next[row]))
    return [found[topic] for topic in sorted(found)]


def refuse_unknown_topics(run: Rebuild, queues: RangeQueues) -> None:
    """Refuse topics that neither the log nor the store has: nothing is built for a name that is mistyped.

    Raises:
        ConfigError: none of the topics given by --topic, or by --skip-topic, is in the log, among the broker's topics
            or among the old queues.
    """
    known_topics = {key.topic for key in (*queues.table.keys, *run.job.deleted)}.union(
        run.job.types.batch, run.store.topics.names, *(result.skipped for result in queues.results)
    )
    for option, topics in (("--topic", run.options.topics), ("--skip-topic", run.options.skip_topics)):
        known = [topic for topic in topics if stored_bytes(topic) in known_topics or _has_old_queues(run, topic)]
        if topics and not known:
            names = sorted({shown_text(name) for name in known_topics.union(_old_topics(run))})
            raise ConfigError(
                f"{option} {some(topics, FEW)}: neither the log nor {run.layout.consume_queue} has such a topic. "
                f"Nothing was changed. {near(topics[0], names)}"
            )


def _old_topics(run: Rebuild) -> Iterator[bytes]:
    for kind in run.store.present:
        # A kind that cannot be read gives no topics.
        with contextlib.suppress(DamagedStoreError):
            yield from kind.topics()


def _has_old_queues(run: Rebuild, topic: str) -> bool:
    if fs.exists(run.layout.consume_queue / topic):
        return True
    for kind in run.store.present:
        # A kind that cannot be read gives no topics.
        with contextlib.suppress(DamagedStoreError), contextlib.closing(kind.queues(os.fsencode(topic))) as queues:
            if next(queues, None) is not None:
                return True
    return False


def lost_ranges(run: Rebuild, log_end: int) -> list[tuple[int, int]]:
    """Return the ranges of the log that salvage went around, or that are lost, and that may have held messages."""
    lost_end = [(log_end, INT64_MAX)] if run.has_lost_end else []
    if not run.options.salvage:
        return lost_end
    tail = [(log_end, run.log.end_offset)] if run.report.torn_tail_offset is not None else lost_end
    return [(gap.begin, gap.end) for gap in run.report.gaps] + tail


def report_outcomes(report: RebuildReport, outcomes: Iterable[QueueOutcome]) -> None:
    """Report the queues that are out of order."""
    for one in outcomes:
        if one.is_odd:
            topic, queue_id = one.key.topic.decode(), one.key.queue_id
            report.out_of_order_queues.append(
                QueueOddity(topic, queue_id, one.repeats, one.blanks, one.restarts, one.dropped)
            )


def report_batches(run: Rebuild, results: Sequence[SplitResult]) -> None:
    """Report batches without an entry, and queues of batches in the wrong folder."""
    report = run.report
    found = [result.oddities for result in results if result.oddities.without_entry]
    if found:
        report.warnings.append(
            f"{place(run.log, found[0].first_without_entry)}: a batch whose INNER_NUM or INNER_BASE cannot be; "
            f"{sum(one.without_entry for one in found)} such records have no entry"
        )
    report.notes += [f"{what}; they are not built again" for what in misplaced_queues(run.layout, run.settings.types)]


def report_shortened(report: RebuildReport, short: Shortened, kept: bool) -> None:
    """Report a queue that ends before its old end or a committed offset; `kept`: it keeps its numbering."""
    end = short.old_end if kept else short.next
    ended = f"ended at queue offset {short.old_end}, " if short.old_end else ""
    committed = f"; the highest committed offset is {short.committed}" if short.committed > end else ""
    if kept:
        report.retained_queues.append(f"{short.key} goes on at {end} (messages {short.next} to {end - 1} are lost)")
        report.warnings.append(
            f"{short.key}: messages {short.next} to {end - 1} are lost with a part of the log; the numbering goes "
            f"on at {end} all the same{committed}"
        )
        return
    report.warnings.append(
        f"{short.key}: {ended}ends at {short.next} now{committed}. New messages will be given numbers that consumers "
        "may have passed: reset the offsets of consumers past its end"
    )


def warn_of_short_index(run: Rebuild, stitched: Stitched) -> None:
    """Warn if the IndexFiles, which were left alone, end before the new queues do."""
    with_items = [result for result in stitched.results if result.items]
    if not with_items:
        return
    last = with_items[-1]
    # If messages without items follow, the last one with items is somewhere in this split.
    needed = last.first_record if last.records_after_last_item else last.last_record
    frontier = run.store.frontier
    ends = [file.header.end_physical_offset + 1 for file in run.store.index_files if file.header]
    covered = max([frontier.index_offset if frontier else 0, *ends])
    if covered <= needed:
        run.report.warnings.append(
            f"the IndexFiles, which were left alone, end at log offset {covered} and the queues at {stitched.end}: "
            "messages in between are not found by key. Build them with --only index"
        )


def warn_of_many_repeats(report: RebuildReport) -> None:
    """Warn of many repeats: a few are a producer's retry or a broker's crash, many look like a new generation."""
    for queue in report.out_of_order_queues:
        if queue.repeats >= _MANY_REPEATS:
            report.warnings.append(
                f"{queue.topic}/{queue.queue_id}: {queue.repeats} messages have queue offsets that earlier ones had; "
                "the first of each is in the queue, as in RocketMQ. If the topic was deleted and made again, the "
                f"later ones are its messages: look at them with `reput dump log STORE -t {queue.topic}`"
            )
