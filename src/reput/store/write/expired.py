"""Deletion of queue files and IndexFiles that refer only to deleted records.

The oldest files are deleted first. The last file of a queue, or of the index, always stays: it keeps the queue's
numbering.

Source: `IndexService.deleteExpiredFile`, `ConsumeQueueExt.truncateByMinAddress`; queues: `AnyKind.delete_expired`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from reput.files import fs
from reput.formats.queue.consume_queue_ext import offset_of
from reput.index.files import list_index_files
from reput.queue.files import QueueFile, list_queue_files, list_queues, remove_first_files
from reput.queue.kinds import AnyKind
from reput.store.disk.layout import StoreLayout
from reput.store.recover.ext_end import first_address


def delete_expired_indexes(layout: StoreLayout, kinds: Sequence[AnyKind], log_min_offset: int) -> list[str]:
    """Delete the queue and index files whose records are all below the log's first byte; return their paths."""
    gone = [name for kind in kinds for name in kind.delete_expired(log_min_offset)]
    gone += _delete_ext_files(layout, log_min_offset)
    files = list_index_files(layout.index)
    for index_file in files[:-1]:
        if index_file.header is None or index_file.header.end_physical_offset >= log_min_offset:
            break
        fs.remove_file(index_file.path)
        gone.append(str(index_file.path))
    return gone


def _delete_ext_files(layout: StoreLayout, log_min_offset: int) -> list[str]:
    """Delete the ext files that end before the first address that their queue's first file still has."""
    gone = []
    for queue in list_queues(layout.consume_queue_ext):
        address = first_address(layout.consume_queue / queue.topic / queue.path.name, log_min_offset)
        if address is not None:
            gone += remove_first_files(_files_before(queue.path, offset_of(address)))
    return gone


def _files_before(folder: Path, end: int) -> Iterator[QueueFile]:
    """Yield the files of a queue's ext units that end before a place in them, but never the last file."""
    return takewhile(lambda file: file.start + file.size < end, list_queue_files(folder)[:-1])
