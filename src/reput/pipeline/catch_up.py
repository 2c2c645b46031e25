"""catch-up: the indexes go on from the frontier, in place, up to a confirmed place of the log.

The range's splits are proved first (two stages, unless one split is enough: the frontier is a true boundary), because
what is written in place cannot be taken back. Then tasks decode, dispatch and write at their places; no entry of a
record below the frontier is overwritten. Queues that do not run straight on from where they end are done again in log
order. IndexFiles go on with the last one. The frontier moves last, after everything is durable: killed before, a repeat
writes the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from reput.errors import DamagedLogError, DamagedStoreError
from reput.files import fs
from reput.formats import own, paths
from reput.formats.checkpoint import CHECKPOINT_FILE_SIZE, encode_checkpoint
from reput.formats.consume_queue import QueueKey
from reput.formats.index_file import capacity, file_size
from reput.formats.record import CHECK_NONE
from reput.index.files import list_index_files, read_items
from reput.log.decode import DecodeSettings
from reput.log.files import LogFiles, list_log_files
from reput.log.reader import place
from reput.pipeline import finish, parts, publish, redo
from reput.pipeline.decode import decode_split
from reput.pipeline.engine import Engine
from reput.pipeline.index_build import IndexEnd, IndexFileResult, build_index_file, index_names, plan_index_files
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.listener import ProgressListener
from reput.pipeline.log_findings import refuse_oddities
from reput.pipeline.merge import QueueTable
from reput.pipeline.plan import Split, plan_splits
from reput.pipeline.redo_job import Extracts, QueueGroup, extract_queues
from reput.pipeline.stitch import stitch
from reput.pipeline.tasks import columns_for, decode_and_sink, split_result
from reput.store.checkpoint import read_checkpoint
from reput.store.frontier import Frontiers, read_frontier
from reput.store.indexer import CatchUp, CatchUpTask

_ONE_SPLIT_BYTES = 32 << 20
_PARALLEL_SPLIT_BYTES = 128 << 20


class SparkIndexer:
    """The store's `Indexer`: the pipeline's tasks, run by an engine (Spark, or a loop in this process)."""

    def __init__(self, engine: Engine, listener: ProgressListener | None = None) -> None:
        self.engine = engine
        self.listener = listener or ProgressListener()

    def catch_up(self, task: CatchUpTask) -> CatchUp:
        """Bring the indexes up to `task.end`; see the module's docstring.

        Raises:
            DamagedLogError: the log in between is damaged.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        begin = time.perf_counter()
        run = _Run(task, self.engine, self.listener)
        try:
            done = run.run()
        finally:
            fs.remove_tree(run.job.staging)
        done.seconds = time.perf_counter() - begin
        return done


