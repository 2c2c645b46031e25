"""Tasks of the first stage: decode a split, dispatch it, sink it. Plain functions over (job, split)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reput.dispatch.batch import QueueBatch, group_by_queue
from reput.kernels.layouts.columns import Columns, StateAt, ThreadScratch
from reput.pipeline.split import parts
from reput.pipeline.split.decode import DecodedSplit, decode_split
from reput.pipeline.split.index_sinks import take_indexed
from reput.pipeline.split.job import Job, SplitOddities, SplitResult
from reput.pipeline.split.parts import key_order
from reput.pipeline.split.plan import Split
from reput.pipeline.split.sinks import sinks_of

_scratch = ThreadScratch()


def columns_for(split: Split) -> Columns:
    """Return columns for a split; this thread reuses the columns of the split before if they are large enough."""
    return _scratch.for_range(split.size)


def decode_and_sink(job: Job, split: Split) -> SplitResult:
    """Decode a split, hand its entries to the sinks, and leave its ranges and items for the next stages."""
    decoded = decode_split(split, job.decode, columns_for(split))
    with job.writing():
        take_indexed(job, decoded)
        return sink_split(job, decoded)


def sink_split(job: Job, decoded: DecodedSplit) -> SplitResult:
    """Write the queue entries of a decoded split, and leave its ranges; the caller holds the fence."""
    if not job.build_queues:
        return split_result(decoded, 0)
    batch = group_by_queue(decoded.columns, job.types, job.deleted)
    rows = wanted_rows(job, batch)
    for sink in sinks_of(job):
        sink.take(job, decoded.split, batch, rows)
    parts.save_ranges(job, decoded.split.number, batch, np.array(rows, dtype=np.int64))
    return queues_result(job, decoded, batch, rows)


def wanted_rows(job: Job, batch: QueueBatch) -> list[int]:
    """Return the rows of the queues that the job wants, in the order of RocksDB's keys."""
    chosen = [(row, key) for row, key in batch.queues() if job.wants(key.topic)]
    chosen.sort(key=lambda one: key_order(one[1]))
    return [row for row, _ in chosen]


def queues_result(job: Job, decoded: DecodedSplit, batch: QueueBatch, rows: Sequence[int]) -> SplitResult:
    """Return the driver's result of a decoded split with the entries of the queues in `rows` and of batches."""
    batches = batch.batches
    result = split_result(decoded, int(np.diff(batch.start)[np.array(rows, dtype=np.int64)].sum()))
    if job.skip_topics:
        topics = {key.topic for _, key in batch.queues()} | {key.topic for key in batches.entries}
        result = result._replace(skipped=job.skip_topics & topics)
    return result._replace(
        batches=sum(map(len, job.wanted_of(batches.entries).values())),
        inferred=batches.inferred,
        oddities=result.oddities._replace(
            without_entry=batches.without_entry, first_without_entry=batches.first_without_entry
        ),
    )


def split_result(decoded: DecodedSplit, queue_entries: int) -> SplitResult:
    """Return the driver's result of a decoded split."""
    columns, records = decoded.columns, decoded.columns.records
    state = columns.state
    last_with_item = int(np.searchsorted(columns.first_item[: records + 1], columns.items)) if columns.items else 0
    return SplitResult(
        number=decoded.split.number,
        begin=decoded.split.begin,
        first_record=decoded.first_record,
        chain_end=decoded.chain_end,
        gaps=tuple(decoded.gaps),
        open_verdict=decoded.open_verdict,
        records=records,
        items=columns.items,
        queue_entries=queue_entries,
        records_after_last_item=records - last_with_item,
        last_record=int(columns.position[records - 1]) if records else -1,
        last_record_size=int(columns.size[records - 1]) if records else 0,
        first_store_timestamp=int(state[StateAt.first_store_timestamp]),
        last_store_timestamp=int(state[StateAt.last_store_timestamp]),
        max_store_timestamp=int(state[StateAt.max_store_timestamp]),
        oddities=SplitOddities(
            prepared=int(state[StateAt.prepared]),
            rolled_back=int(state[StateAt.rolled_back]),
            without_entry=0,
            first_without_entry=-1,
            time_regressions=int(state[StateAt.time_regressions]),
            first_time_regression=int(state[StateAt.first_time_regression]),
        ),
    )
