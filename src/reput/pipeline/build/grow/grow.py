"""grow: the live indexes take in the next range of the log, in place.

A short range is one task: it decodes, dispatches, writes entries to their places, and appends items to the last
IndexFile. The range begins at the frontier, which is a true boundary, so it needs no proof. Many tasks decode a long
range into parts, which are proved first, because a write in place cannot be taken back. Then tasks place the parts,
while others already decode the next range (`range_task`). No entry of a record below the range is overwritten. Queues
that do not continue at their next offset are reordered. Killed anywhere, a repeat writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from reput.errors import DamagedLogError
from reput.files import fs
from reput.formats import paths
from reput.formats.layout import NO_LIMIT
from reput.formats.log.record import Verdict
from reput.formats.queue.consume_queue import QueueKey
from reput.index.files import list_index_files
from reput.log.read.files import LogFiles, list_log_files
from reput.log.read.reader import confirmed_damage, place
from reput.pipeline.build.grow.ranges import DecodedRange, PlacedQueues, ProvedRange, Work, placements, range_task
from reput.pipeline.build.index.built import IndexGrower
from reput.pipeline.build.index.kinds import append_indexed, index_growers
from reput.pipeline.build.index.plan import IndexEnd, IndexFileResult
from reput.pipeline.build.kinds import queue_builders
from reput.pipeline.build.stages.decode import decode_splits, prove
from reput.pipeline.build.stages.place import finish_queues, merge, place_queues
from reput.pipeline.build.stages.state import Build
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.decode import decode_split
from reput.pipeline.split.ext_job import ext_job
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split, plan_splits
from reput.pipeline.split.tasks import columns_for, sink_split, split_result
from reput.store.owner.deletion import left_out
from reput.store.owner.indexer import CatchUpTask

ONE_SPLIT_BYTES = 32 << 20
"""Largest range of one task: two tasks would cost more than they save."""
_PARALLEL_SPLIT_BYTES = 128 << 20
_RANGE_BYTES = 1 << 30
"""Size of a range that is proved, placed and published as one; meanwhile tasks decode the next range."""
_REST = 4
"""A rest shorter than a range divided by this joins the range before it."""


class Growth(NamedTuple):
    """The result of a range: the log offset after it, counts, its last record (None: no record), IndexFiles touched.

    `out_of_order`: a line for each queue that is out of order. `results`: of its decode tasks. `stopped`: the bytes at
    `end`, before the end that was asked for, are no record.
    """

    end: int
    records: int
    queue_entries: int
    items: int
    last: SplitResult | None
    index_files: tuple[IndexFileResult, ...]
    out_of_order: tuple[str, ...]
    results: tuple[SplitResult, ...]
    stopped: bool = False


@dataclass(slots=True)
class Grower:
    """Grows the live indexes of one store from log offset `offset` on.

    `queue_ends` and `indexes` say where the indexes end now. With `soft_end` nobody has confirmed the end that is
    asked for, so a range may end before it, at the log's last whole record. Long ranges have about `range_bytes`.
    `staging` holds a folder for each range, and `ranges` counts them. `decoded` is the range after `offset` if it was
    decoded ahead. `finished`: the range before did not fail half-way.
    """

    build: Build
    offset: int
    queue_ends: dict[QueueKey, int]
    indexes: Sequence[IndexGrower]
    log_file_size: int
    range_bytes: int
    staging: str
    soft_end: bool = False
    ranges: int = 0
    decoded: DecodedRange | None = None
    finished: bool = True

    @classmethod
    def begin(cls, task: CatchUpTask, engine: Engine, listener: ProgressListener, most_bytes: int = NO_LIMIT) -> Grower:
        """Return a grower from a task's frontiers on; it opens a stage of its own, which fences older tasks off.

        `most_bytes`: the longest range that callers ask for.
        """
        settings, layout, epoch = task.settings, task.layout, task.owned.next_stage()
        log = list_log_files(layout.commit_log)
        job = replace(
            Job.of_store(
                layout, settings, task.kinds, layout.staging(task.owned.epoch), epoch, tag_items=task.tag_items
            ),
            indexes=settings.indexes.built,
            sync_in_tasks=not engine.shares_driver_files,
            live=str(layout.root),
            frontier=task.frontiers.both,
            begun=epoch,
            deleted=left_out(layout, log.min_offset),
        )
        return cls(
            Build(layout, settings, task.owned, engine, listener, job, queue_builders(layout, job)),
            max(task.frontiers.both, log.min_offset),
            dict(task.queue_ends),
            index_growers(task, job, log.file_size),
            log.file_size,
            # With the short rest that may go with it.
            max(1, min(_RANGE_BYTES, most_bytes * _REST // (_REST + 1))),
            job.staging,
        )

    def grow(self, end: int, confirmed: int = 0) -> Growth:
        """Take in the log up to `end`, which is after `offset`, or the first part of that if it is long.

        A record that begins before `end` is taken whole. The range ends early before damage. `confirmed`: the end of
        what callers will ask for next, if they know it: some of it may be decoded at once.

        Raises:
            DamagedLogError: the log is damaged at `offset`.
            StaleEpochError: another process has taken the store over.
        """
        build = self.build
        if not self.finished:
            # Tasks of the failed range may still be at work.
            build.fence_late_tasks()
        in_one_task = end - self.offset <= ONE_SPLIT_BYTES and not self._is_decoded()
        # Filters that groups have registered since count for all that is taken in now.
        ext = ext_job(build.layout, build.settings, self.log_file_size)
        # The offset is a true boundary, so one task may place its entries at once.
        build.job = replace(build.job, staging=self.staging, frontier=self.offset, ext=ext, places_at_once=in_one_task)
        self.finished = False
        growth = self._in_one_task(end) if in_one_task else self._in_parallel(end, max(end, confirmed))
        # Before the range is reported: a late attempt would write old slots and an old header into a file that grew.
        build.fence_late_tasks()
        for one in self.indexes:
            one.take(build, growth.results, growth.index_files)
        if not in_one_task:
            fs.remove_tree(build.job.staging)
        self.finished = True
        self.offset = growth.end
        return growth

    @property
    def index_end(self) -> IndexEnd:
        """The end of the IndexFiles that grow; empty without any."""
        return next((one.end for one in self.indexes if one.has_files), IndexEnd())

    @property
    def leaves_index_files(self) -> bool:
        """True if there are IndexFiles that do not grow, since another kind of index does instead."""
        has_others = bool(self.indexes) and not any(one.has_files for one in self.indexes)
        return has_others and bool(list_index_files(self.build.layout.index))

    def close(self) -> None:
        """Remove what tasks left for each other, and release the queues."""
        fs.remove_tree(self.staging)
        for builder in self.build.builders:
            builder.close()
        for index in self.indexes:
            index.close()

    # --- one task ------------------------------------------------------------------------------

    def _in_one_task(self, end: int) -> Growth:
        self._make_folders()
        split = self._split(end)
        now = datetime.now()  # noqa: DTZ005 - RocketMQ names IndexFiles by local time
        result, index_files = self.build.run(_grow_task, [split], self.index_end, now)[0]
        if result.gaps:
            gap = result.gaps[0]
            return self._in_one_task(self._before(gap.begin, gap.verdict, end))
        if result.open_verdict is not None and not self.soft_end:
            self._before(result.chain_end, result.open_verdict, end)
        out_of_order = self._finish_queues([split], [result])
        return self._growth([result], index_files, out_of_order)

    def _split(self, end: int) -> Split:
        """Return the range up to `end`, or up to the end of its file."""
        size = self.log_file_size
        start = self.offset // size * size
        end = min(end, start + size)
        path = f"{self.build.layout.commit_log}/{paths.offset_name(start)}"
        return Split(0, path, start, size, self.offset, end, end, exact=True)

    # --- many tasks ----------------------------------------------------------------------------

    def _in_parallel(self, end: int, confirmed: int) -> Growth:
        proved = self._next_proved(end, confirmed)
        if not proved.splits:
            return Growth(self.offset, 0, 0, 0, None, (), (), (), proved.stopped)
        ahead: DecodedRange | None = None
        if not proved.stopped and confirmed - proved.end > ONE_SPLIT_BYTES:
            ahead = self._plan(proved.end, confirmed)
        index_files, refused = self._place(proved, ahead)
        out_of_order = self._finish_queues(proved.splits, proved.results, refused)
        return self._growth(proved.results, index_files, out_of_order)._replace(stopped=proved.stopped)

    def _next_proved(self, end: int, confirmed: int) -> ProvedRange:
        """Return the range after `offset`: it was decoded ahead, or is decoded now."""
        ahead, self.decoded = self.decoded if self._is_decoded() else None, None
        if ahead is not None:
            proved = self._prove(ahead)
            # If the log has grown since, its end may have been in the middle of a record.
            if not (proved.stopped and confirmed > ahead.end):
                return proved
        return self._prove(self._decode(self._plan(self.offset, end)))

    def _is_decoded(self) -> bool:
        """Return True if the range at `offset` was decoded ahead, with the queue types that are known now."""
        found = self.decoded
        return found is not None and found.begin == self.offset and found.types == self.build.job.types

    def _plan(self, begin: int, end: int) -> DecodedRange:
        """Return a range to decode, with a folder of its own: all up to `end`, or the first part of it."""
        until = begin + self.range_bytes
        if end - until <= self.range_bytes // _REST:
            until = end
        self.ranges += 1
        splits = plan_splits(self._log(), _PARALLEL_SPLIT_BYTES, begin, until)
        return DecodedRange(begin, until, f"{self.staging}/{self.ranges}", self.build.job.types, tuple(splits))

    def _decode(self, planned: DecodedRange) -> DecodedRange:
        self.build.job = replace(self.build.job, staging=planned.folder)
        self._make_folders()
        return replace(planned, results=tuple(decode_splits(self.build, planned.splits)))

    def _prove(self, decoded: DecodedRange) -> ProvedRange:
        """Prove that the splits join; before damage a shorter range is decoded anew."""
        self.build.job = replace(self.build.job, staging=decoded.folder)
        stitched = prove(self.build, self.offset, decoded.splits, decoded.results, self._log().gaps)
        if stitched.gaps or (stitched.end < decoded.end and not self.soft_end):
            fs.remove_tree(decoded.folder)
            begin, verdict = stitched.end, stitched.tail_verdict or Verdict.ZERO
            if stitched.gaps:
                begin, _, verdict = stitched.gaps[0]
            end = self._before(begin, verdict, decoded.end)
            return self._prove(self._decode(self._plan(self.offset, end)))
        pairs = zip(stitched.splits, stitched.results, strict=True)
        kept = [
            (replace(split, begin=found.first_record, exact=True), found) for split, found in pairs if found.records
        ]
        return ProvedRange(
            tuple(split for split, _ in kept),
            tuple(found for _, found in kept),
            stitched.end,
            stitched.end < decoded.end,
        )

    def _place(self, proved: ProvedRange, ahead: DecodedRange | None) -> tuple[list[IndexFileResult], list[QueueKey]]:
        """Place the entries and items of a range, and decode the range after it at the same time."""
        build, job = self.build, self.build.job
        work: list[Work] = []
        for index in self.indexes:
            work += index.work(build, proved.results)
        if any(builder.has_places for builder in build.builders):
            work += placements(proved.results)
        before = len(work)
        decoding = job
        if ahead is not None:
            decoding = replace(job, staging=ahead.folder)
            fs.make_dirs(decoding.parts_folder, job.owner)
            work += ahead.splits
        done = build.engine.run(partial(range_task, job, decoding), work, build.listener.advance)
        if ahead is not None:
            results = tuple(one for one in done[before:] if isinstance(one, SplitResult))
            self.decoded = replace(ahead, results=results)
        index_files = sorted(one for one in done[:before] if isinstance(one, IndexFileResult))
        return index_files, [key for one in done if isinstance(one, PlacedQueues) for key in one.refused]

    def _make_folders(self) -> None:
        for folder in (self.build.job.staging, self.build.job.parts_folder):
            fs.make_dirs(folder, self.build.job.owner)

    # --- both ----------------------------------------------------------------------------------

    def _log(self) -> LogFiles:
        return list_log_files(self.build.layout.commit_log, self.log_file_size)

    def _growth(
        self, results: Sequence[SplitResult], index_files: Sequence[IndexFileResult], out_of_order: Sequence[str]
    ) -> Growth:
        with_records = [result for result in results if result.records]
        return Growth(
            end=max((result.chain_end for result in results), default=self.offset),
            records=sum(result.records for result in results),
            queue_entries=sum(result.queue_entries for result in results),
            items=sum(result.items for result in results),
            last=with_records[-1] if with_records else None,
            index_files=tuple(index_files),
            out_of_order=tuple(out_of_order),
            results=tuple(with_records),
            stopped=self.soft_end and any(result.open_verdict is not None for result in results),
        )

    def _before(self, damage: int, verdict: Verdict, confirmed: int) -> int:
        """Return the end of the range that can still be taken in before damage.

        Raises:
            DamagedLogError: there is no such range.
        """
        if damage > self.offset:
            return damage
        raise DamagedLogError(
            f"{place(self._log(), damage)}: {confirmed_damage(damage, verdict, confirmed)}. The indexes stay where "
            "they are; look with `reput check`. After a power cut open the store to put messages: that cuts a torn end"
        )

    def _finish_queues(
        self, splits: Sequence[Split], results: Sequence[SplitResult], refused: Sequence[QueueKey] = ()
    ) -> list[str]:
        """Complete the queues of a range; returns a line for each queue that is out of order.

        `refused`: the queues whose entries would have overwritten others.
        """
        end = max((result.chain_end for result in results), default=self.offset)
        queues = merge(self.build, splits, results, self.queue_ends, end, refused)
        outcomes = place_queues(self.build, queues)
        finish_queues(self.build, queues)
        self.queue_ends.update((key, int(queues.table.next[row])) for key, row in queues.present())
        return [
            f"{one.key}: {one.repeats} repeated, {one.blanks} missing, {one.restarts} restarts"
            for one in outcomes
            if one.is_odd or one.key in queues.table.rows
        ]


def _grow_task(
    job: Job, index_end: IndexEnd, named_at: datetime, split: Split
) -> tuple[SplitResult, list[IndexFileResult]]:
    """Take in a short range: its entries go to their places, its items to the end of the last IndexFile.

    Nothing is written if the range has a gap, because a write in place cannot be taken back.
    """
    decoded = decode_split(split, job.decode, columns_for(split))
    if decoded.gaps:
        return split_result(decoded, 0), []
    with job.writing():
        result = sink_split(job, decoded)
        return result, append_indexed(job, decoded, result, index_end, named_at)
