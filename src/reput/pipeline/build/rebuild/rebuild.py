"""rebuild: both indexes of a store from its log, in staging, and swapped in when they are proved whole.

It takes the steps of a job that follows the log (`grow`), from an empty store in staging, and then a swap:
split, decode, prove, place, index, swap.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ReputError
from reput.files import fs
from reput.pipeline.build import publish
from reput.pipeline.build.index.kinds import IndexStage
from reput.pipeline.build.kinds import queue_builders
from reput.pipeline.build.rebuild import deletions
from reput.pipeline.build.rebuild.new_state import new_state
from reput.pipeline.build.rebuild.next_offsets import keep_given_offsets, keep_next_offsets
from reput.pipeline.build.rebuild.options import INDEX, LOG, RebuildOptions
from reput.pipeline.build.rebuild.prepare import find_buildable, prepare
from reput.pipeline.build.rebuild.report import (
    fill_report,
    judge_log,
    refuse_unknown_topics,
    report_batches,
    report_outcomes,
    warn_of_short_index,
)
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.pipeline.build.stages.decode import decode_splits, prove
from reput.pipeline.build.stages.place import finish_queues, merge, place_queues, verify_queues
from reput.pipeline.build.stages.state import RangeQueues
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.ext_job import ext_job
from reput.pipeline.split.job import Job
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import mib, plan_splits
from reput.pipeline.split.stitch import Stitched
from reput.store.disk.given_offsets import read_given_offsets
from reput.store.disk.layout import StoreLayout
from reput.store.disk.retained import Retained
from reput.store.owner import swap
from reput.store.owner.owner import Ownership, own_store
from reput.store.owner.strays import refuse_lost_log


def rebuild_store(
    root: Path | str,
    engine: Engine,
    config: StoreConfig | None = None,
    options: RebuildOptions | None = None,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Rebuild the ConsumeQueues and IndexFiles of the store in `root` from its CommitLog.

    Raises:
        DamagedLogError: bytes in the middle of the log are no record, and `salvage` is not set.
        ReputError: see `reput.errors`; the old indexes are untouched unless the text says that the new ones are live.
    """
    config = config or StoreConfig()
    return rebuild_found(
        find_buildable(root, config), engine, config, options or RebuildOptions(), listener or ProgressListener()
    )


def rebuild_found(
    layout: StoreLayout,
    engine: Engine,
    config: StoreConfig,
    options: RebuildOptions,
    listener: ProgressListener,
    build: Callable[[Rebuild], None] | None = None,
) -> RebuildReport:
    """Rebuild the indexes of a store that `find_buildable` has found; see `rebuild_store`.

    `build` makes the indexes in staging and swaps them in, if they do not come from the log.
    """
    begin = time.perf_counter()
    with own_store(layout) as owned:
        run = _begin(layout, owned, engine, config, options, listener)
        if not run.report.built:
            run.report.seconds = {"total": round(time.perf_counter() - begin, 4)}
            return run.report
        try:
            for folder in (run.job.staging, run.job.parts_folder):
                fs.make_dirs(folder, run.job.owner)
            (build or _rebuild)(run)
        except BaseException:
            if not swap.pending_swap(layout):
                # The next owner removes what cannot be removed now: the first error is the one to raise.
                with contextlib.suppress(ReputError):
                    # An intent that was undone must not come back without what it names.
                    fs.sync_path(layout.reput)
                    fs.remove_tree(layout.staging(owned.epoch))
            raise
        run.report.seconds = {**run.clock, "total": round(time.perf_counter() - begin, 4)}
        return run.report


def _begin(
    layout: StoreLayout,
    owned: Ownership,
    engine: Engine,
    config: StoreConfig,
    options: RebuildOptions,
    listener: ProgressListener,
) -> Rebuild:
    found = prepare(layout, config, options)
    log, settings, kinds, report = found.log, found.settings, found.kinds, found.report
    report.notes[:0] = owned.notes
    has_ext = options.only != INDEX and any(kind.has_ext for kind in kinds)
    job = replace(
        Job.of_store(layout, settings, kinds, layout.staging(owned.epoch), owned.stage, tag_items=found.tag_items),
        build_queues=options.only != INDEX,
        indexes=found.indexes,
        emptied_indexes=found.emptied,
        topics=frozenset(topic.encode() for topic in options.topics) if options.topics else None,
        skip_topics=frozenset(topic.encode() for topic in options.skip_topics),
        sync_in_tasks=not engine.shares_driver_files,
        ext=ext_job(layout, settings, log.file_size) if has_ext else None,
        deleted=deletions.kept(layout, log.min_offset, options) if options.only != INDEX else {},
    )
    builders = queue_builders(layout, job)
    run = Rebuild(layout, settings, owned, engine, listener, job, builders, found.store, options, report)
    # A conversion may build what a part of the log says.
    if job.build_queues and options.source == LOG:
        run.given = read_given_offsets(layout)
    return run


def _rebuild(run: Rebuild) -> None:
    stitched = _decode(run)
    judge_log(run, stitched)
    last = next((result for result in reversed(stitched.results) if result.records), None)
    if last is None and not run.options.empty_log:
        refuse_lost_log(run.layout, "no record in the log's files")
    queues, retained = RangeQueues((), (), SplitQueues(), {}, stitched.end), list[Retained]()
    with IndexStage(run, stitched.results) as index:
        if run.job.build_queues:
            queues = _merge(run, stitched)
            retained = build_queues(run, queues, index.start)
        indexes = index.finish()
    fill_report(run, stitched, queues.table, retained, indexes)
    if not indexes and any(run.store.indexes[name].marks is None for name in run.settings.indexes.built):
        warn_of_short_index(run, stitched)
    publish.publish(run, run.log, run.report, partial(new_state, run, stitched, last, indexes))
    if run.job.build_queues:
        with swap.new_indexes_live():
            deletions.forget(run)
            keep_given_offsets(run, queues, retained, publish.fingerprint_of(run.log, last))


def _decode(run: Rebuild) -> Stitched:
    splits = plan_splits(run.log, mib("split_mb", run.options.split_mb))
    with run.stage("decode", sum(min(split.end, split.data_end) - split.begin for split in splits)):
        return prove(run, run.log.min_offset, splits, decode_splits(run, splits), run.log.gaps)


def _merge(run: Rebuild, stitched: Stitched) -> RangeQueues:
    with run.stage("merge"):
        pairs = zip(stitched.splits, stitched.results, strict=True)
        splits = [split for split, result in pairs if result.records]
        results = [result for result in stitched.results if result.records]
        # A wrong decoding has no place in staging: its queues are built again from nothing.
        queues = merge(run, splits, results, {}, stitched.end, stitched.tainted)
    refuse_unknown_topics(run, queues)
    return queues


def build_queues(run: Rebuild, queues: RangeQueues, start_index: Callable[[], None]) -> list[Retained]:
    """Build the queues of every kind in staging; returns the queues that keep their numbers without a record."""
    outcomes = place_queues(run, queues, start_index)
    report_outcomes(run.report, outcomes)
    kept = keep_next_offsets(run, queues)
    finish_queues(run, queues, kept)
    if run.options.verify:
        verify_queues(run, queues)
    if run.options.source == LOG:
        report_batches(run, queues.results)
    queues.enter(queues.others)
    return list(kept.retained)
