"""The steps of a check for each kind of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from reput.dispatch.batch import QueueBatch
from reput.formats.queue.queue_kinds import BATCHES, FILE, ROCKSDB
from reput.pipeline.check.batches import BatchCheck
from reput.pipeline.check.queue_file_tasks import Mismatch
from reput.pipeline.check.queue_files import FileCheck
from reput.pipeline.check.rocksdb import RocksdbCheck
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import Job
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.pipeline.split.stitch import Stitched


class QueueCheck(Protocol):
    """The steps of a check for one kind of queues."""

    def compare(
        self, job: Job, live_folder: str, split: Split, batch: QueueBatch, rows: Sequence[int]
    ) -> list[Mismatch]:
        """In a task: compare as many of a split's entries as possible, and leave the rest to `judge`."""
        ...

    def judge(
        self, check: Check, stitched: Stitched, table: SplitQueues, mismatches: Mapping[int, list[Mismatch]]
    ) -> None:
        """In the driver: report the findings of the tasks (by split), and check the rest."""
        ...


CHECKS: Mapping[str, QueueCheck] = {FILE: FileCheck(), ROCKSDB: RocksdbCheck(), BATCHES: BatchCheck()}


def checks_of(job: Job) -> list[QueueCheck]:
    """Return the checks of the job's kinds."""
    return [CHECKS[kind] for kind in job.kinds]
