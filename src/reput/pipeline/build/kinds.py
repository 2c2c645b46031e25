"""The builder of each kind of queues, in one object.

Tasks take entries of a kind in `pipeline/split/sinks.py`; `pipeline/check/kinds.py` compares it with the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reput.formats.queue.queue_kinds import BATCHES, FILE, ROCKSDB
from reput.pipeline.build.queues.batch_queues import BatchBuilder
from reput.pipeline.build.queues.queue_files import FileBuilder
from reput.pipeline.build.rocksdb.queues import RocksdbBuilder
from reput.pipeline.build.stages.state import QueueBuilder
from reput.pipeline.split.job import Job
from reput.store.disk.layout import StoreLayout


def queue_builders(layout: StoreLayout, job: Job) -> list[QueueBuilder]:
    """Return a builder for each kind of queues of the job."""
    known: dict[str, Callable[[], QueueBuilder]] = {
        FILE: FileBuilder,
        ROCKSDB: partial(RocksdbBuilder, layout, job),
        BATCHES: BatchBuilder,
    }
    return [known[name]() for name in job.kinds]
