"""The tasks of `check` for ConsumeQueues: the decode job again, with a sink that compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.remedies import not_a_file
from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey, QueueRange
from reput.pipeline.check import ext as check_ext
from reput.pipeline.check.queue_finding import QueueFinding
from reput.pipeline.split.job import Job
from reput.queue.compare import Compared
from reput.queue.files import QueueFile, listed_files
from reput.store.compare.queue_rules import entries_after, entries_before


class Mismatch(NamedTuple):
    """Entries of one queue that differ from one split's records; entries are counted by queue offset."""

    key: QueueKey
    entries: Compared


class QueueToCheck(NamedTuple):
    """A queue on disk: its folder, and the queue offsets of its records in the log ([0, 0): it has none)."""

    folder: str
    records: QueueRange


def stored_entries(folder: str, file_size: int, first: int, count: int) -> NDArray[np.uint8]:
    """Read `count` entries of a queue from offset `first`; zeros if no file has them."""
    data = bytearray()
    position, end = first * ENTRY_SIZE, (first + count) * ENTRY_SIZE
    while position < end:
        start = position // file_size * file_size
        size = min(start + file_size, end) - position
        piece = fs.read_bytes(f"{folder}/{offset_name(start)}", size, position - start) or b""
        data += piece.ljust(size, b"\0")
        position += size
    return np.frombuffer(bytes(data), dtype=np.uint8)


def check_outside(job: Job, log_min_offset: int, queues: Sequence[QueueToCheck]) -> list[QueueFinding]:
    """Check the files of these queues, and their entries outside the queues' records."""
    found: list[QueueFinding] = []
    for queue in queues:
        made_to = queue.records.end * ENTRY_SIZE if job.judged_to is not None else None
        files, not_files = listed_files(Path(queue.folder))
        found += file_findings(files, job.queue_file_size, made_to)
        found += not_file_findings(not_files)
        found += _outside_findings(job, log_min_offset, queue, files)
        found += check_ext.unit_findings(job, queue.records.key, queue.records.first, queue.records.end)
    return found


def file_findings(files: Sequence[QueueFile], file_size: int, made_to: int | None) -> Iterator[QueueFinding]:
    """Yield the faults of a queue's files.

    The process that holds the store may be making those that begin at byte `made_to` of the queue or after it.
    """
    for number, file in enumerate(files):
        if made_to is not None and file.start >= made_to:
            break
        place = str(file.path)
        if file.size == 0 and number == len(files) - 1:
            yield QueueFinding("queue-empty-file", place, None, 1, -1, "an empty last file, which RocketMQ removes")
        elif file.size != file_size:
            detail = f"{file.size} bytes instead of {file_size}: RocketMQ would not load this queue"
            yield QueueFinding("queue-file-size", place, None, 1, -1, detail)
        if number and file.start != files[number - 1].start + file_size:
            detail = f"a file is missing between {files[number - 1].path.name} and this one"
            yield QueueFinding("queue-file-missing", place, None, 1, -1, detail)


def not_file_findings(not_files: Sequence[Path]) -> Iterator[QueueFinding]:
    """Yield the folders that have names of a queue's files."""
    return (QueueFinding("not-a-file", str(path), None, 1, -1, not_a_file(path)) for path in not_files)


def place_in_queue(folder: str, file_size: int, position: int) -> tuple[str, int]:
    """Return the file of a queue that holds a byte of it, and the byte in that file."""
    start = position // file_size * file_size
    return f"{folder}/{offset_name(start)}", position - start


def _outside_findings(
    job: Job, log_min_offset: int, queue: QueueToCheck, files: Sequence[QueueFile]
) -> list[QueueFinding]:
    found = []
    in_file = job.queue_file_size // ENTRY_SIZE
    for file in files:
        start = file.start // ENTRY_SIZE
        front_end = min(max(queue.records.first - start, 0), in_file)
        end = min(max(queue.records.end - start, 0), in_file)
        if queue.records.first == queue.records.end:
            # No record at all: valid entries must have expired, and nothing follows them.
            front_end = end = _used(_data_of(file.path, job.queue_file_size, 0))
        if front_end:
            data = fs.read_bytes(file.path, front_end * ENTRY_SIZE) or b""
            outside = entries_before(data, log_min_offset)
            if job.judged_to is not None:
                outside = outside.below(job.judged_to)
            if len(outside.places):
                found.append(
                    QueueFinding(
                        "queue-entry-without-record",
                        str(file.path),
                        int(outside.places[0]) * ENTRY_SIZE,
                        len(outside.places),
                        int(outside.physical_offsets.max()),
                        f"queue offset {start + int(outside.places[0])} points to {int(outside.physical_offsets[0])}, "
                        "where this queue has no record",
                    )
                )
        if job.judged_to is not None:
            # The process that holds the store may be writing here.
            continue
        outside = entries_after(_data_of(file.path, job.queue_file_size, end))
        if len(outside.places):
            place = end + int(outside.places[0])
            found.append(
                QueueFinding(
                    "queue-entry-past-end",
                    str(file.path),
                    place * ENTRY_SIZE,
                    len(outside.places),
                    int(outside.physical_offsets.min()),
                    f"queue offset {start + place} points to {int(outside.physical_offsets[0])}; the queue's records "
                    f"end before offset {queue.records.end}",
                )
            )
    return found


def _used(data: bytes) -> int:
    """Return the number of entries of a file before the first that is all zero."""
    rows = np.frombuffer(data, dtype=np.uint8, count=len(data) // ENTRY_SIZE * ENTRY_SIZE).reshape(-1, ENTRY_SIZE)
    empty = np.flatnonzero(~rows.any(axis=1))
    return int(empty[0]) if len(empty) else len(rows)


def _data_of(path: Path, size: int, first: int) -> bytes:
    """Read the entries of a queue file from place `first` on to the end of its data, and some zeros after them.

    A queue file of a few entries is mostly a hole: reading its zeros takes 20 ms a file.
    """
    begin = first * ENTRY_SIZE
    end = fs.end_of_data(path, size) + 2 * ENTRY_SIZE
    return fs.read_bytes(path, max(0, min(size, end) - begin), begin) or b""
