"""Blank entries of queue files: before a first message, for queues without records, and after lost messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reput.files import fs
from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import BLANKS_AT_ONCE, ENTRY_SIZE, PRE_BLANK, QueueKey, QueueRange, blank_end
from reput.pipeline.split.job import Job
from reput.pipeline.split.sink import finish_file, finish_folders, queue_path, refuse_linked_queue, write_entries

_QUEUES_A_TASK = 256


class FrontBlank(NamedTuple):
    """A queue whose first file does not begin with its first message: entries from there to `first` become pre-blank.

    A queue without a message (`has_entries` is False) gets the file all the same, to keep its number `first`.
    """

    key: QueueKey
    first: int
    has_entries: bool


def front_blanks(
    job: Job, queues: Sequence[tuple[QueueKey, int]], kept: Sequence[tuple[QueueKey, int]]
) -> list[FrontBlank]:
    """Return the work for queues that start at some offset, and for queues that only keep their next offset."""
    in_file = job.queue_file_size // ENTRY_SIZE
    work = [FrontBlank(key, first, True) for key, first in queues if first % in_file]
    return work + [FrontBlank(key, first, False) for key, first in kept]


def in_tasks(work: Sequence[FrontBlank]) -> list[tuple[FrontBlank, ...]]:
    """Cut the work into tasks."""
    return [tuple(work[at : at + _QUEUES_A_TASK]) for at in range(0, len(work), _QUEUES_A_TASK)]


def blank_fronts(job: Job, work: Sequence[FrontBlank]) -> int:
    """Fill the fronts of these queues; returns the number of entries written.

    Source: `ConsumeQueue.fillPreBlank`, `ConsumeQueue.initializeWithOffset`.
    """
    written = 0
    with job.writing():
        for blank in work:
            written += _blank_front(job, blank)
        finish_folders(job, (queue_path(job.queue_folder, blank.key) for blank in work))
    return written


def blank_end_of_queue(job: Job, blank: QueueRange) -> int:
    """Fill the end of this queue; returns the number of entries written."""
    with job.writing():
        position = blank.first
        while position < blank.end:
            until = min(blank.end, position + BLANKS_AT_ONCE)
            count = until - position
            entries = blank_end(count) if until == blank.end else PRE_BLANK * count
            write_entries(job, blank.key, position, memoryview(entries))
            position = until
        finish_folders(job, [queue_path(job.queue_folder, blank.key)])
    return blank.end - blank.first


def _blank_front(job: Job, blank: FrontBlank) -> int:
    in_file = job.queue_file_size // ENTRY_SIZE
    start = blank.first // in_file * in_file
    folder = queue_path(job.queue_folder, blank.key)
    refuse_linked_queue(job, folder)
    path = f"{folder}/{offset_name(start * ENTRY_SIZE)}"
    descriptor = fs.open_sized(path, job.queue_file_size, job.owner)
    try:
        with fs.errors_named(path, "write pre-blank entries"):
            count = blank.first - start
            fs.pwrite(descriptor, PRE_BLANK * count if blank.has_entries else blank_end(count), 0)
            finish_file(job, descriptor)
    finally:
        fs.close(descriptor)
    return blank.first - start
