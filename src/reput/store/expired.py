"""Queue and index files follow the log: those that only speak of deleted records go.

Source: `ConsumeQueue.deleteExpiredFile`, `ConsumeQueueExt.truncateByMinAddress`, `IndexService.deleteExpiredFile`.
Files go from the oldest on, and the last one of a queue, or of the index, always stays: it keeps the queue's numbering.
"""

from __future__ import annotations

from pathlib import Path

from reput.files import fs
from reput.formats.consume_queue import ENTRY_SIZE, decode_entry
from reput.formats.consume_queue_ext import offset_of
from reput.index.files import list_index_files
from reput.queue.files import QueueFile, list_queue_files, list_queues
from reput.store.ext_end import first_address
from reput.store.layout import StoreLayout


def delete_expired_indexes(layout: StoreLayout, log_min_offset: int) -> list[str]:
    """Delete the queue and index files whose records all lie below the log's first byte; returns their paths."""
    gone = []
    for queue in list_queues(layout.consume_queue):
        for file in queue.files[:-1]:
            if not _all_below(file, log_min_offset):
                break
            fs.remove_file(file.path)
            gone.append(str(file.path))
        gone += _delete_ext_files(layout.consume_queue_ext / queue.topic / queue.path.name, queue.path, log_min_offset)
    files = list_index_files(layout.index)
    for index_file in files[:-1]:
        if index_file.header is None or index_file.header.end_physical_offset >= log_min_offset:
            break
        fs.remove_file(index_file.path)
        gone.append(str(index_file.path))
    return gone


def _delete_ext_files(ext_folder: Path, queue_folder: Path, log_min_offset: int) -> list[str]:
    """Delete the ext files that end in front of the first address that the queue's first file still has."""
    files = list_queue_files(ext_folder)
    if len(files) < 2:
        return []
    address = first_address(queue_folder, log_min_offset)
    gone = []
    for file in files[:-1]:
        if address is None or file.start + file.size >= offset_of(address):
            break
        fs.remove_file(file.path)
        gone.append(str(file.path))
    return gone


def _all_below(file: QueueFile, log_min_offset: int) -> bool:
    """Whether a full queue file's last entry, and so all of them, speaks of a record in front of the log."""
    data = fs.read_bytes(file.path, ENTRY_SIZE, file.size - ENTRY_SIZE) or b""
    if len(data) < ENTRY_SIZE:
        return False
    last = decode_entry(data)
    return last.is_valid and last.physical_offset < log_min_offset
