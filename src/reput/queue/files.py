"""ConsumeQueue files as they lie on disk: which queues there are, and where each ends.

Source: `ConsumeQueue.recover`: entries count while they are valid; the walk goes on to the next file only when this one
is full. `ConsumeQueueStore.loadConsumeQueues`: folders that are no number are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reput.files import fs
from reput.formats import consume_queue, paths
from reput.formats.consume_queue import ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue: its path, its start (bytes in the queue) and its length."""

    path: Path
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class QueueFolder:
    """A queue on disk: its topic (as the folder is named), its id, and its files in order."""

    topic: str
    queue_id: int
    path: Path
    files: tuple[QueueFile, ...]


def list_queues(folder: Path) -> Iterator[QueueFolder]:
    """The queues below a consumequeue folder, by topic and id."""
    for topic in fs.list_dir(folder):
        if topic.is_dir:
            yield from list_topic_queues(folder / topic.name)


def list_topic_queues(folder: Path) -> Iterator[QueueFolder]:
    """The queues of one topic's folder, by id."""
    ids = []
    for entry in fs.list_dir(folder):
        queue_id = paths.parse_queue_name(entry.name) if entry.is_dir else None
        if queue_id is not None:
            ids.append(queue_id)
    for queue_id in sorted(ids):
        path = folder / str(queue_id)
        yield QueueFolder(folder.name, queue_id, path, list_queue_files(path))


def list_queue_files(folder: Path) -> tuple[QueueFile, ...]:
    """The files of one queue, in order."""
    files = []
    for entry in fs.list_dir(folder):
        start = None if entry.is_dir else paths.parse_offset_name(entry.name)
        if start is not None:
            files.append(QueueFile(folder / entry.name, start, entry.size))
    return tuple(files)


def valid_entries(data: bytes) -> int:
    """How many entries from the start of `data` are valid, up to the first that is not."""
    array = np.frombuffer(data, dtype=consume_queue.ENTRY.dtype, count=len(data) // ENTRY_SIZE)
    invalid = np.flatnonzero((array["physical_offset"] < 0) | (array["size"] <= 0))
    return int(invalid[0]) if len(invalid) else len(array)


def max_offset(queue: QueueFolder, bound: int) -> int | None:
    """The queue offset behind the last valid entry of a queue; None without a usable file, or past `bound`.

    A zero-length last file is passed over, as RocketMQ removes it.
    """
    files = [file for file in queue.files if file.size >= ENTRY_SIZE and file.start % ENTRY_SIZE == 0]
    for file in reversed(files):
        if file.start // ENTRY_SIZE > bound:
            return None
        count = valid_entries(fs.read_bytes(file.path, file.size) or b"")
        if count or file is files[0]:
            end = file.start // ENTRY_SIZE + count
            return end if end <= bound else None
    return None
