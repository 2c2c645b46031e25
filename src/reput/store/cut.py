"""Cutting a log's tail: what a crash left behind the last good record goes, durably, from the log.

The cut is zeroed: stale records behind a shorter new tail would sit at their own offsets with good CRCs, and nothing
else could tell them from new ones.

Queues are cut by their kind (`QueueKind.cut`).

Source: `MappedFileQueue.truncateDirtyFiles`.
"""

from __future__ import annotations

from reput.files import fs
from reput.formats import paths
from reput.log.maps import LogMaps
from reput.queue.files import zero


def cut_log(log: LogMaps, end: int, written: int, owner: fs.Owner) -> list[str]:
    """Zero the `written` bytes behind log offset `end`, and remove the files behind; returns the names of those."""
    removed = []
    for start in reversed(log.starts):
        path = log.folder / paths.offset_name(start)
        if start >= end and start > log.min_offset:
            fs.remove_file(path)
            removed.append(path.name)
        elif start + log.file_size > end:
            zero(path, log.file_size, owner, max(0, end - start), min(log.file_size, end + written - start))
    fs.sync_path(log.folder)
    log.close()
    log.refresh()
    return removed
