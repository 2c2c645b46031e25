"""The first stage of `check`: the decode job again, with sinks that compare."""

from __future__ import annotations

import numpy as np

from reput.dispatch.batch import group_by_queue
from reput.pipeline.check.kinds import CHECKS
from reput.pipeline.check.queues import Mismatch
from reput.pipeline.split import parts
from reput.pipeline.split.decode import decode_split
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split
from reput.pipeline.split.tasks import columns_for, leave_batches, split_result


def decode_and_compare(job: Job, live_folder: str, split: Split) -> tuple[SplitResult, list[Mismatch]]:
    """Decode a split and compare its entries with those on disk; later stages get its ranges and items."""
    decoded = decode_split(split, job.decode, columns_for(split))
    columns = decoded.columns
    mismatches: list[Mismatch] = []
    entries = 0
    batch = None
    if job.build_queues:
        batch = group_by_queue(columns, job.types, job.deleted)
        chosen = sorted(batch.queues(), key=lambda one: parts.key_order(one[1]))
        rows = np.array([row for row, _ in chosen], dtype=np.int64)
        parts.save_ranges(job, split.number, batch, rows)
        entries = int(np.diff(batch.start).sum())
        for kind in job.kinds:
            mismatches += CHECKS[kind].compare(job, live_folder, split, batch, rows.tolist())
    if job.build_index:
        parts.save_items(job, split.number, parts.items_of(columns, with_tags=True))
    result = split_result(decoded, entries)
    return leave_batches(job, batch, result) if batch is not None else result, mismatches
