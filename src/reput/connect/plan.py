"""Choosing how a store is read, and saying so.

| scan | reads | when |
|---|---|---|
| log | ranges of the log, and leaves out what is not wanted | most of the store is wanted, or no index tells where |
| queue | entries of the wanted queues, found by offset and time, and their records | little of the store is wanted |
| key | the places that IndexFiles tell for keys | keys are searched |

The last two go as far as the indexes are complete; behind that the log is read, so every message is met exactly once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from reput.connect.cut.bounds import refuse_what_is_gone
from reput.connect.cut.cuts import LogCut, log_cuts
from reput.connect.cut.known import refuse_unknown
from reput.connect.cut.queue_cuts import (
    MOST_QUEUES,
    QueueCut,
    disk_queues,
    key_places,
    meets_batches,
    missing_topics,
    other_queues,
    queue_cuts,
    topic_names,
)
from reput.connect.cut.restarts import Restarts, queues_begun
from reput.connect.cut.snapshot import Snapshot, take_snapshot
from reput.connect.options.options import ReadOptions, Scan, read_options, refuse_starting_latest
from reput.connect.options.selection import NumberRange, Selection, selection_of
from reput.connect.scan.log_scan import ScanJob
from reput.connect.scan.record_scan import RecordJob
from reput.errors import ConfigError
from reput.formats.consume_queue import ENTRY_SIZE
from reput.formats.layout import INT64_MAX
from reput.formats.record import CHECK_NONE
from reput.log.maps import LogMaps
from reput.log.reader import CLOCK_SLACK_MS
from reput.log.scan import LogWalk, checking

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_LEAST_BYTES = 8 << 20
_LEAST_RECORDS = 1 << 16
_TASKS_PER_CORE = 3
_SAMPLE_RECORDS = 200
USUAL_RECORD_BYTES = 512
_SCATTER = 3
"""Reading records one by one costs about so many times as much a byte as reading the log on and on."""
_TOPICS_MOST = 1024
_KEY_SCAN = "key"

_log = logging.getLogger("reput.connect")


@dataclass
class ScanPlan:
    """How a store will be read: by which plan and why, and the tasks' ranges.

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
        """How many tasks there are."""
        return len(self.cuts) + len(self.queues) + len(self.places)

    @property
    def bytes_to_read(self) -> int:
        """Bytes of log and of queues that the tasks look at; records behind entries count with their usual size."""
        entries = sum(cut.end - cut.begin for cuts in self.queues for cut in cuts)
        each = ENTRY_SIZE + (self.record_bytes if self.records.needs_records else 0)
        log = sum(cut.end - cut.begin for cut in self.cuts)
        return log + entries * each + sum(map(len, self.places)) * self.record_bytes

    def __str__(self) -> str:
        snapshot, frontiers = self.snapshot, self.snapshot.frontiers
        lines = [
            f"scan: {self.scan} ({self.why})",
            f"log: {snapshot.begin} to {snapshot.end}, writer {snapshot.writer}",
            f"queues are complete below {frontiers.queue_offset}, IndexFiles below {frontiers.index_offset}",
            f"tasks: {len(self.cuts)} of the log, {len(self.queues)} of queues, {len(self.places)} of keys",
            f"bytes to read: about {self.bytes_to_read} of {snapshot.end - snapshot.begin}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in snapshot.notes)])


def explain(options: Mapping[str, str], *filters: Filter) -> str:
    """How a batch with these options will be read: which plan and why, how many tasks, how many bytes.

    Args:
        filters: of `pyspark.sql.datasource`, as Spark pushes them down: `EqualTo(("topic",), "orders")`.

    Raises:
        ReputError: as reading would.
    """
    from reput.connect.options.filters import narrowed

    parsed = read_options(options)
    return str(plan_batch(parsed, narrowed(selection_of(parsed), filters)))


def plan_batch(options: ReadOptions, selection: Selection | None = None) -> ScanPlan:
    """The plan of a batch; `selection` is what options and filters leave, by default what the options do.

    Raises:
        ReputError: see `reput.errors`.
    """
    refuse_starting_latest(options)
    refuse_stream_only(options)
    selection = selection_of(options) if selection is None else selection
    snapshot = take_snapshot(options.path, options.config, tolerant=not options.fail_on_data_loss)
    refuse_unknown(options, snapshot)
    refuse_what_is_gone(options, snapshot)
    plan = _Planner(options, snapshot, selection).plan()
    _log.info("%s: %s", options.path, plan)
    return plan


def job_of(options: ReadOptions, selection: Selection, delays_ms: tuple[int, ...]) -> ScanJob:
    """What all tasks of a scan are told."""
    return ScanJob(
        options.columns, selection, delays_ms, options.crc_check, options.fail_on_data_loss,
        options.broker_name, options.report,
    )  # fmt: skip


class _Planner:
    def __init__(self, options: ReadOptions, snapshot: Snapshot, selection: Selection) -> None:
        self.options = options
        self.snapshot = snapshot
        # What a message inside a batch has as its own keys no index item tells, and Spark asks just that.
        may_unwrap = selection.key_hints and meets_batches(snapshot, selection)
        self.selection = selection = replace(selection, key_hints=()) if may_unwrap else selection
        self.job = job_of(options, selection, snapshot.settings.delays_ms)
        self.records = RecordJob(
            self.job,
            str(snapshot.layout.commit_log),
            snapshot.log.file_size,
            snapshot.kinds[0],
            snapshot.batches,
            snapshot.begin,
            snapshot.frontiers.queue_offset,
        )
        self.maps = LogMaps(snapshot.layout.commit_log, snapshot.log.file_size)
        self.record_bytes = record_bytes(snapshot)

    def plan(self) -> ScanPlan:
        """The plan that was asked for, or that costs least."""
        selection, scan = self.selection, self.options.scan
        try:
            if scan is not Scan.LOG and selection.searched_keys and (plan := self._by_keys()) is not None:
                return plan
            if scan is Scan.QUEUE or (scan is Scan.AUTO and not self._is_most()):
                return self._by_queues()
            if scan is Scan.LOG:
                return self._by_log("asked for by scan=log")
            return self._by_log("nothing leaves out a topic, an offset or a time")
        finally:
            self.maps.close()

    def _is_most(self) -> bool:
        selection = self.selection
        return (
            selection.topics.is_everything
            and selection.topic_names is None
            and selection.queue_ids is None
            and not selection.offsets
            and not selection.times
            and selection.queue_offset.is_everything
            and selection.stored_ms.is_everything
        )

    def _new(self, scan: str, why: str) -> ScanPlan:
        return ScanPlan(scan, why, self.snapshot, self.job, self.records, record_bytes=self.record_bytes)

    def _by_log(self, why: str) -> ScanPlan:
        plan = self._new(Scan.LOG, why)
        plan.cuts = self._cuts(NumberRange())
        return self._without_what_is_gone(plan)

    def _cuts(self, within: NumberRange) -> list[LogCut]:
        position = self.selection.position.cut(within.begin, within.end)
        begin, end = max(self.snapshot.begin, position.begin), min(self.snapshot.end, position.end)
        if begin >= end:
            return []
        step = split_bytes(self.options, end - begin, self.record_bytes)
        return self._in_time(log_cuts(self.snapshot, begin, end, step))

    def _in_time(self, cuts: list[LogCut]) -> list[LogCut]:
        """Without the ranges whose first records, and the next range's, say that all in it is too old or too new."""
        stored = self.selection.stored_ms
        if stored.is_everything:
            return cuts
        times = [self.maps.store_time(cut.begin) for cut in cuts]
        kept = []
        for number, cut in enumerate(cuts):
            behind = times[number + 1] if number + 1 < len(cuts) and cuts[number + 1].begin == cut.end else INT64_MAX
            too_old = 0 <= behind < stored.begin - CLOCK_SLACK_MS
            too_new = times[number] >= 0 and times[number] - CLOCK_SLACK_MS >= stored.end
            if not too_old and not too_new:
                kept.append(cut)
        return kept

    def _by_keys(self) -> ScanPlan | None:
        topics = self._topics()
        places = key_places(self.snapshot, self.selection, topics) if topics is not None else None
        if places is None:
            return None
        plan = self._new(
            _KEY_SCAN, f"IndexFiles tell {len(places)} places for {len(self.selection.searched_keys)} keys"
        )
        most = self.options.max_records_per_partition or _LEAST_RECORDS
        plan.places = [tuple(places[at : at + most]) for at in range(0, len(places), most)]
        plan.cuts = self._cuts(NumberRange(self.snapshot.frontiers.both, INT64_MAX))
        return self._without_what_is_gone(plan)

    def _without_what_is_gone(self, plan: ScanPlan) -> ScanPlan:
        """A plan that meets messages without their queues, told which queues may have begun again."""
        snapshot, names = self.snapshot, self.selection.named_topics
        topics = None if names is None else [name.encode("utf-8", "surrogateescape") for name in sorted(names)]
        with disk_queues(snapshot, self.maps) as queues:
            begun = queues_begun(queues, topics, MOST_QUEUES)
        if begun is None:
            snapshot.notes.append(
                f"more than {MOST_QUEUES} queues: old messages of those that were deleted and began again are rows, too"
            )
        if begun:
            restarts = Restarts(
                begun, snapshot.kinds[0], snapshot.batches, self.records.commit_log, self.records.log_file_size,
                snapshot.begin, snapshot.frontiers.queue_offset,
            )  # fmt: skip
            plan.job = replace(plan.job, restarts=restarts)
            plan.records = replace(plan.records, scan=plan.job)
        return plan

    def _topics(self) -> list[str] | None:
        """The topics of which keys are searched; None where they are too many for the IndexFiles."""
        if self.selection.light_topics:
            # IndexFiles know their messages by the topics that these were sent to.
            return None
        with disk_queues(self.snapshot, self.maps) as queues:
            return topic_names(self.snapshot, queues, self.selection, _TOPICS_MOST)

    def _by_queues(self) -> ScanPlan:
        kind = other_queues(self.snapshot, self.options.config)
        if kind is not None:
            return self._by_log(f"{kind}: only plain queues are read")
        with disk_queues(self.snapshot, self.maps) as queues:
            found = queue_cuts(self.snapshot, queues, self.selection)
        if found.damage:
            _log.warning("%s. All of the log is read instead", found.damage)
            return self._by_log(f"a queue is not whole: {found.damage}")
        missing = missing_topics(self.selection, found.topics)
        if missing:
            return self._by_log(f"topic {missing[0]} has no queue on disk")
        if found.too_many:
            return self._by_log(f"more than {len(found.topics)} topics have queues that are wanted")
        cuts, entries = found.cuts, found.entries
        log_bytes = sum(cut.end - cut.begin for cut in self._cuts(NumberRange()))
        cost = entries * self.record_bytes * _SCATTER
        if self.options.scan is Scan.AUTO and cost > log_bytes:
            return self._by_log(f"{entries} wanted messages lie all over {log_bytes} bytes of log")
        plan = self._new(Scan.QUEUE, f"{entries} entries of {len(cuts)} queues are wanted")
        most = self.options.max_records_per_partition or max(_LEAST_RECORDS, entries // self._tasks())
        plan.queues = list(_grouped(cuts, most))
        plan.cuts = self._cuts(NumberRange(self.snapshot.frontiers.queue_offset, INT64_MAX))
        return plan

    def _tasks(self) -> int:
        return max(self.options.min_partitions, _TASKS_PER_CORE * (os.cpu_count() or 1))


def _grouped(cuts: Iterable[QueueCut], most: int) -> Iterator[tuple[QueueCut, ...]]:
    """Cuts for tasks of at most so many entries."""
    group: list[QueueCut] = []
    room = most
    for whole in cuts:
        cut = whole
        while cut.begin < cut.end:
            taken = min(room, cut.end - cut.begin)
            group.append(cut._replace(end=cut.begin + taken))
            cut = cut._replace(begin=cut.begin + taken)
            room -= taken
            if not room:
                yield tuple(group)
                group, room = [], most
    if group:
        yield tuple(group)


def split_bytes(options: ReadOptions, size: int, each: int) -> int:
    """How large a task's range of the log is, where a record takes `each` bytes."""
    tasks = max(options.min_partitions, _TASKS_PER_CORE * (os.cpu_count() or 1))
    least = 1 if options.min_partitions > 1 else _LEAST_BYTES
    step = max(least, min(options.task_bytes, -(-size // tasks)))
    if options.max_records_per_partition is not None:
        step = min(step, options.max_records_per_partition * each)
    return max(1, step)


def record_bytes(snapshot: Snapshot) -> int:
    """What a record takes on average, as the first ones of the newest file with any tell."""
    for file in reversed(snapshot.log.files):
        walk = LogWalk(snapshot.log, file.start, checking(CHECK_NONE))
        sizes = [len(record.data) for record in islice(walk, _SAMPLE_RECORDS)]
        if sizes and file.start < snapshot.end:
            return max(1, sum(sizes) // len(sizes))
    return USUAL_RECORD_BYTES


def refuse_stream_only(options: ReadOptions) -> None:
    """Options that only a stream has.

    Raises:
        ConfigError: a batch was given one.
    """
    if options.max_offsets_per_trigger or options.max_bytes_per_trigger:
        raise ConfigError(
            "maxOffsetsPerTrigger and maxBytesPerTrigger bound a stream's micro-batches: leave them out here"
        )
