"""grow: what the driver hands to each kind of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reput.formats.consume_queue import QueueKey
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split


@dataclass(frozen=True, slots=True)
class QueueGrowth:
    """What a range adds: its splits with their results, its queues, where those ended before, and the log's offset."""

    splits: Sequence[Split]
    results: Sequence[SplitResult]
    table: SplitQueues
    ends: Mapping[QueueKey, int]
    end: int


class GrowDriver(Protocol):
    """The driver's side: who runs tasks, and for which job."""

    engine: Engine
    job: Job
    listener: ProgressListener

    def shut_out_late_tasks(self) -> None:
        """No attempt of a task so far may write any more; the job is another one then."""
        ...
