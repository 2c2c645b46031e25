"""The first stage of `check`: the decode job again, with sinks that compare."""

from __future__ import annotations

import numpy as np

from reput.dispatch.batch import group_by_queue
from reput.pipeline.check.kinds import checks_of
from reput.pipeline.check.queue_file_tasks import Mismatch
from reput.pipeline.split import parts
from reput.pipeline.split.decode import decode_split
from reput.pipeline.split.index_sinks import take_indexed
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split
from reput.pipeline.split.tasks import columns_for, queues_result, split_result, wanted_rows


def decode_and_compare(job: Job, live_folder: str, split: Split) -> tuple[SplitResult, list[Mismatch]]:
    """Decode a split and compare its entries with those on disk; later stages get its ranges and items."""
    decoded = decode_split(split, job.decode, columns_for(split))
    take_indexed(job, decoded)
    if not job.build_queues:
        return split_result(decoded, 0), []
    batch = group_by_queue(decoded.columns, job.types, job.deleted)
    rows = wanted_rows(job, batch)
    parts.save_ranges(job, split.number, batch, np.array(rows, dtype=np.int64))
    mismatches = [one for kind in checks_of(job) for one in kind.compare(job, live_folder, split, batch, rows)]
    return queues_result(job, decoded, batch, rows), mismatches
