"""rebuild: both indexes of a store from its log, beside the old ones, and swapped in when they are proved whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedLogError
from reput.files import fs
from reput.formats import own, paths
from reput.formats.consume_queue import QueueKey
from reput.formats.index_file import capacity
from reput.formats.record import Verdict
from reput.log.decode import DecodeSettings
from reput.log.files import LogFiles, list_log_files
from reput.log.reader import file_name, place, written_bytes
from reput.pipeline import finish, parts, publish, redo
from reput.pipeline.decode import Gap
from reput.pipeline.engine import Engine
from reput.pipeline.index_build import IndexFileResult, build_index_file, index_names, plan_index_files
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.listener import ProgressListener
from reput.pipeline.log_findings import refuse_oddities
from reput.pipeline.merge import QueueTable
from reput.pipeline.plan import Split, plan_splits
from reput.pipeline.redo_job import redo_queues
from reput.pipeline.stitch import Stitched, stitch
from reput.pipeline.tasks import decode_and_sink
from reput.store import swap
from reput.store.checkpoint import read_checkpoint
from reput.store.frontier import read_frontier
from reput.store.index_tags import tag_items_in_use
from reput.store.layout import StoreLayout, find_store, refuse_what_we_cannot_build
from reput.store.owner import Ownership, own_store
from reput.store.report import LogGap, QueueOddity, RebuildReport, TopicSummary
from reput.store.retained import Retained, configured_topics, retained_queues, unbelievable_queues
from reput.store.settings import StoreSettings, resolve_settings

QUEUE, INDEX = "queue", "index"
AUTO, ON, OFF = "auto", "on", "off"
DEFAULT_SPLIT_MB = 128
_MAX_SPLIT_MB = 1024
_NAMED = 5


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What a rebuild does; see `reput rebuild --help` for each."""

    only: str | None = None
    topics: tuple[str, ...] = ()
    skip_topics: tuple[str, ...] = ()
    index_tags: str = AUTO
    salvage: bool = False
    verify_crc: bool = True
    split_mb: float = DEFAULT_SPLIT_MB

    def __post_init__(self) -> None:
        if self.only not in (None, QUEUE, INDEX):
            raise ConfigError(f"only={self.only!r}: choose {QUEUE} or {INDEX}")
        if self.index_tags not in (AUTO, ON, OFF):
            raise ConfigError(f"index_tags={self.index_tags!r}: choose {AUTO}, {ON} or {OFF}")
        if not 0 < self.split_mb <= _MAX_SPLIT_MB:
            raise ConfigError(f"split_mb={self.split_mb}: a number above 0 and at most {_MAX_SPLIT_MB} is needed")
        for topic in (*self.topics, *self.skip_topics):
            if not paths.is_topic_folder_name(topic.encode("utf-8", "surrogateescape")):
                raise ConfigError(f"topic {topic!r}: no name of a topic")
        if self.topics and self.only == INDEX:
            raise ConfigError("--topic chooses queues, and --only index builds none: give one of them")


@dataclass(slots=True)
class _Run:
    """A rebuild under way: what it knows and what it has found."""

    layout: StoreLayout
    log: LogFiles
    settings: StoreSettings
    options: RebuildOptions
    owned: Ownership
    engine: Engine
    job: Job
    listener: ProgressListener
    report: RebuildReport
    clock: dict[str, float] = field(default_factory=dict)

    def shut_out_late_tasks(self) -> None:
        """No attempt of a task so far may write any more, not even one that Spark has given up."""
        self.job = replace(self.job, epoch=self.owned.next_stage())

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:
        self.owned.verify()
        self.listener.stage(name, total_bytes)
        begin = time.perf_counter()
        yield
        self.clock[name] = round(time.perf_counter() - begin, 4)


