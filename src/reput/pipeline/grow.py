"""grow: the live indexes take in the next range of the log, in place.

A short range is one task: decode, dispatch, entries to their places, items to the end of the last IndexFile. It begins
at the frontier, which is a true boundary, so nothing has to be proved. A long range is proved first (a stage that only
walks its splits), because what is written in place cannot be taken back; then tasks decode and write, and one task an
IndexFile chains. No entry of a record below the range is overwritten. Queues that do not run straight on from where
they end are done again in log order. Killed anywhere, a repeat writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from reput.errors import DamagedLogError, DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.formats.index_file import capacity, file_size
from reput.formats.record import CHECK_NONE, STRICT_OFFSETS
from reput.index.files import list_index_files, read_items
from reput.log.files import LogFiles, list_log_files
from reput.log.reader import place
from reput.pipeline import finish, parts, redo
from reput.pipeline.batch_build import BatchOutcome, build_batch_queues
from reput.pipeline.decode import decode_split
from reput.pipeline.engine import Engine
from reput.pipeline.grow_rocksdb import QueueGrowth, RocksdbGrower
from reput.pipeline.index_append import append_items, end_behind
from reput.pipeline.index_build import IndexEnd, IndexFileResult, build_index_file, index_names, plan_index_files
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.listener import ProgressListener
from reput.pipeline.merge import QueueTable
from reput.pipeline.plan import Split, plan_splits
from reput.pipeline.queue_builder import QueueOutcome
from reput.pipeline.redo_job import Extracts, QueueGroup, extract_queues
from reput.pipeline.stitch import stitch
from reput.pipeline.tasks import columns_for, decode_and_sink, sink_split, split_result
from reput.queue.file_kind import FILE
from reput.queue.rocksdb_kind import RocksdbKind
from reput.store.indexer import CatchUpTask
from reput.store.owner import Ownership

ONE_SPLIT_BYTES = 32 << 20
"""Ranges up to this are one task: two would cost more than they save."""
_PARALLEL_SPLIT_BYTES = 128 << 20


class Growth(NamedTuple):
    """What a range gave: the log offset behind it, counts, its last record (None without one), IndexFiles touched.

    `stopped`: something that is no record stands at `end`, before the end that was asked for.
    """

    end: int
    records: int
    queue_entries: int
    items: int
    last: SplitResult | None
    index_files: tuple[IndexFileResult, ...]
    crooked: tuple[str, ...]
    stopped: bool = False


@dataclass(slots=True)
class Grower:
    """Grows the indexes of one store from `offset` on; `queue_ends` and `index_end` tell where they end now.

    With `soft_end` a range may end before the end that is asked for, at the log's last whole record: nobody has
    confirmed that end.
    """

    owned: Ownership
    engine: Engine
    job: Job
    offset: int
    queue_ends: dict[QueueKey, int]
    index_end: IndexEnd
    log_file_size: int
    listener: ProgressListener
    soft_end: bool = False
    rocksdb: RocksdbGrower | None = None

    @classmethod
    def begin(cls, task: CatchUpTask, engine: Engine, listener: ProgressListener) -> Grower:
        """A grower from a task's frontiers on; opens a stage of its own, so older tasks are shut out."""
        settings, layout = task.settings, task.layout
        log = list_log_files(layout.commit_log)
        job = Job(
            reput_folder=str(layout.reput),
            staging=str(layout.staging(task.owned.epoch)),
            epoch=task.owned.next_stage(),
            decode=settings.decoding(task.tag_items),
            queue_file_size=settings.queue_file_size,
            batch_queue_file_size=settings.batch_queue_file_size,
            types=settings.types,
            index_slots=settings.index_slots,
            index_items=settings.index_items,
            owner=fs.owner_of(layout.root),
            build_index=settings.index_enabled,
            sync_in_tasks=not engine.shares_driver_files,
            live=str(layout.root),
            frontier=min(task.frontiers),
            kinds=tuple(kind.name for kind in task.kinds) or (FILE,),
        )
        index_end = _index_end(task, capacity(settings.index_items)) if job.build_index else IndexEnd()
        if job.build_index:
            _remove_files_behind(task, index_end)
        offset = max(min(task.frontiers), log.min_offset)
        ends = dict(task.queue_ends)
        grower = cls(task.owned, engine, job, offset, ends, index_end, log.file_size, listener)
        for kind in task.kinds:
            if isinstance(kind, RocksdbKind):
                grower.rocksdb = RocksdbGrower(kind.open_to_write(job.owner), engine, listener)
        return grower

    def grow(self, end: int) -> Growth:
        """Take in the log up to `end`, which lies behind `offset`; a record that begins before it is taken whole.

        Raises:
            DamagedLogError: the log in between is damaged.
            StaleEpochError: another process has taken the store over.
        """
        for folder in (self.job.staging, self.job.parts_folder):
            fs.make_dirs(folder, self.job.owner)
        self.job = replace(self.job, frontier=self.offset)
        growth = self._in_one_task(end) if end - self.offset <= ONE_SPLIT_BYTES else self._in_parallel(end)
        self.offset = growth.end
        if growth.index_files:
            self.index_end = end_behind(growth.index_files[-1])
        return growth

    def close(self) -> None:
        """Remove what tasks left for each other, and let go of the database."""
        fs.remove_tree(self.job.staging)
        if self.rocksdb is not None:
            self.rocksdb.close()

    # --- one task ------------------------------------------------------------------------------

    def _in_one_task(self, end: int) -> Growth:
        split = self._split(end)
        task = partial(_grow_task, self.job, self.index_end, datetime.now())  # noqa: DTZ005 - RocketMQ names IndexFiles by local time
        result, index_files = self.engine.run(task, [split], self.listener.advance)[0]
        if not self.soft_end or result.gaps:
            self._refuse_damage([result])
        crooked = self._finish_queues([split], [result])
        return self._growth([result], index_files, crooked)

    def _split(self, end: int) -> Split:
        """The range up to `end`, or up to the end of its file."""
        size = self.log_file_size
        start = self.offset // size * size
        end = min(end, start + size)
        path = f"{self.owned.layout.commit_log}/{paths.offset_name(start)}"
        return Split(0, path, start, size, self.offset, end, end, exact=True)

    # --- many tasks ----------------------------------------------------------------------------

    def _in_parallel(self, end: int) -> Growth:
        splits, stopped = self._proved_splits(end)
        if not splits:
            return Growth(self.offset, 0, 0, 0, None, (), (), stopped)
        results = self.engine.run(partial(decode_and_sink, self.job), splits, self.listener.advance)
        if not self.soft_end:
            self._refuse_damage(results)
        crooked = self._finish_queues(splits, results)
        index_files = self._build_index(results) if self.job.build_index else []
        return self._growth(results, index_files, crooked)._replace(stopped=stopped)

    def _proved_splits(self, end: int) -> tuple[list[Split], bool]:
        """Splits that begin at true boundaries, every one of them, and hold every record that begins before `end`.

        And whether the log stops before that.
        """
        log = self._log()
        splits = plan_splits(log, _PARALLEL_SPLIT_BYTES, self.offset, end)
        unchecked = self.job.decode._replace(crc_check=CHECK_NONE | self.job.decode.crc_check & STRICT_OFFSETS)
        walk = partial(_walk, replace(self.job, decode=unchecked))
        results = self.engine.run(walk, splits, self.listener.advance)
        stitched = stitch(self.offset, splits, results, walk, log.gaps)
        if stitched.gaps or (stitched.end < end and not self.soft_end):
            at = stitched.gaps[0].begin if stitched.gaps else stitched.end
            raise DamagedLogError(_damage(log, at))
        pairs = zip(stitched.splits, stitched.results, strict=True)
        proved = [replace(split, begin=found.first_record, exact=True) for split, found in pairs if found.records]
        return proved, stitched.end < end

    def _build_index(self, results: Sequence[SplitResult]) -> list[IndexFileResult]:
        names = index_names(datetime.now(), self.index_end.name)  # noqa: DTZ005 - RocketMQ names them by local time
        plans = plan_index_files(results, capacity(self.job.index_items), names, self.index_end)
        fs.make_dirs(self.job.index_folder, self.job.owner)
        return sorted(self.engine.run(partial(build_index_file, self.job), plans, self.listener.advance))

    # --- both ----------------------------------------------------------------------------------

    def _log(self) -> LogFiles:
        return list_log_files(self.owned.layout.commit_log, self.log_file_size)

    def _growth(
        self, results: Sequence[SplitResult], index_files: Sequence[IndexFileResult], crooked: Sequence[str]
    ) -> Growth:
        with_records = [result for result in results if result.records]
        return Growth(
            end=max((result.chain_end for result in results), default=self.offset),
            records=sum(result.records for result in results),
            queue_entries=sum(result.queue_entries for result in results),
            items=sum(result.items for result in results),
            last=with_records[-1] if with_records else None,
            index_files=tuple(index_files),
            crooked=tuple(crooked),
            stopped=any(result.open_verdict is not None for result in results),
        )

    def _refuse_damage(self, results: Sequence[SplitResult]) -> None:
        for result in results:
            if result.gaps or result.open_verdict is not None:
                at = result.gaps[0].begin if result.gaps else result.chain_end
                raise DamagedLogError(_damage(self._log(), at))

    def _finish_queues(self, splits: Sequence[Split], results: Sequence[SplitResult]) -> list[str]:
        """Do again in log order what does not run straight on; returns what was odd, for people."""
        table, ends = QueueTable(), self.queue_ends
        for result in results:
            if result.records:
                table.add(parts.load_ranges(parts.ranges_path(self.job.parts_folder, result.number)))
        table.mark_crooked(key for key, row in table.rows.items() if ends.get(key, 0) not in (0, int(table.first[row])))
        outcomes: list[QueueOutcome] = []
        if FILE in self.job.kinds:
            outcomes = self._finish_files(splits, table)
        if self.rocksdb is not None:
            end = max((result.chain_end for result in results), default=self.offset)
            outcomes = self.rocksdb.grow(self.job, QueueGrowth(results, table, dict(ends), end))
        ends.update((key, int(table.next[row])) for key, row in table.rows.items() if table.straight[row])
        ends.update((outcome.key, outcome.next) for outcome in outcomes)
        odd = [(one.key, one.repeats, one.blanks, one.restarts) for one in outcomes]
        odd += [
            (one.key, one.repeats, one.missing, one.restarts) for one in self._append_batches(results) if one.is_odd
        ]
        return [
            f"{key}: {repeats} repeated, {missing} missing, {restarts} restarts"
            for key, repeats, missing, restarts in odd
        ]

    def _append_batches(self, results: Sequence[SplitResult]) -> list[BatchOutcome]:
        """Let the queues of batches go on."""
        if not any(result.batches for result in results):
            return []
        inferred: frozenset[bytes] = frozenset().union(*(result.inferred for result in results))
        types = self.job.types._replace(batch=self.job.types.batch | inferred)
        self.job = replace(self.job, epoch=self.owned.next_stage(), types=types)
        return build_batch_queues(self.engine, self.job, results, self.listener)

    def _finish_files(self, splits: Sequence[Split], table: QueueTable) -> list[QueueOutcome]:
        crooked = table.crooked()
        outcomes = self._redo(crooked, splits) if crooked else []
        straight_and_new = [
            (key, int(table.first[row]))
            for key, row in table.rows.items()
            if table.straight[row] and self.queue_ends.get(key, 0) == 0
        ]
        work = finish.front_blanks(self.job, straight_and_new, [])
        if work:
            self.engine.run(partial(finish.blank_fronts, self.job), finish.in_tasks(work), self.listener.advance)
        return outcomes

    def _redo(self, crooked: list[QueueKey], splits: Sequence[Split]) -> list[QueueOutcome]:
        self.job = replace(self.job, epoch=self.owned.next_stage())
        extracts = extract_queues(self.engine, self.job, splits, crooked, self.listener)
        work = [(group, tuple(self.queue_ends.get(key, 0) for key in group.keys)) for group in extracts.groups]
        task = partial(_append_task, self.job, extracts._replace(groups=()))
        done = self.engine.run(task, work, self.listener.advance)
        return [outcome for outcomes in done for outcome in outcomes]


def _grow_task(
    job: Job, index_end: IndexEnd, named_at: datetime, split: Split
) -> tuple[SplitResult, list[IndexFileResult]]:
    """All of a short range: its entries to their places, its items to the end of the last IndexFile."""
    decoded = decode_split(split, job.decode, columns_for(split))
    with job.writing():
        result = sink_split(job, decoded)
        index_files = append_items(job, decoded.columns, result, index_end, named_at) if job.build_index else []
    return result, index_files


def _walk(job: Job, split: Split) -> SplitResult:
    """Find a split's true ends, and write nothing."""
    return split_result(decode_split(split, job.decode, columns_for(split)), 0)


def _append_task(job: Job, extracts: Extracts, work: tuple[QueueGroup, tuple[int, ...]]) -> list[QueueOutcome]:
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
