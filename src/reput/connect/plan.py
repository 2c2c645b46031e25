"""Choice of how a store is read, and the plan that results.

| scan | reads | chosen if |
|---|---|---|
| log | ranges of the log, and leaves out what is not wanted | most of the store is wanted, or no index is of use |
| queue | entries of the wanted queues, found by offset and time, and their records | little of the store is wanted |
| key | the places that the index names for keys | keys are searched |

The last two go as far as the indexes are complete. After that the log is read, so every message is met exactly once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reput.connect.cut.asked import refuse_asked
from reput.connect.cut.cuts import LogCut, log_cuts
from reput.connect.cut.disk_queues import DiskQueues
from reput.connect.cut.queue_cuts import (
    MOST_QUEUES,
    QueueCut,
    key_places,
    meets_batches,
    missing_topics,
    other_queues,
    queue_cuts,
    wanted_topics,
)
from reput.connect.cut.restarts import restarts_of
from reput.connect.cut.snapshot import Snapshot, take_snapshot
from reput.connect.options.options import ReadOptions, Scan, read_options, refuse_no_batch
from reput.connect.options.selection import ALL_NUMBERS, NumberRange, Selection, selection_of
from reput.connect.scan.log_scan import ScanJob
from reput.connect.scan.record_scan import RecordJob
from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.formats.stored_text import stored_bytes
from reput.log.read.reader import CLOCK_SLACK_MS, USUAL_RECORD_BYTES, first_records, mean_size

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_LEAST_BYTES = 8 << 20
_LEAST_RECORDS = 1 << 16
_TASKS_PER_CORE = 3
_SAMPLE_RECORDS = 200
_SCATTER = 3
"""Reading records one by one costs about this many times as much a byte as reading the log in order."""
_TOPICS_MOST = 1024
_KEY_SCAN = "key"

_log = logging.getLogger("reput.connect")


@dataclass
class ScanPlan:
    """The plan of a read: the kind of scan and why, and the tasks' ranges.

    `cuts` are ranges of the log, `queues` ranges of queues task by task, `places` log offsets task by task.
    """

    scan: str
    why: str
    snapshot: Snapshot
    job: ScanJob
    records: RecordJob
    cuts: list[LogCut] = field(default_factory=list)
    queues: list[tuple[QueueCut, ...]] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(default_factory=list)
    record_bytes: int = USUAL_RECORD_BYTES

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.cuts) + len(self.queues) + len(self.places)

    @property
    def bytes_to_read(self) -> int:
        """Bytes of log and queues that the tasks read; a record that an entry names counts with its usual size."""
        entries = sum(cut.size for cuts in self.queues for cut in cuts)
        each = ENTRY_SIZE + (self.record_bytes if self.records.needs_records else 0)
        log = sum(cut.end - cut.begin for cut in self.cuts)
        return log + entries * each + sum(map(len, self.places)) * self.record_bytes

    def __str__(self) -> str:
        snapshot, frontiers = self.snapshot, self.snapshot.frontiers
        index = snapshot.store.index_read.words
        lines = [
            f"scan: {self.scan} ({self.why})",
            f"log: {snapshot.begin} to {snapshot.end}, writer {snapshot.writer}",
            f"queues are complete below {frontiers.queue_offset}, {index} below {frontiers.index_offset}",
            f"tasks: {len(self.cuts)} of the log, {len(self.queues)} of queues, {len(self.places)} of keys",
            f"bytes to read: about {self.bytes_to_read} of {snapshot.end - snapshot.begin}",
            *([f"damage: {snapshot.lost_end}"] if snapshot.lost_end else []),
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in snapshot.notes)])


def explain(options: Mapping[str, str], *filters: Filter) -> str:
    """Explain how a batch with these options will be read: which plan and why, how many tasks, how many bytes.

    Args:
        filters: of `pyspark.sql.datasource`, as Spark pushes them down: `EqualTo(("topic",), "orders")`.

    Raises:
        ReputError: as reading would.
    """
    from reput.connect.options.filters import narrowed

    parsed = read_options(options)
    return str(plan_batch(parsed, narrowed(selection_of(parsed), filters)))


def plan_batch(options: ReadOptions, selection: Selection | None = None) -> ScanPlan:
    """Plan a batch: look at the store once, compare what is asked for with it, and choose the plan.

    Args:
        selection: the messages that options and filters leave; without it those that the options leave.

    Raises:
        ReputError: see `reput.errors`.
    """
    refuse_no_batch(options)
    snapshot = take_snapshot(options.path, options.config, tolerant=not options.fail_on_data_loss)
    with snapshot.queues.opened() as queues:
        refuse_asked(options, snapshot, queues)
        plan = _Planner(options, snapshot, queues, selection_of(options) if selection is None else selection).choose()
    _log.info("%s: %s", options.path, plan)
    if snapshot.lost_end:
        _log.warning("%s: %s", options.path, snapshot.lost_end)
    return plan


class _Planner:
    """Chooses a plan and finds its ranges; the snapshot and its queues are open."""

    def __init__(self, options: ReadOptions, snapshot: Snapshot, queues: DiskQueues, selection: Selection) -> None:
        self.options = options
        self.snapshot = snapshot
        self.queues = queues
        # No index has the keys of messages inside a batch, and Spark's filter may ask for one of those.
        may_unwrap = selection.key_hints and meets_batches(snapshot, selection)
        self.selection = replace(selection, key_hints=()) if may_unwrap else selection
        self.job = ScanJob.of(options, self.selection, snapshot.settings.delays_ms)
        self.records = RecordJob(self.job, snapshot.queues)
        self.record_bytes = record_bytes(snapshot)

    def choose(self) -> ScanPlan:
        """Return the plan that was asked for, or that costs least."""
        scan, selection = self.options.scan, self.selection
        if scan is Scan.LOG:
            return self._by_log("asked for by scan=log")
        if selection.searched_keys and (plan := self._by_keys()) is not None:
            return plan
        if scan is Scan.AUTO and selection.is_whole_log:
            return self._by_log("nothing leaves out a topic, an offset or a time")
        return self._by_queues()

    def _by_log(self, why: str) -> ScanPlan:
        return self._without_restarted(self._new(Scan.LOG, why, self._log_cuts(ALL_NUMBERS)))

    def _by_keys(self) -> ScanPlan | None:
        """Return the plan by keys; None if the index cannot answer, with a note that says why."""
        topics, index = self._topics(), self.snapshot.store.index_read.words
        if topics is None:
            return None
        places, why_not = key_places(self.snapshot, self.selection, topics)
        if why_not:
            self.snapshot.notes.append(f"keys are not looked up in an index: {why_not}")
            return None
        count = len(self.selection.searched_keys)
        why = f"{len(places)} places for {count} key{'s' if count != 1 else ''}, by {index}"
        plan = self._new(_KEY_SCAN, why, self._log_cuts(NumberRange(self.snapshot.frontiers.both)))
        most = self.options.max_records_per_partition or _LEAST_RECORDS
        plan.places = [tuple(places[at : at + most]) for at in range(0, len(places), most)]
        return self._without_restarted(plan)

    def _by_queues(self) -> ScanPlan:
        """Return the plan by queues; the plan by log if queues do not serve or would cost more."""
        kind = other_queues(self.snapshot)
        if kind is not None:
            return self._by_log(f"{kind}: only plain queues are read")
        found = queue_cuts(self.snapshot, self.queues, self.selection)
        if found.damage:
            _log.warning("%s. All of the log is read instead", found.damage)
            return self._by_log(f"a queue is not whole: {found.damage}")
        missing = missing_topics(self.selection, found.topics)
        if missing:
            return self._by_log(f"topic {missing[0]} has no queue on disk")
        if found.too_many:
            return self._by_log(f"more than {len(found.topics)} topics have queues that are wanted")
        log_bytes = sum(cut.end - cut.begin for cut in self._log_cuts(ALL_NUMBERS))
        if self.options.scan is Scan.AUTO and found.entries * self.record_bytes * _SCATTER > log_bytes:
            return self._by_log(f"{found.entries} wanted messages lie all over {log_bytes} bytes of log")
        why = f"{found.entries} entries of {len(found.cuts)} queues are wanted"
        plan = self._new(Scan.QUEUE, why, self._log_cuts(NumberRange(self.snapshot.frontiers.queue_offset)))
        most = self.options.max_records_per_partition or max(_LEAST_RECORDS, found.entries // task_count(self.options))
        plan.queues = list(_grouped(found.cuts, most))
        return plan

    def _new(self, scan: str, why: str, cuts: list[LogCut]) -> ScanPlan:
        return ScanPlan(scan, why, self.snapshot, self.job, self.records, cuts, record_bytes=self.record_bytes)

    def _log_cuts(self, within: NumberRange) -> list[LogCut]:
        """Return the ranges of the log that are wanted."""
        position = self.selection.position.cut(within.begin, within.end)
        begin, end = max(self.snapshot.begin, position.begin), min(self.snapshot.end, position.end)
        if begin >= end:
            return []
        step = split_bytes(self.options, end - begin, self.record_bytes)
        return self._in_time(log_cuts(self.snapshot, self.queues, begin, end, step))

    def _in_time(self, cuts: list[LogCut]) -> list[LogCut]:
        """Leave out ranges whose first record, and the next range's, show that all records are too old or too new."""
        stored = self.selection.stored_ms
        if stored.is_everything:
            return cuts
        times = [self.queues.maps.store_time(cut.begin) for cut in cuts]
        kept = []
        for number, cut in enumerate(cuts):
            has_next = number + 1 < len(cuts) and cuts[number + 1].begin == cut.end
            too_old = 0 <= (times[number + 1] if has_next else INT64_MAX) < stored.begin - CLOCK_SLACK_MS
            too_new = times[number] >= 0 and times[number] - CLOCK_SLACK_MS >= stored.end
            if not too_old and not too_new:
                kept.append(cut)
        return kept

    def _topics(self) -> list[str] | None:
        """Return the topics in which keys are searched; None if they are too many for the index."""
        if self.selection.light_topics:
            # An index has their messages under the topics that these were sent to.
            return None
        return wanted_topics(self.snapshot, self.queues, self.selection, _TOPICS_MOST)

    def _without_restarted(self, plan: ScanPlan) -> ScanPlan:
        """Let tasks that find messages without their queues leave out the old ones of queues that began again."""
        names = self.selection.named_topics
        topics = None if names is None else [stored_bytes(name) for name in sorted(names)]
        restarts = restarts_of(self.queues, topics, MOST_QUEUES)
        if restarts is None:
            self.snapshot.notes.append(
                f"more than {MOST_QUEUES} queues: old messages of those that were deleted and began again are rows, too"
            )
        elif restarts.begun:
            plan.job = replace(plan.job, restarts=restarts)
            plan.records = replace(plan.records, scan=plan.job)
        return plan


