"""Deletion of queue files and IndexFiles that refer only to deleted records.

The oldest files are deleted first. The last file of a queue, or of the index, always stays: it keeps the queue's
numbering.

Source: `IndexService.deleteExpiredFile`, `ConsumeQueueExt.truncateByMinAddress`; queues: `AnyKind.delete_expired`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reput.files import fs
from reput.formats.queue.consume_queue_ext import offset_of
from reput.index.files import list_index_files
from reput.queue.files import list_queue_files, list_queues
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


def _delete_ext_files(layout: StoreLayout, log_min_offset: int) -> Iterator[str]:
    """Delete the ext files that end before the first address that their queue's first file still has."""
    for queue in list_queues(layout.consume_queue_ext):
        files = list_queue_files(queue.path)
        address = first_address(layout.consume_queue / queue.topic / queue.path.name, log_min_offset)
        for file in files[:-1]:
            if address is None or file.start + file.size >= offset_of(address):
                break
            fs.remove_file(file.path)
            yield str(file.path)
