"""The new state of a store that a rebuild publishes: its checkpoint, its frontier, and the parts that are swapped in.

What the job has built is complete up to the log's end. Indexes that the job did not build keep their frontier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reput.errors import DamagedStoreError
from reput.formats.checkpoint import Checkpoint
from reput.formats.own import files as own
from reput.log.read.files import LogFiles
from reput.pipeline.build import publish
from reput.pipeline.build.index.built import IndexBuilt
from reput.pipeline.build.index.plan import IndexFileResult
from reput.pipeline.build.rebuild import deletions
from reput.pipeline.build.rebuild.report import files_of
from reput.pipeline.build.rebuild.state import Rebuild
from reput.pipeline.build.stages.place import queue_parts
from reput.pipeline.split.job import SplitResult
from reput.pipeline.split.stitch import Stitched
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.kinds import present_kinds
from reput.store.owner.owner import Ownership
from reput.store.recover.known_good import known_good
from reput.store.recover.recovery import find_start_of, fingerprint_before


def new_state(
    run: Rebuild, stitched: Stitched, last: SplitResult | None, indexes: Sequence[IndexBuilt]
) -> publish.Published:
    """Return the new state of the store; the log is durable by now. `last`: the last split with a record.

    Raises:
        DamagedStoreError: the frontier file is not a frontier.
    """
    job, layout = run.job, run.layout
    whole = job.build_queues and job.of_all_topics
    old, index_files = read_checkpoint(layout), files_of(indexes)
    checkpoint = _next_checkpoint(old, last, whole, index_files)
    checkpoint = _mark_known_good(run, stitched, old, checkpoint)
    before = run.store.frontier or _frontier_of_others(run, whole, index_files is not None)
    if index_files is None and job.indexes and not run.store.index_files:
        # Another kind has its own marks. The frontier says that no IndexFile is needed.
        index_files = []
    frontier = _next_frontier(run.owned, run.log, stitched.end, last, whole, index_files, before)
    parts = [*queue_parts(run)] if job.build_queues else []
    parts += [part for index in indexes for part in index.parts]
    if job.build_queues:
        deletions.report(run)
    return publish.Published(checkpoint, frontier, parts)


def _next_checkpoint(
    old: Checkpoint, last: SplitResult | None, queues: bool, index_files: list[IndexFileResult] | None
) -> Checkpoint:
    """Return the checkpoint of a store whose log and indexes are durable up to its last record.

    When RocketMQ opens a store after a crash, it destroys every IndexFile that ends later than index_msg_timestamp, and
    scans the log from the last file whose first record is not after the logics offset (before 5.5: times). So these
    fields say what is true.
    """
    new = old
    if last is not None:
        new = new._replace(physic_msg_timestamp=last.last_store_timestamp, confirm_phy_offset=last.last_record)
        if queues:
            new = new._replace(logics_msg_timestamp=last.last_store_timestamp, logics_physical_offset=last.last_record)
    if index_files is not None:
        ends = [file.header.end_timestamp for file in index_files]
        new = new._replace(index_msg_timestamp=max(ends, default=0))
    return new


def _next_frontier(
    owned: Ownership,
    log: LogFiles,
    end: int,
    last: SplitResult | None,
    queues: bool,
    index_files: list[IndexFileResult] | None,
    old: own.Frontier,
) -> own.Frontier:
    """Return the frontier of the new indexes; an index that this job did not build keeps its place in `old`."""
    fingerprint = publish.fingerprint_of(log, last)
    new = old._replace(store_id=owned.watermarks.store_id, epoch=owned.epoch)
    if queues:
        new = new._replace(queue_offset=end, queue_fingerprint=fingerprint)
    if index_files is not None:
        final = index_files[-1] if index_files else None
        new = new._replace(
            index_offset=end,
            index_fingerprint=fingerprint,
            index_file=final.name if final else "",
            index_count=final.header.index_count if final else 0,
        )
    return new


def _frontier_of_others(run: Rebuild, whole: bool, has_index_files: bool) -> own.Frontier:
    """Return how far the indexes are complete that another program built and this job leaves alone.

    These are the queues, unless the job builds the `whole`, and the IndexFiles, unless it builds them. Opening the
    store finds the same. If queues are lost or cannot be read, both are complete up to nowhere.
    """
    nothing = own.Frontier(run.owned.watermarks.store_id)
    kinds = [] if whole and has_index_files else present_kinds(run.layout, run.job.queue_file_size)
    if not kinds:
        return nothing
    try:
        with run.store.maps() as log:
            settings = replace(run.settings, types=run.job.types)
            found = find_start_of(run.store, log, kinds, settings, run.store.index_shown).frontiers
            of_queues = fingerprint_before(log, found.queue_offset)
            of_index = fingerprint_before(log, found.index_offset)
    except DamagedStoreError:
        return nothing
    frontier = nothing
    if of_queues is not None and not whole:
        frontier = frontier._replace(queue_offset=found.queue_offset, queue_fingerprint=of_queues)
    if of_index is not None and not has_index_files:
        last = next(reversed(run.store.index_files), None)
        frontier = frontier._replace(
            index_offset=found.index_offset,
            index_fingerprint=of_index,
            index_file=last.path.name if last else "",
            index_count=last.header.index_count if last and last.header else 0,
        )
    return frontier


def _mark_known_good(run: Rebuild, stitched: Stitched, old: Checkpoint, new: Checkpoint) -> Checkpoint:
    """Keep the proof that the log's end was good (`reput.store.recover.known_good`), or drop it if the end is given up.

    Returns the new checkpoint with what it must keep of the old one.
    """
    if run.keeps_known_good:
        # The proof may have been the old queues.
        bad = -1 if run.report.torn_tail_offset is None else run.report.torn_tail_offset
        kept = max(run.owned.watermarks["flushed_offset"], known_good(run.layout).offset, bad + 1)
        run.owned.watermarks["flushed_offset"] = kept
        return new._replace(physic_msg_timestamp=max(old.physic_msg_timestamp, new.physic_msg_timestamp))
    if run.report.torn_tail_offset is not None or run.has_lost_end:
        # After a kill before the swap the old frontier and checkpoint still say so, or the next run finds it again.
        run.owned.watermarks["flushed_offset"] = min(run.owned.watermarks["flushed_offset"], stitched.end)
    return new
