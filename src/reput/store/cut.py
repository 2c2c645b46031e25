"""Cutting a log's tail: what a crash left behind the last good record goes, durably, from the log and from the queues.

The cut is zeroed: stale records behind a shorter new tail would sit at their own offsets with good CRCs, and nothing
else could tell them from new ones.

Source: `MappedFileQueue.truncateDirtyFiles`, `ConsumeQueue.truncateDirtyLogicFiles`.
"""

from __future__ import annotations

from pathlib import Path

from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.log.maps import LogMaps
from reput.queue.ext import ExtReader
from reput.queue.files import QueueFolder, list_queues
from reput.queue.reader import queue_span
from reput.store.ext_end import cut_units, end_of_units
from reput.store.layout import StoreLayout

_CHUNK_BYTES = 1 << 20


def cut_log(log: LogMaps, end: int, written: int, owner: fs.Owner) -> list[str]:
    """Zero the `written` bytes behind log offset `end`, and remove the files behind; returns the names of those."""
    removed = []
    for start in reversed(log.starts):
        path = log.folder / paths.offset_name(start)
        if start >= end and start > log.min_offset:
            fs.remove_file(path)
            removed.append(path.name)
        elif start + log.file_size > end:
            _zero(path, log.file_size, owner, max(0, end - start), min(log.file_size, end + written - start))
    fs.sync_path(log.folder)
    log.close()
    log.refresh()
    return removed


def cut_queues(layout: StoreLayout, end: int, owner: fs.Owner, ext: ExtReader | None = None) -> list[str]:
    """Zero the entries of records at or behind log offset `end`, and their units; returns the queues that had such."""
    cut = []
    for queue in list_queues(layout.consume_queue):
        span = queue_span(queue)
        if span.last is not None and span.last.physical_offset + span.last.size > end:
            kept = queue_span(queue, below=end).max_offset
            _zero_entries(queue, kept, span.max_offset, owner)
            if ext is not None:
                key = QueueKey(queue.topic.encode("utf-8", "surrogateescape"), queue.queue_id)
                cut_units(ext, key, end_of_units(queue.path, ext, key, kept), owner)
            cut.append(f"{queue.topic}/{queue.queue_id}")
    return cut


def _zero_entries(queue: QueueFolder, begin: int, end: int, owner: fs.Owner) -> None:
    for file in queue.files:
        first = max(begin * ENTRY_SIZE, file.start)
        last = min(end * ENTRY_SIZE, file.start + file.size)
        if first < last:
            _zero(file.path, file.size, owner, first - file.start, last - file.start)


def _zero(path: Path, size: int, owner: fs.Owner, begin: int, end: int) -> None:
    while begin < end:
        count = min(_CHUNK_BYTES, end - begin)
        fs.write_at(str(path), size, owner, bytes(count), begin)
        begin += count
    fs.sync_path(path)