class _Run:
    """One catch-up under way."""

    def __init__(self, task: CatchUpTask, engine: Engine, listener: ProgressListener) -> None:
        self.task = task
        self.engine = engine
        self.listener = listener
        self.log: LogFiles = list_log_files(task.layout.commit_log)
        settings, layout = task.settings, task.layout
        self.job = Job(
            reput_folder=str(layout.reput),
            staging=str(layout.staging(task.owned.epoch)),
            epoch=task.owned.next_stage(),
            decode=DecodeSettings(settings.crc_check, task.tag_items, settings.delays_ms),
            queue_file_size=settings.queue_file_size,
            index_slots=settings.index_slots,
            index_items=settings.index_items,
            owner=fs.owner_of(layout.root),
            build_index=settings.index_enabled,
            sync_in_tasks=not engine.shares_driver_files,
            live=str(layout.root),
            frontier=min(task.frontiers),
        )
        self.begin = max(min(task.frontiers), self.log.min_offset)

    def run(self) -> CatchUp:
        task, job = self.task, self.job
        if self.begin >= task.end:
            return CatchUp(task.frontiers)
        for folder in (job.staging, job.parts_folder):
            fs.make_dirs(folder, job.owner)
        splits = self._proved_splits()
        results = self.engine.run(partial(decode_and_sink, job), splits, self.listener.advance)
        self._refuse_damage(results)
        refuse_oddities(self.log, results)
        crooked = self._finish_queues(splits, results)
        index_files = self._build_index(results) if job.build_index else None
        frontiers = self._publish(results, index_files)
        return CatchUp(
            frontiers,
            messages=sum(result.records for result in results),
            queue_entries=sum(result.queue_entries for result in results),
            index_items=sum(result.items for result in results),
            log_bytes=task.end - self.begin,
            crooked_queues=crooked,
        )

    def _proved_splits(self) -> list[Split]:
        """Splits that begin at true boundaries, every one of them."""
        size = self.task.end - self.begin
        if size <= _ONE_SPLIT_BYTES:
            return plan_splits(self.log, _ONE_SPLIT_BYTES, self.begin, self.task.end)
        splits = plan_splits(self.log, _PARALLEL_SPLIT_BYTES, self.begin, self.task.end)
        walk = partial(_walk, replace(self.job, decode=self.job.decode._replace(crc_check=CHECK_NONE)))
        results = self.engine.run(walk, splits, self.listener.advance)
        stitched = stitch(self.begin, splits, results, walk, self.log.gaps)
        if stitched.gaps or stitched.end < self.task.end:
            at = stitched.gaps[0].begin if stitched.gaps else stitched.end
            raise DamagedLogError(_damage(self.log, at))
        pairs = zip(stitched.splits, stitched.results, strict=True)
        return [replace(split, begin=found.first_record, exact=True) for split, found in pairs if found.records]

    def _refuse_damage(self, results: Sequence[SplitResult]) -> None:
        for result in results:
            if result.gaps or result.open_verdict is not None:
                at = result.gaps[0].begin if result.gaps else result.chain_end
                raise DamagedLogError(_damage(self.log, at))

    def _finish_queues(self, splits: Sequence[Split], results: Sequence[SplitResult]) -> list[str]:
        """Do again in log order what does not run straight on; returns what was odd, for people."""
        table, ends = QueueTable(), self.task.queue_ends
        for result in results:
            if result.records:
                table.add(parts.load_ranges(parts.ranges_path(self.job.parts_folder, result.number)))
        table.mark_crooked(key for key, row in table.rows.items() if ends.get(key, 0) not in (0, int(table.first[row])))
        crooked = table.crooked()
        told = self._redo(crooked, splits) if crooked else []
        straight_and_new = [
            (key, int(table.first[row]))
            for key, row in table.rows.items()
            if table.straight[row] and ends.get(key, 0) == 0
        ]
        work = finish.front_blanks(self.job, straight_and_new, [])
        if work:
            self.engine.run(partial(finish.blank_fronts, self.job), finish.in_tasks(work), self.listener.advance)
        return told

    def _redo(self, crooked: list[QueueKey], splits: Sequence[Split]) -> list[str]:
        self.job = replace(self.job, epoch=self.task.owned.next_stage())
        extracts = extract_queues(self.engine, self.job, splits, crooked, self.listener)
        work = [(group, tuple(self.task.queue_ends.get(key, 0) for key in group.keys)) for group in extracts.groups]
        task = partial(_append_task, self.job, extracts._replace(groups=()))
        done = self.engine.run(task, work, self.listener.advance)
        return [
            f"{outcome.key}: {outcome.repeats} repeated, {outcome.blanks} missing, {outcome.restarts} restarts"
            for outcomes in done
            for outcome in outcomes
        ]

    def _build_index(self, results: Sequence[SplitResult]) -> list[IndexFileResult]:
        end = _index_end(self.task, capacity(self.job.index_items))
        names = index_names(datetime.now(), end.name)  # noqa: DTZ005 - RocketMQ names them by local time
        plans = plan_index_files(results, capacity(self.job.index_items), names, end)
        _remove_files_behind(self.task, end)
        fs.make_dirs(self.job.index_folder, self.job.owner)
        return sorted(self.engine.run(partial(build_index_file, self.job), plans, self.listener.advance))

    def _publish(self, results: Sequence[SplitResult], index_files: list[IndexFileResult] | None) -> Frontiers:
        task, owned, layout = self.task, self.task.owned, self.task.layout
        owned.verify()
        last = next((result for result in reversed(results) if result.records), None)
        # The log first, in case it lies on another disk: an index is never durable before what it points to.
        fs.sync_tree(layout.commit_log)
        fs.sync_tree(layout.root)
        checkpoint = publish.next_checkpoint(read_checkpoint(layout), last, True, index_files or None)
        fs.write_at(
            str(layout.root / paths.CHECKPOINT), CHECKPOINT_FILE_SIZE, self.job.owner, encode_checkpoint(checkpoint), 0
        )
        old = read_frontier(layout) or own.Frontier(owned.watermarks.store_id)
        fingerprint = publish.fingerprint_of(self.log, last) or old.queue_fingerprint
        new = old._replace(
            store_id=owned.watermarks.store_id,
            epoch=owned.epoch,
            queue_offset=task.end,
            queue_fingerprint=fingerprint,
            index_offset=task.end,
            index_fingerprint=fingerprint,
        )
        if index_files:
            new = new._replace(index_file=index_files[-1].name, index_count=index_files[-1].header.index_count)
        fs.write_whole(layout.own(own.FRONTIER_NAME), own.encode_frontier(new), self.job.owner)
        owned.watermarks["frontier_offset"] = task.end
        return Frontiers(task.end, task.end)


