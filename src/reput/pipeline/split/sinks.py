"""Sinks: a task hands over the queue entries that it has, and each kind of queues takes them in its own way.

`SINKS` is the one table of kinds. `MESSAGE_SINKS` has those of it that also take entries read from other queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.queue.rocksdb_consume_queue import VALUE, VALUE_SIZE
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job
from reput.pipeline.split.plan import Split
from reput.pipeline.split.rocksdb_parts import save_value_rows, save_values
from reput.pipeline.split.sink import place_entries
from reput.queue.batch_kind import BATCHES
from reput.queue.file_kind import FILE
from reput.queue.rocksdb_kind import ROCKSDB
from reput.queue.runs import EntryRun


class TimedRun(NamedTuple):
    """A run of a queue's entries, and the store time (int64, ms) of each."""

    key: QueueKey
    run: EntryRun
    store_timestamps: NDArray[np.int64]


class AnySink(Protocol):
    """Takes the entries that a task of the first stage has for one kind of queues, batches included."""

    def take(self, job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:
        """Take a split's entries; those for messages are of the queues in `rows`, in the order of RocksDB's keys."""
        ...


class QueueSink(AnySink, Protocol):
    """Takes the entries of queues with an entry for each message."""

    def take_rows(self, job: Job, number: int, rows: Sequence[TimedRun]) -> None:
        """Take the entries that task `number` read from other queues, in the order of RocksDB's keys."""
        ...


class FileSink:
    """Writes entries to their places in the queue files, or leaves them if the job places entries later."""

    def take(self, job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:
        """See `QueueSink`."""
        if not job.places_at_once:
            parts.save_entries(job, split.number, batch, rows)
            return
        # A later task that sees all of a queue out of order, in log order, writes its entries.
        keys = {row: batch.key(row) for row in rows if batch.steady[row]}
        runs = ((key, EntryRun(int(batch.first[row]), batch.queue_entries(row))) for row, key in keys.items())
        if refused := {*place_entries(job, runs)}:
            # They are reordered later, like queues that are out of order.
            batch.steady[[row for row, key in keys.items() if key in refused]] = 0

    def take_rows(self, job: Job, number: int, rows: Sequence[TimedRun]) -> None:  # noqa: ARG002 - a QueueSink
        """See `QueueSink`."""
        place_entries(job, ((one.key, one.run) for one in rows))


class RocksdbSink:
    """Leaves values for the stage that makes tables of them; it leaves out the queues that RocksDB does not hold."""

    def take(self, job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:
        """See `QueueSink`."""
        save_values(job, split.number, batch, rows)

    def take_rows(self, job: Job, number: int, rows: Sequence[TimedRun]) -> None:
        """See `QueueSink`."""
        values = np.empty(sum(len(one.store_timestamps) for one in rows), dtype=VALUE.dtype)
        in_bytes, at = values.view(np.uint8).reshape(-1, VALUE_SIZE), 0
        for one in rows:
            count = len(one.store_timestamps)
            in_bytes[at : at + count, :ENTRY_SIZE] = one.run.rows
            values["store_timestamp"][at : at + count] = one.store_timestamps
            at += count
        save_value_rows(job, number, in_bytes)


class BatchSink:
    """Leaves entries of batches for the stage that appends them: their places are the numbers of entries before."""

    def take(self, job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:  # noqa: ARG002 - an AnySink
        """See `AnySink`."""
        wanted = job.wanted_of(batch.batches.entries)
        if wanted:
            parts.save_batches(job, split.number, wanted)


MESSAGE_SINKS: Mapping[str, QueueSink] = {FILE: FileSink(), ROCKSDB: RocksdbSink()}
SINKS: Mapping[str, AnySink] = {**MESSAGE_SINKS, BATCHES: BatchSink()}


def sinks_of(job: Job) -> list[AnySink]:
    """Return the sinks of the job's kinds."""
    return [SINKS[kind] for kind in job.kinds]
