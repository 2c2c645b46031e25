"""What a decode task does with the entries of a split, by kind of queue. A kind that is new gets a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import QueueBatch
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.rocksdb import VALUE_SIZE
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job
from reput.pipeline.split.plan import Split
from reput.pipeline.split.rocksdb_parts import save_value_rows, save_values
from reput.pipeline.split.sink import finish_folders, queue_path, would_overwrite, write_entries
from reput.queue.file_kind import FILE
from reput.queue.rocksdb_kind import ROCKSDB

SinkTask = Callable[[Job, Split, QueueBatch, Sequence[int]], None]
"""Takes the entries of the batch's queues in `rows`, which are in the order of RocksDB's keys."""


def sink_files(job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:  # noqa: ARG001 - a SinkTask
    """Entries go straight to their places in the queue files."""
    written = set()
    for row in rows:
        key, first, entries = batch.key(row), int(batch.first[row]), batch.queue_entries(row)
        if batch.steady[row] and job.live and would_overwrite(job, key, first, len(entries)):
            batch.steady[row] = 0
        # A queue that does not run straight is left to the redo stage, which sees all of it in log order.
        if batch.steady[row]:
            write_entries(job, key, first, entries)
            written.add(queue_path(job.queue_folder, key))
    finish_folders(job, written)


def sink_values(job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Values are left for the stage that makes tables of them."""
    save_values(job, split.number, batch, rows)


def leave_entries(job: Job, split: Split, batch: QueueBatch, rows: Sequence[int]) -> None:
    """Entries are left for the stage that puts them into queue files, once the split is proved."""
    parts.save_entries(job, split.number, batch, rows)


PLACED_LATER: Mapping[str, str] = {FILE: "file, later"}
"""What stands in the place of a kind in a job whose tasks must not write in place."""

SINKS: Mapping[str, SinkTask] = {FILE: sink_files, ROCKSDB: sink_values, PLACED_LATER[FILE]: leave_entries}


class QueueRows(NamedTuple):
    """Consecutive entries of a queue from queue offset `first` on, 20 bytes each (uint8); store times (int64, ms)."""

    key: QueueKey
    first: int
    entries: NDArray[np.uint8]
    store_timestamps: NDArray[np.int64]

    @property
    def next(self) -> int:
        """The queue offset behind them."""
        return self.first + len(self.store_timestamps)


RowSinkTask = Callable[[Job, int, Sequence[QueueRows]], None]
"""Takes the rows of the task of this number, in the order of RocksDB's keys: what `SinkTask` is for a decoded split."""


def sink_rows_to_files(job: Job, number: int, rows: Sequence[QueueRows]) -> None:  # noqa: ARG001 - a RowSinkTask
    """Entries go straight to their places in the queue files."""
    for one in rows:
        write_entries(job, one.key, one.first, one.entries.data)
    finish_folders(job, {queue_path(job.queue_folder, one.key) for one in rows})


def sink_rows_to_values(job: Job, number: int, rows: Sequence[QueueRows]) -> None:
    """Values are left for the stage that makes tables of them."""
    values = np.empty((sum(len(one.store_timestamps) for one in rows), VALUE_SIZE), dtype=np.uint8)
    at = 0
    for one in rows:
        count = len(one.store_timestamps)
        values[at : at + count, :ENTRY_SIZE] = one.entries.reshape(count, ENTRY_SIZE)
        values[at : at + count, ENTRY_SIZE:] = one.store_timestamps.astype(">i8").view(np.uint8).reshape(count, 8)
        at += count
    save_value_rows(job, number, values)


ROW_SINKS: Mapping[str, RowSinkTask] = {FILE: sink_rows_to_files, ROCKSDB: sink_rows_to_values}