def _grouped(cuts: Iterable[QueueCut], most: int) -> Iterator[tuple[QueueCut, ...]]:
    """Yield the cuts for each task, at most `most` entries each."""
    group: list[QueueCut] = []
    left = most
    for cut in cuts:
        first, end = cut.range.first, cut.range.end
        while first < end:
            after = min(end, first + left)
            group.append(cut._replace(range=cut.range._replace(first=first, end=after)))
            first, left = after, left - (after - first)
            if not left:
                yield tuple(group)
                group, left = [], most
    if group:
        yield tuple(group)


def task_count(options: ReadOptions) -> int:
    """Return the number of tasks into which large work is cut."""
    return max(options.min_partitions, _TASKS_PER_CORE * (os.cpu_count() or 1))


def split_bytes(options: ReadOptions, size: int, each: int) -> int:
    """Return the size of a task's range of the log, if a record takes `each` bytes."""
    least = 1 if options.min_partitions > 1 else _LEAST_BYTES
    step = max(least, min(options.task_bytes, -(-size // task_count(options))))
    if options.max_records_per_partition is not None:
        step = min(step, options.max_records_per_partition * each)
    return max(1, step)


def record_bytes(snapshot: Snapshot) -> int:
    """Return the average size of the first records of the newest file that has any."""
    records = first_records(snapshot.log, _SAMPLE_RECORDS, snapshot.end)
    return mean_size(records) if records else USUAL_RECORD_BYTES
