"""rebuild: both indexes of a store from its log, beside the old ones, and swapped in when they are proved whole."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import DamagedStoreError, ReputError
from reput.files import fs
from reput.formats import own, paths
from reput.formats.checkpoint import Checkpoint
from reput.formats.consume_queue import QueueKey
from reput.index.files import list_index_files
from reput.log.files import sync_log
from reput.log.maps import LogMaps
from reput.pipeline.build import deletions, publish
from reput.pipeline.build.batch_build import learn_types
from reput.pipeline.build.index_plan import IndexFileResult
from reput.pipeline.build.prepare import find_buildable, prepare
from reput.pipeline.build.rebuild_batches import batch_parts, batch_topics, build_batches, enter_batches
from reput.pipeline.build.rebuild_index import IndexStage
from reput.pipeline.build.rebuild_queues import finish_queues, queue_parts
from reput.pipeline.build.rebuild_report import (
    fill_report,
    judge,
    refuse_unknown_topics,
    warn_of_index_behind,
)
from reput.pipeline.build.rebuild_state import INDEX, RebuildOptions, RebuildRun
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split import parts
from reput.pipeline.split.ext_job import ext_job
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split, mib, plan_splits
from reput.pipeline.split.stitch import Stitched, stitch
from reput.pipeline.split.tasks import decode_and_sink
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.frontier import read_frontier
from reput.store.disk.kinds import all_kinds, present_kinds
from reput.store.disk.layout import StoreLayout
from reput.store.disk.report import RebuildReport
from reput.store.disk.retained import Retained
from reput.store.owner import swap
from reput.store.owner.owner import Ownership, own_store
from reput.store.owner.strays import refuse_lost_log
from reput.store.recover.known_good import known_good
from reput.store.recover.recovery import find_start, fingerprint_before


def rebuild_store(
    root: Path | str,
    engine: Engine,
    config: StoreConfig | None = None,
    options: RebuildOptions | None = None,
    listener: ProgressListener | None = None,
    build: Callable[[RebuildRun], None] | None = None,
) -> RebuildReport:
    """Rebuild the ConsumeQueues and IndexFiles of the store in `root` from its CommitLog.

    `build` makes the indexes in staging and swaps them in, where they do not come from the log.

    Raises:
        DamagedLogError: bytes in the middle of the log are no record, and `salvage` was not asked for.
        ReputError: see `reput.errors`; the old indexes are untouched unless the text says that the new ones are live.
    """
    config, options, listener = (
        config or StoreConfig(),
        options or RebuildOptions(),
        listener or ProgressListener(),
    )
    begin = time.perf_counter()
    layout = find_buildable(root, config)
    with own_store(layout) as owned:
        run = _prepare(layout, owned, engine, config, options, listener)
        try:
            for folder in (run.job.staging, run.job.parts_folder):
                fs.make_dirs(folder, run.job.owner)
            (build or _rebuild)(run)
        except BaseException:
            if not swap.pending_swap(layout):
                # What cannot be removed now the next owner removes: the error to tell is the first one.
                with contextlib.suppress(ReputError):
                    fs.remove_tree(layout.staging(owned.epoch))
            raise
        run.report.seconds = {**run.clock, "total": round(time.perf_counter() - begin, 4)}
        return run.report


def _prepare(
    layout: StoreLayout,
    owned: Ownership,
    engine: Engine,
    config: StoreConfig,
    options: RebuildOptions,
    listener: ProgressListener,
) -> RebuildRun:
    found = prepare(layout, config, options)
    log, settings, kinds, report = found.log, found.settings, found.kinds, found.report
    report.notes[:0] = owned.notes
    has_ext = options.only != INDEX and any(kind.has_ext for kind in kinds)
    staging = layout.staging(owned.epoch)
    job = replace(
        Job.of_store(layout, settings, kinds, staging, owned.stage, tag_items=found.tag_items),
        build_queues=options.only != INDEX,
        build_index=found.build_index,
        topics=frozenset(topic.encode() for topic in options.topics) if options.topics else None,
        skip_topics=frozenset(topic.encode() for topic in options.skip_topics),
        sync_in_tasks=not engine.shares_driver_files,
        ext=ext_job(layout, settings, log.file_size) if has_ext else None,
        deleted=deletions.kept(layout, log.min_offset, options) if options.only != INDEX else {},
    )
    return RebuildRun(layout, log, settings, options, owned, engine, job, listener, report)


def _rebuild(run: RebuildRun) -> None:
    stitched = _decode(run)
    job = run.job
    judge(run, stitched)
    results = stitched.results
    last = next((result for result in reversed(results) if result.records), None)
    if last is None and not run.options.empty_log:
        refuse_lost_log(run.layout, "no record in the log's files")
    table = SplitQueues()
    retained: list[Retained] = []
    with IndexStage(run, results) as index:
        run.start_index = index.start
        if job.build_queues:
            table = _merge(run, stitched)
            refuse_unknown_topics(run, stitched, table, batch_topics(run, stitched))
            batches = build_batches(run, stitched, table)
            retained = finish_queues(run, stitched, table)
            enter_batches(table, batches)
        index_files = index.finish()
    fill_report(run, stitched, table, retained, index_files)
    if not job.build_index and run.settings.index_enabled:
        warn_of_index_behind(run, stitched)
    whole = job.build_queues and job.of_all_topics
    _publish(run, stitched, last, index_files, whole)


def _decode(run: RebuildRun) -> Stitched:
    splits = plan_splits(run.log, mib("split_mb", run.options.split_mb))
    task = partial(decode_and_sink, run.job)
    with run.stage("decode", sum(min(split.end, split.data_end) - split.begin for split in splits)):
        results = run.engine.run(task, splits, run.listener.advance)
        # What a wrong decoding put into staging has no place there: its queues are built again from nothing.
        before = {result.number: result for result in results}
        tainted: dict[int, list[QueueKey]] = {}

        def again(split: Split) -> SplitResult:
            if run.job.build_queues and before[split.number].records:
                tainted[split.number] = parts.load_ranges(run.job, split.number).keys
            return run.engine.run(task, [split], _silent)[0]

        stitched = stitch(run.log.min_offset, splits, results, again, run.log.gaps)
        stitched.tainted = [key for keys in tainted.values() for key in keys]
        run.job = learn_types(
            run.job,
            stitched,
            [all_kinds(run.layout)[name] for name in run.job.kinds],
            lambda job, more: run.engine.run(partial(decode_and_sink, job), more, _silent),
        )
    return stitched


def _silent(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
    return None


def _merge(run: RebuildRun, stitched: Stitched) -> SplitQueues:
    table = SplitQueues()
    with run.stage("merge"):
        for result in stitched.results:
            if result.records:
                table.add(parts.load_ranges(run.job, result.number))
        table.mark_crooked(key for key in stitched.tainted if run.job.wants(key.topic))
    return table


def _publish(
    run: RebuildRun,
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
        # The checkpoint calls the log durable, which may lie on another disk than the rest.
        sync_log(run.log)
        checkpoint = publish.next_checkpoint(old, last, whole, index_files)
        checkpoint = _mark_known_good(run, stitched, old, checkpoint)
        publish.stage_checkpoint(layout, run.owned.epoch, checkpoint, job.owner)
        before = read_frontier(layout) or _frontier_of_others(run, whole)
        frontier = publish.next_frontier(run.owned, run.log, stitched.end, last, whole, index_files, before)
        publish.stage_frontier(layout, run.owned.epoch, frontier, job.owner)
        swap_parts = [paths.CHECKPOINT, own.FRONTIER_PART]
        if job.build_index:
            swap_parts.insert(0, paths.INDEX)
        if job.build_queues:
            swap_parts[:0] = [*batch_parts(run, whole), *queue_parts(run)]
        if job.build_queues:
            deletions.report(run)
        publish.go_live(run.owned, swap_parts, run.report)
        if job.build_queues:
            deletions.forget(run)


def _frontier_of_others(run: RebuildRun, whole: bool) -> own.Frontier:
    """How far the indexes are complete which somebody else has built and this job leaves.

    Those are the queues, unless it builds the `whole`, and the IndexFiles, unless it builds them. It is what opening
    the store finds; where queues are lost or cannot be read, all is complete up to nowhere.
    """
    nothing = own.Frontier(run.owned.watermarks.store_id)
    kinds = [] if whole and run.job.build_index else present_kinds(run.layout, run.job.queue_file_size)
    if not kinds:
        return nothing
    log = LogMaps(run.layout.commit_log, run.log.file_size)
    try:
        found = find_start(run.layout, log, kinds, run.settings.index_enabled, run.job.types).frontiers
        of_queues, of_index = fingerprint_before(log, found.queue_offset), fingerprint_before(log, found.index_offset)
    except DamagedStoreError:
        return nothing
    finally:
        log.close()
    frontier = nothing
    if of_queues is not None and not whole:
        frontier = frontier._replace(queue_offset=found.queue_offset, queue_fingerprint=of_queues)
    if of_index is not None and not run.job.build_index:
        last = next(reversed(list_index_files(run.layout.index)), None)
        frontier = frontier._replace(
            index_offset=found.index_offset,
            index_fingerprint=of_index,
            index_file=last.path.name if last else "",
            index_count=last.header.index_count if last and last.header else 0,
        )
    return frontier


def _mark_known_good(run: RebuildRun, stitched: Stitched, old: Checkpoint, new: Checkpoint) -> Checkpoint:
    """Keep the proof that the log's end was good (`reput.store.recover.known_good`), or drop it with a log given up.

    Returns the new checkpoint with what it has to keep of the old one.
    """
    if run.keeps_known_good:
        kept = max(run.owned.watermarks["flushed_offset"], known_good(run.layout).offset)
        run.owned.watermarks["flushed_offset"] = kept
        return new._replace(physic_msg_timestamp=max(old.physic_msg_timestamp, new.physic_msg_timestamp))
    if run.report.torn_tail_offset is not None:
        # Killed before the swap the old frontier and checkpoint still tell, or the next run says so again.
        run.owned.watermarks["flushed_offset"] = min(run.owned.watermarks["flushed_offset"], stitched.end)
    return new
