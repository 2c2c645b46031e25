"""sink: tasks write entries to their places in the ConsumeQueue files, staged or live.

Entry n of a queue is at byte n * 20, so tasks need no shuffle, and a retried or speculative task writes the same bytes
again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from reput.files import fs, links
from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey
from reput.pipeline.split.job import Job
from reput.queue.runs import EntryRun


def queue_path(folder: str, key: QueueKey) -> str:
    """Return the folder of a queue; the decode kernel has checked that the topic can be a folder name."""
    return f"{folder}/{key.topic.decode()}/{key.queue_id}"


def place_entries(job: Job, runs: Iterable[tuple[QueueKey, EntryRun]]) -> list[QueueKey]:
    """Write entries to their places in the queue files, but for queues that these do not hold.

    Returns the queues that were left alone, because they would have overwritten live entries of records below the
    frontier.
    """
    refused: list[QueueKey] = []
    folders: set[str] = set()
    for key, run in runs:
        if not job.places(key):
            continue
        if job.live and _would_overwrite(job, key, run.first, len(run.entries)):
            refused.append(key)
            continue
        write_entries(job, key, run.first, run.entries)
        folders.add(queue_path(job.queue_folder, key))
    finish_folders(job, folders)
    return refused


def refuse_linked_queue(job: Job, folder: str) -> None:
    """Refuse to write into a live queue whose folder, or whose topic's, is a link; staging has no links.

    Raises:
        AccessError: it is one.
    """
    if job.live:
        links.refuse_links(folder.rpartition("/")[0], folder)


def write_entries(job: Job, key: QueueKey, first: int, entries: memoryview) -> None:
    """Write consecutive entries of a queue from queue offset `first` on."""
    folder = queue_path(job.queue_folder, key)
    refuse_linked_queue(job, folder)
    position, file_size = first * ENTRY_SIZE, job.queue_file_size
    while entries:
        start = position // file_size * file_size
        piece = entries[: start + file_size - position]
        _write_piece(job, f"{folder}/{offset_name(start)}", piece, position - start)
        entries = entries[len(piece) :]
        position += len(piece)


def _would_overwrite(job: Job, key: QueueKey, first: int, size: int) -> bool:
    """Return True if `size` bytes at queue offset `first` would overwrite entries of records below the frontier."""
    folder = queue_path(job.queue_folder, key)
    position, end = first * ENTRY_SIZE, first * ENTRY_SIZE + size
    while position < end:
        start = position // job.queue_file_size * job.queue_file_size
        until = min(end, start + job.queue_file_size)
        data = fs.read_bytes(f"{folder}/{offset_name(start)}", until - position, position - start) or b""
        present = np.frombuffer(data, dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)
        if bool(((present["size"] > 0) & (present["physical_offset"] < job.frontier)).any()):
            return True
        position = until
    return False


def _write_piece(job: Job, path: str, piece: memoryview, offset: int) -> None:
    descriptor = fs.open_sized(path, job.queue_file_size, job.owner)
    try:
        with fs.errors_named(path, f"write {len(piece)} bytes at {offset}"):
            fs.pwrite(descriptor, piece, offset)
            finish_file(job, descriptor)
    finally:
        fs.close(descriptor)


def finish_file(job: Job, descriptor: int) -> None:
    """Sync a file after a task's last write to it, if the driver's sync does not reach the task's machine."""
    if job.sync_in_tasks:
        fs.sync(descriptor)


def finish_folders(job: Job, folders: Iterable[str]) -> None:
    """Sync these folders and those above them after a task's last new name, if the driver's sync does not reach them.

    A power cut loses a synced file if it loses the new name in its folder.
    """
    if not job.sync_in_tasks:
        return
    top = job.live or job.staging
    found = set(folders)
    for folder in [*found]:
        while len(folder := folder.rpartition("/")[0]) >= len(top):
            found.add(folder)
    for folder in sorted(found, reverse=True):
        fs.sync_path(folder)
