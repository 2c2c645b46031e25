"""What a decode task does with the entries of a split, by kind of queue. A kind that is new gets a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reput.dispatch.batch import QueueBatch
from reput.pipeline import parts
from reput.pipeline.job import Job
from reput.pipeline.plan import Split
from reput.pipeline.rocksdb_parts import save_values
from reput.pipeline.sink import finish_folders, queue_path, would_overwrite, write_entries
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
    parts.save_entries(parts.entries_path(job.parts_folder, split.number), batch, rows)


LEFT = "file, later"
"""What stands in the place of the kind `FILE` in a job whose tasks must not write in place."""

SINKS: Mapping[str, SinkTask] = {FILE: sink_files, ROCKSDB: sink_values, LEFT: leave_entries}