def rebuild_store(
    root: Path | str,
    engine: Engine,
    config: StoreConfig | None = None,
    options: RebuildOptions | None = None,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Rebuild the ConsumeQueues and IndexFiles of the store in `root` from its CommitLog.

    Raises:
        DamagedLogError: bytes in the middle of the log are no record, and `salvage` was not asked for.
        ReputError: see `reput.errors`; the old indexes are then untouched.
    """
    config, options, listener = (
        config or StoreConfig(),
        options or RebuildOptions(),
        listener or ProgressListener(),
    )
    begin = time.perf_counter()
    layout = find_store(root, config)
    refuse_what_we_cannot_build(layout, config)
    with own_store(layout) as owned:
        run = _prepare(layout, owned, engine, config, options, listener)
        try:
            _rebuild(run)
        finally:
            if not swap.pending_swap(layout):
                fs.remove_tree(layout.staging(owned.epoch))
        run.report.seconds = {**run.clock, "total": round(time.perf_counter() - begin, 4)}
        return run.report


def _prepare(
    layout: StoreLayout,
    owned: Ownership,
    engine: Engine,
    config: StoreConfig,
    options: RebuildOptions,
    listener: ProgressListener,
) -> _Run:
    log = list_log_files(layout.commit_log, config.mapped_file_size_commit_log, tolerant=options.salvage)
    settings = resolve_settings(layout, config, options.verify_crc)
    report = RebuildReport(str(layout.root), options.salvage, assumed=list(settings.assumed))
    report.notes += [*owned.notes, *log.notes]
    build_index = options.only != QUEUE and settings.index_enabled
    if options.only != QUEUE and not settings.index_enabled:
        report.notes.append("messageIndexEnable=false: the IndexFiles were left alone")
    tag_items = _tag_items(layout, log, settings, options, report) if build_index else False
    job = Job(
        reput_folder=str(layout.reput),
        staging=str(layout.staging(owned.epoch)),
        epoch=owned.stage,
        decode=DecodeSettings(settings.crc_check, tag_items, settings.delays_ms),
        queue_file_size=settings.queue_file_size,
        index_slots=settings.index_slots,
        index_items=settings.index_items,
        owner=fs.owner_of(layout.root),
        build_queues=options.only != INDEX,
        build_index=build_index,
        topics=frozenset(topic.encode() for topic in options.topics) if options.topics else None,
        skip_topics=frozenset(topic.encode() for topic in options.skip_topics),
        sync_in_tasks=not engine.shares_driver_files,
    )
    report.built = [name for name, wanted in ((QUEUE, job.build_queues), (INDEX, job.build_index)) if wanted]
    # One that cannot be read is refused before any work, not when the new indexes are ready.
    read_frontier(layout)
    return _Run(layout, log, settings, options, owned, engine, job, listener, report)


def _tag_items(
    layout: StoreLayout,
    log: LogFiles,
    settings: StoreSettings,
    options: RebuildOptions,
    report: RebuildReport,
) -> bool:
    if options.index_tags != AUTO:
        return options.index_tags == ON
    told = tag_items_in_use(layout, log, settings.index_slots)
    if told is None:
        report.assumed.append("tags are indexed, as RocketMQ does since 5.4.0 (--index-tags off for older brokers)")
        return True
    report.notes.append(f"tags are {'' if told else 'not '}indexed, as in the present IndexFiles")
    return told


def _rebuild(run: _Run) -> None:
    job = run.job
    for folder in (job.staging, job.parts_folder):
        fs.make_dirs(folder, job.owner)
    stitched = _decode(run)
    _judge(run, stitched)
    results = stitched.results
    last = next((result for result in reversed(results) if result.records), None)
    table = _merge(run, stitched) if job.build_queues else QueueTable()
    retained = _finish_queues(run, stitched, table) if job.build_queues else []
    index_files = _build_index(run, results) if job.build_index else None
    _fill_report(run, stitched, table, retained, index_files)
    whole = job.build_queues and job.topics is None and not job.skip_topics
    _publish(run, stitched, last, index_files, whole)


def _decode(run: _Run) -> Stitched:
    splits = plan_splits(run.log, max(1, int(run.options.split_mb * (1 << 20))))
    task = partial(_split_task, run.job)
    with run.stage("decode", sum(min(split.end, split.data_end) - split.begin for split in splits)):
        results = run.engine.run(task, splits, run.listener.advance)
        # What a wrong decoding put into staging has no place there: its queues are built again from nothing.
        before = {result.number: result for result in results}
        tainted: dict[int, list[QueueKey]] = {}

        def again(split: Split) -> SplitResult:
            if run.job.build_queues and before[split.number].records:
                path = parts.ranges_path(run.job.parts_folder, split.number)
                tainted[split.number] = parts.load_ranges(path).keys
            return run.engine.run(task, [split], _silent)[0]

        stitched = stitch(run.log.min_offset, splits, results, again, run.log.gaps)
        stitched.tainted = [key for keys in tainted.values() for key in keys]
    return stitched


def _split_task(job: Job, split: Split) -> SplitResult:
    return decode_and_sink(job, split)


def _silent(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
    return None


def _judge(run: _Run, stitched: Stitched) -> None:
    """Refuse what cannot be built, and damage that nobody asked to go around."""
    report, log = run.report, run.log
    refuse_oddities(log, stitched.results)
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
    """The missing files' ranges that no gap of the chain covers already, and behind which records follow."""
    return [
        Gap(begin, end, Verdict.TRUNCATED)
        for begin, end in log.gaps
        if end <= stitched.end and not any(gap.begin <= begin and end <= gap.end for gap in stitched.gaps)
    ]


def _why(log: LogFiles, gap: Gap) -> str:
    return "missing log file" if (gap.begin, gap.end) in log.gaps else gap.verdict.meaning


def _damage_text(run: _Run, gaps: Sequence[LogGap]) -> str:
    listed = "; ".join(
        f"{place(run.log, gap.begin)}: {gap.why}, {gap.size} bytes suspect until the next record at {gap.end}"
        for gap in islice(gaps, 5)
    )
    more = f" and {len(gaps) - 5} more places" if len(gaps) > 5 else ""
    return (
        f"the log is damaged, with good records behind: {listed}{more}. "
        "The old indexes are untouched. Restore these bytes from a replica or a backup, or add --salvage to build "
        "from all good records"
    )


def _measure_tail(run: _Run, stitched: Stitched) -> None:
    verdict = stitched.tail_verdict
    if verdict is None:
        return
    size = written_bytes(run.log, stitched.end)
    if size:
        run.report.torn_tail_offset, run.report.torn_tail_bytes = stitched.end, size
        run.report.notes.append(
            f"{place(run.log, stitched.end)}: {verdict.meaning}, {size} bytes, and no record behind: the torn end of a "
            "crash, ignored (RocketMQ cuts it off when it opens the store)"
        )


def _merge(run: _Run, stitched: Stitched) -> QueueTable:
    table = QueueTable()
    with run.stage("merge"):
        for result in stitched.results:
            if result.records:
                table.add(parts.load_ranges(parts.ranges_path(run.job.parts_folder, result.number)))
        table.mark_crooked(key for key in stitched.tainted if run.job.wants(key.topic))
    return table


def _finish_queues(run: _Run, stitched: Stitched, table: QueueTable) -> list[Retained]:
    crooked = table.crooked()
    outcomes: list[redo.QueueOutcome] = []
    if crooked:
        run.shut_out_late_tasks()
        with run.stage("redo"):
            outcomes = redo_queues(run.engine, run.job, stitched, crooked, run.listener)
    for outcome in outcomes:
        row = table.rows[outcome.key]
        table.first[row], table.next[row], table.count[row] = outcome.first, outcome.next, outcome.entries
        if outcome.repeats or outcome.blanks or outcome.restarts:
            run.report.crooked_queues.append(
                QueueOddity(
                    outcome.key.topic.decode(),
                    outcome.key.queue_id,
                    outcome.repeats,
                    outcome.blanks,
                    outcome.restarts,
                    outcome.dropped,
                )
            )
    present = {key for key, row in table.rows.items() if table.count[row]}
    retained = [kept for kept in retained_queues(run.layout, present, stitched.end) if run.job.wants(kept.key.topic)]
    for lost in unbelievable_queues(run.layout, present, stitched.end):
        if run.job.wants(lost.key.topic):
            run.report.warnings.append(
                f"{lost.key}: no record, and the old queue's end at {lost.next} is more than a log of this size can "
                f"hold; its numbering begins again at 0 (keep {lost.source} if consumers still have offsets there)"
            )
    for kept in retained:
        run.report.retained_queues.append(f"{kept.key} goes on at {kept.next} (from {kept.source})")
        if kept.source.endswith(".json"):
            run.report.warnings.append(
                f"{kept.key}: no record and no old queue; its numbering goes on at {kept.next}, the highest committed "
                "offset in consumerOffset.json"
            )
    queues = [(key, int(table.first[table.rows[key]])) for key in present]
    work = finish.front_blanks(run.job, queues, [(kept.key, kept.next) for kept in retained])
    if work:
        with run.stage("pre-blank"):
            run.engine.run(partial(finish.blank_fronts, run.job), finish.in_tasks(work), run.listener.advance)
    return retained


def _build_index(run: _Run, results: Sequence[SplitResult]) -> list[IndexFileResult]:
    with run.stage("index"):
        fs.make_dirs(run.job.index_folder, run.job.owner)
        plans = plan_index_files(results, capacity(run.job.index_items), index_names(datetime.now()))  # noqa: DTZ005 - RocketMQ names them by local time
        largest_first = sorted(plans, key=lambda plan: -plan.items)
        built = run.engine.run(partial(build_index_file, run.job), largest_first, run.listener.advance)
        return sorted(built)


def _publish(
    run: _Run,
    stitched: Stitched,
    last: SplitResult | None,
    index_files: list[IndexFileResult] | None,
    whole: bool,
) -> None:
    job, layout = run.job, run.layout
    old = read_checkpoint(layout)
    run.shut_out_late_tasks()
    fs.remove_tree(job.parts_folder)
    with run.stage("publish"):
        checkpoint = publish.next_checkpoint(old, last, whole, index_files)
        publish.stage_checkpoint(layout, run.owned.epoch, checkpoint, job.owner)
        frontier = publish.next_frontier(run.owned, run.log, stitched.end, last, whole, index_files)
        publish.stage_frontier(layout, run.owned.epoch, frontier, job.owner)
        swap_parts = [paths.CHECKPOINT, own.FRONTIER_PART]
        if job.build_index:
            swap_parts.insert(0, paths.INDEX)
        if job.build_queues:
            fs.make_dirs(job.queue_folder, job.owner)
            swap_parts[:0] = [paths.CONSUME_QUEUE] if whole else _staged_topics(job)
        run.owned.verify()
        swap.swap_in(layout, run.owned.epoch, tuple(swap_parts))
        run.owned.indexes_replaced()


def _staged_topics(job: Job) -> list[str]:
    return [f"{paths.CONSUME_QUEUE}/{entry.name}" for entry in fs.list_dir(job.queue_folder) if entry.is_dir]


def _fill_report(
    run: _Run,
    stitched: Stitched,
    table: QueueTable,
    retained: list[Retained],
    index_files: list[IndexFileResult] | None,
) -> None:
    report, results = run.report, stitched.results
    report.log_min_offset, report.log_max_offset = run.log.min_offset, stitched.end
    report.log_bytes = stitched.end - run.log.min_offset - sum(gap.size for gap in report.gaps)
    report.messages = sum(result.records for result in results)
    report.index_items = sum(result.items for result in results) if index_files is not None else 0
    report.prepared = sum(result.oddities.prepared for result in results)
    report.rolled_back = sum(result.oddities.rolled_back for result in results)
    report.stitched_again = len(stitched.redone)
    report.index_files = [file.name for file in index_files or ()]
    report.topics = _topics(table)
    report.queues = sum(topic.queues for topic in report.topics) + len(retained)
    report.queue_entries = sum(topic.entries for topic in report.topics)
    _report_times(report, results)
    configured = configured_topics(run.layout)
    deleted = [topic.topic for topic in report.topics if configured and topic.topic.encode() not in configured]
    if deleted:
        report.notes.append(
            f"not in topics.json, perhaps deleted: {', '.join(deleted[:_NAMED])} ({len(deleted)} in all); "
            "their queues were built from what is left in the log (--skip-topic leaves one out)"
        )
    missing = sorted(topic for topic in run.job.topics or () if topic not in {key.topic for key in table.keys})
    for topic in missing:
        report.warnings.append(f"--topic {topic.decode()}: the log has no message of this topic; its queues are kept")


def _report_times(report: RebuildReport, results: Sequence[SplitResult]) -> None:
    newest = -1
    for result in results:
        if not result.records:
            continue
        first = result.oddities.first_time_regression
        report.time_regressions += result.oddities.time_regressions
        if newest > result.first_store_timestamp:
            report.time_regressions += 1
            first = result.first_record
        if first >= 0 and report.first_time_regression is None:
            report.first_time_regression = first
        newest = result.last_store_timestamp
    if report.time_regressions:
        report.warnings.append(
            f"store times run backwards {report.time_regressions} times, first at log offset "
            f"{report.first_time_regression}: a clock was set back, or stale records lie behind a shorter new tail"
        )


def _topics(table: QueueTable) -> list[TopicSummary]:
    found: dict[bytes, TopicSummary] = {}
    for key, row in table.rows.items():
        if not table.count[row]:
            continue
        topic = found.setdefault(key.topic, TopicSummary(key.topic.decode(), 0, 0, 1 << 62, 0))
        topic.queues += 1
        topic.entries += int(table.count[row])
        topic.min_offset = min(topic.min_offset, int(table.first[row]))
        topic.max_offset = max(topic.max_offset, int(table.next[row]))
    return [found[topic] for topic in sorted(found)]
