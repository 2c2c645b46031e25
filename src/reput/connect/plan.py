"""Choosing how a store is read, and saying so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from reput.connect.cuts import LogCut, log_cuts
from reput.connect.options import ReadOptions, Scan, read_options, refuse_starting_latest
from reput.connect.scan import ScanJob
from reput.connect.selection import Selection, selection_of
from reput.connect.snapshot import Snapshot, take_snapshot

_MOST_BYTES = 256 << 20
_LEAST_BYTES = 8 << 20
_TASKS_PER_CORE = 3


@dataclass
class ScanPlan:
    """How a store will be read: by which plan and why, and the tasks' ranges."""

    scan: Scan
    why: str
    snapshot: Snapshot
    job: ScanJob
    cuts: list[LogCut] = field(default_factory=list)

    @property
    def bytes_to_read(self) -> int:
        """Bytes of log (and of queues) that the tasks look at."""
        return sum(cut.end - cut.begin for cut in self.cuts)

    def __str__(self) -> str:
        snapshot, frontiers = self.snapshot, self.snapshot.frontiers
        lines = [
            f"scan: {self.scan} ({self.why})",
            f"log: {snapshot.begin} to {snapshot.end}, writer {snapshot.writer}",
            f"queues are complete below {frontiers.queue_offset}, IndexFiles below {frontiers.index_offset}",
            f"tasks: {len(self.cuts)}, bytes to read: {self.bytes_to_read}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in snapshot.notes)])


def explain(options: Mapping[str, str]) -> str:
    """How a batch with these options will be read: which plan and why, how many tasks, how many bytes.

    Raises:
        ReputError: as reading would.
    """
    return str(plan_batch(read_options(options)))


def plan_batch(options: ReadOptions, selection: Selection | None = None) -> ScanPlan:
    """The plan of a batch.

    Raises:
        ReputError: see `reput.errors`.
    """
    refuse_starting_latest(options)
    selection = selection or selection_of(options)
    snapshot = take_snapshot(options.path, options.config, tolerant=not options.fail_on_data_loss)
    job = ScanJob(
        options.columns, selection, snapshot.settings.delays_ms, options.crc_check, options.fail_on_data_loss,
        options.broker_name,
    )  # fmt: skip
    return plan_log(options, snapshot, job, "the whole log is asked for")


def plan_log(options: ReadOptions, snapshot: Snapshot, job: ScanJob, why: str) -> ScanPlan:
    """A scan by ranges of the log."""
    position = job.selection.position
    begin, end = max(snapshot.begin, position.begin), min(snapshot.end, position.end)
    step = split_bytes(options, max(0, end - begin))
    return ScanPlan(Scan.LOG, why, snapshot, job, log_cuts(snapshot, begin, end, step))


def split_bytes(options: ReadOptions, size: int) -> int:
    """How large a task's range is."""
    tasks = max(options.min_partitions, _TASKS_PER_CORE * (os.cpu_count() or 1))
    return max(_LEAST_BYTES, min(_MOST_BYTES, size // tasks))
