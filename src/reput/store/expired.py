"""Queue and index files follow the log: those that only speak of deleted records go.

Source: `IndexService.deleteExpiredFile`; queues: `QueueKind.delete_expired`. Files go from the oldest on, and the last
one of a queue, or of the index, always stays: it keeps the queue's numbering.
"""

from __future__ import annotations

from collections.abc import Sequence

from reput.files import fs
from reput.index.files import list_index_files
from reput.queue.batch_files import BatchFiles
from reput.queue.kinds import QueueKind
from reput.store.layout import StoreLayout


def delete_expired_indexes(layout: StoreLayout, kinds: Sequence[QueueKind], log_min_offset: int) -> list[str]:
    """Delete the queue and index files whose records all lie below the log's first byte; returns their paths."""
    gone = [name for kind in kinds for name in kind.delete_expired(log_min_offset)]
    gone += BatchFiles(layout.batch_consume_queue).delete_expired(log_min_offset)
    files = list_index_files(layout.index)
    for index_file in files[:-1]:
        if index_file.header is None or index_file.header.end_physical_offset >= log_min_offset:
            break
        fs.remove_file(index_file.path)
        gone.append(str(index_file.path))
    return gone
