"""Queues of batches, built in log order: an entry's place is known only when the entries before it are counted.

Decode tasks leave the entries of each split. Then one task for a group of queues appends them, by the rules of
`reput.queue.order`. A rebuild and a check build whole new queues. A job that follows the log appends to the live
queues, after the last entry of a record below its frontier, so a repeat writes the same bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import batch_offset_bound
from reput.formats.paths import offset_name
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE, BatchEntry, encode_batch_entry
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.reorder.stage import in_groups
from reput.pipeline.build.stages.state import Build, KeptNumbers, Lost, NextOffsets, RangeQueues
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.parts import BatchPart
from reput.pipeline.split.sink import finish_file, finish_folders, queue_path, refuse_linked_queue
from reput.queue.batch_kind import BatchKind, order_of, take_batches


class BatchBuilder:
    """See `QueueBuilder`; an entry is a record, and its place is the number of entries before it."""

    has_places: ClassVar[bool] = False
    has_rows: ClassVar[bool] = False

    def __init__(self) -> None:
        self._kept: list[tuple[QueueKey, BatchEntry]] = []

    def reads_parts(self, build: Build, queues: RangeQueues) -> bool:  # noqa: ARG002 - a QueueBuilder
        """See `QueueBuilder`."""
        return any(result.batches for result in queues.results)

    def place(self, build: Build, queues: RangeQueues) -> list[QueueOutcome]:
        """Append the entries of the range to the queues of batches."""
        if not self.reads_parts(build, queues):
            return []
        with build.stage("batches"):
            return build_batch_queues(build.engine, build.job, queues.results, build.listener)

    def keep_numbers(self, build: Build, queues: RangeQueues, lost: Lost) -> KeptNumbers:
        """Find the queues whose records have all expired, or lie in a gap of the log."""
        built = {outcome.key: outcome for outcome in queues.others}
        retained, warnings = [], []
        for queue in BatchKind(build.layout.batch_consume_queue).queues():
            key, last = queue.key, queue.span().last
            if last is None or not paths.is_topic_folder_name(key.topic) or not build.job.wants(key.topic):
                continue
            outcome = built.get(key)
            if outcome is not None:
                if lost.gaps and last.next_offset > outcome.next:
                    warnings.append(
                        f"{key}: ended at queue offset {last.next_offset}, ends at {outcome.next} now. New messages "
                        "will be given numbers that consumers may have passed: reset the offsets of consumers past its "
                        "end"
                    )
                continue
            if key.topic in build.settings.types.simple or not lost.has(last.physical_offset):
                continue
            if last.next_offset > batch_offset_bound(queues.end):
                warnings.append(
                    f"{key}: no record, and the old queue's end at {last.next_offset} is more than a log of this size "
                    f"can hold; its numbering begins again at 0 (keep {queue.place} if consumers still have offsets "
                    "there)"
                )
                continue
            self._kept.append((key, last))
            retained.append(f"{key} goes on at {last.next_offset} (from {queue.place})")
        return KeptNumbers(retained, warnings)

    def finish(self, build: Build, queues: RangeQueues, kept: NextOffsets) -> None:  # noqa: ARG002 - a QueueBuilder
        """Write the last entry of queues without a record: it keeps their next offset."""
        job = build.job
        for key, last in self._kept:
            path = f"{queue_path(job.batch_queue_folder, key)}/{offset_name(0)}"
            fs.write_at(path, job.batch_queue_file_size, job.owner, encode_batch_entry(last), 0)

    def verify(self, build: Build, queues: RangeQueues) -> list[str]:  # noqa: ARG002 - a QueueBuilder
        """Find no difference: what was written is not read back."""
        return []

    def parts(self, build: Build) -> list[str]:
        """Return the whole folder, or the folders of the topics that were built."""
        folder = build.job.batch_queue_folder
        if build.job.of_all_topics and (fs.exists(build.layout.batch_consume_queue) or fs.exists(folder)):
            fs.make_dirs(folder, build.job.owner)
            return [paths.BATCH_CONSUME_QUEUE]
        topics = [] if build.job.of_all_topics else [entry.name for entry in fs.list_dir(folder) if not entry.is_file]
        return [f"{paths.BATCH_CONSUME_QUEUE}/{topic}" for topic in topics]

    def close(self) -> None:
        """Do nothing: no file is held open."""


def build_batch_queues(
    engine: Engine, job: Job, results: Sequence[SplitResult], listener: ProgressListener
) -> list[QueueOutcome]:
    """Build the queues of batches from the parts of the splits, in log order."""
    splits = tuple(result.number for result in results if result.batches)
    keys: set[QueueKey] = set()
    for number in splits:
        keys.update(BatchPart(job, number).counts)
    if not keys:
        return []
    groups = [group.keys for group in in_groups(sorted(keys))]
    done = engine.run(partial(_build_task, job, splits), groups, listener.advance)
    return [outcome for group in done for outcome in group]


def _build_task(job: Job, splits: Sequence[int], keys: Sequence[QueueKey]) -> list[QueueOutcome]:
    with job.writing():
        # Each attempt builds in a folder of its own, so that one that dies leaves a finished one alone.
        target = job if job.live else replace(job, staging=f"{job.parts_folder}/{uuid.uuid4().hex}")
        builders = [_Builder(target, key) for key in keys]
        for number in splits:
            part = BatchPart(job, number)
            for builder in builders:
                builder.take(part.entries(builder.key))
        folders = [queue_path(job.batch_queue_folder, key) for key in keys]
        if not job.live:
            for builder, folder in zip(builders, folders, strict=True):
                fs.remove_tree(folder)
                fs.make_dirs(Path(folder).parent, job.owner)
                fs.rename(builder.folder, folder)
        finish_folders(job, folders)
    return [builder.outcome() for builder in builders]


class _Builder:
    """Appends to one queue, live or new."""

    def __init__(self, job: Job, key: QueueKey) -> None:
        self.key = key
        self.folder = queue_path(job.batch_queue_folder, key)
        self._job = job
        span = BatchKind(Path(job.batch_queue_folder)).queue(key).span(below=job.frontier if job.live else 0)
        # The number of the next entry; a live queue goes on, a new one has none yet.
        self._number = span.entries.stop
        self._first = span.min_offset if span.last else -1
        self._order = order_of(span)

    def take(self, entries: NDArray[np.void]) -> None:
        """Append the queue's entries in the next split."""
        for kept in take_batches(self._order, entries):
            if kept.restarts:
                fs.remove_tree(self.folder)
                self._number, self._first = 0, -1
            if self._first < 0:
                self._first = int(kept.entries[0]["base_offset"])
            self._write(memoryview(kept.entries.tobytes()))
            self._number += len(kept.entries)

    def _write(self, data: memoryview) -> None:
        refuse_linked_queue(self._job, self.folder)
        size, position = self._job.batch_queue_file_size, self._number * BATCH_ENTRY_SIZE
        while data:
            start = position // size * size
            piece = data[: start + size - position]
            path = f"{self.folder}/{offset_name(start)}"
            descriptor = fs.open_sized(path, size, self._job.owner)
            try:
                with fs.errors_named(path, f"write {len(piece)} bytes at {position - start}"):
                    fs.pwrite(descriptor, piece, position - start)
                    finish_file(self._job, descriptor)
            finally:
                fs.close(descriptor)
            data = data[len(piece) :]
            position += len(piece)

    def outcome(self) -> QueueOutcome:
        """Return the outcome of the queue."""
        order = self._order
        return QueueOutcome(
            self.key,
            max(self._first, 0),
            max(order.state.next, 0),
            order.entries,
            order.repeats,
            order.missing,
            order.restarts,
            order.dropped,
        )