def _walk(job: Job, split: Split) -> SplitResult:
    """Find a split's true ends, and write nothing."""
    return split_result(decode_split(split, job.decode, columns_for(split)), 0)


def _append_task(job: Job, extracts: Extracts, work: tuple[QueueGroup, tuple[int, ...]]) -> list[redo.QueueOutcome]:
    group, ends = work
    found = extracts.of_group(job, group)
    return [redo.append_queue(job, key, end, parts) for key, end, parts in zip(group.keys, ends, found, strict=True)]


def _damage(log: LogFiles, offset: int) -> str:
    return (
        f"{place(log, offset)}: no record, though the log is confirmed behind it. The indexes stay where they are; "
        "look with `reput check`"
    )


def _index_end(task: CatchUpTask, most: int) -> IndexEnd:
    """Where the IndexFiles end that hold items of records below the frontier.

    Raises:
        DamagedStoreError: an IndexFile has not the length that the settings give.
    """
    size = file_size(task.settings.index_slots, task.settings.index_items)
    for file in reversed(list_index_files(task.layout.index)):
        if file.size != size or file.header is None:
            raise DamagedStoreError(
                f"{file.path}: {file.size} bytes, {size} expected. Run `reput rebuild --only index`"
            )
        count = _items_below(task, file.path, min(file.header.index_count - 1, most))
        if count:
            last = read_items(file.path, task.settings.index_slots, count, 1)[0]
            time = file.header.begin_timestamp + int(last["time_diff_s"]) * 1000
            if count == file.header.index_count - 1:
                time = file.header.end_timestamp
            return IndexEnd(file.path.name, count + 1, (int(last["physical_offset"]), time))
    return IndexEnd()


def _items_below(task: CatchUpTask, path: Path, count: int) -> int:
    """How many of a file's items belong to records below the frontier; they stand in log order."""
    low, high = 1, count + 1
    while low < high:
        middle = (low + high) // 2
        item = read_items(path, task.settings.index_slots, middle, 1)
        if len(item) and int(item[0]["physical_offset"]) < min(task.frontiers):
            low = middle + 1
        else:
            high = middle
    return low - 1


def _remove_files_behind(task: CatchUpTask, end: IndexEnd) -> None:
    """Remove IndexFiles that hold nothing below the frontier: a broker that crashed, or a job that died, left them."""
    for file in list_index_files(task.layout.index):
        if file.path.name > end.name:
            fs.remove_file(file.path)
