"""Cutting a store at its log's end: what a crash left after the last good record is removed, durably.

The queues are cut first (`AnyKind.cut`), then the indexes by key (`AnyIndex.cut`), the log last. As long as there are
bytes after the log's end, the next opener does again what a killed one did not finish. Queues and indexes may reach
further than the log even if only zeros follow the log's end: a follower makes entries visible before their records are
durable, and the power may fail.

The cut part is zeroed. Otherwise stale records after a shorter new tail would be at their own offsets with good CRCs,
and nothing would distinguish them from new ones.

Source: `MappedFileQueue.truncateDirtyFiles`.
"""

from __future__ import annotations

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.index.files import cut_slots, list_index_files
from reput.log.read.maps import LogMaps
from reput.queue.files import zero
from reput.store.disk.layout import StoreLayout
from reput.store.read.view import StoreView
from reput.store.recover.ext_end import cut_all_units
from reput.store.recover.recovery import LogTail, fingerprint_before


def cut_store(
    layout: StoreLayout, view: StoreView, tail: LogTail, owner: fs.Owner, *, crashed: bool = True, again: bool = False
) -> list[str]:
    """Cut queues, IndexFiles and log where the log's good records end; return notes for people.

    `crashed`: nobody has closed the store. `again`: an earlier cut may have failed to sync, so its zeros are written
    once more.
    """
    notes, whole = [], max(0, view.frontiers.both)
    queues = [name for kind in view.kinds for name in kind.cut(tail.end, owner, whole, crashed=crashed, again=again)]
    if view.ext is not None:
        units = cut_all_units(layout.consume_queue, view.ext, owner, whole, again=again)
        if units:
            notes.append(f"cut ext units after the last entries of their queues: {', '.join(map(str, units))}")
    notes += cut_indexes(view, tail.end, owner)
    for file in list_index_files(layout.index):
        cut_slots(file, view.settings.index_slots, view.settings.index_items, owner, again=again)
    removed = cut_log(view.log, tail.end, tail.written, owner)
    if tail.written:
        notes.append(
            f"cut the log at {tail.end}: {tail.written} bytes after it were no whole record "
            f"({tail.verdict.meaning}); queues cut with it: {', '.join(queues) or 'none'}"
        )
    elif queues:
        notes.append(
            f"queues with entries of records above the log's end at {tail.end}, lost in a crash, were cut there: "
            f"{', '.join(queues)}"
        )
    if removed:
        notes.append(f"removed log files after the end: {', '.join(removed)}")
    return notes


def names_lost_records(view: StoreView, end: int) -> bool:
    """Return True if an index says that it has records at or above the log's end."""
    return any(index.marks is not None and index.marks.offset >= end for index in view.indexes)


def cut_indexes(view: StoreView, end: int, owner: fs.Owner) -> list[str]:
    """Remove from the indexes by key what the log no longer has, and lower their marks; return notes for people."""
    notes = []
    last = fingerprint_before(view.log, end)
    for index in view.indexes:
        try:
            removed = index.cut(end, last.store_timestamp if last else 0, owner)
        except DamagedStoreError as error:
            # Nothing else needs it; a search in it says so, too.
            notes.append(str(error))
            continue
        if removed or (index.marks is not None and index.marks.offset >= end):
            notes.append(
                f"{index.folder}: it named records above the log's end at {end}; {removed} such entries were "
                "removed, and its marks are not above that any more"
            )
    view.index.load()
    return notes


def is_removed(log: LogMaps, start: int, end: int) -> bool:
    """Return True if a cut at log offset `end` removes the file that begins at `start`. The first one stays, zeroed."""
    return start >= end and start > log.min_offset


def cut_log(log: LogMaps, end: int, written: int, owner: fs.Owner) -> list[str]:
    """Zero the `written` bytes after log offset `end`, and remove later files; return the names of those."""
    removed = []
    for entry in fs.list_dir(log.folder):
        # A power cut may take a file's length, and all files before it.
        start = paths.parse_offset_name(entry.name) if entry.is_file and not entry.size else None
        if start is not None and start > end:
            fs.remove_file(log.folder / entry.name)
            removed.append(entry.name)
    for start in reversed(log.starts):
        path = log.folder / paths.offset_name(start)
        if is_removed(log, start, end):
            # One by one: a power cut must not bring back a file whose predecessor is gone.
            fs.sync_path(log.folder)
            fs.remove_file(path)
            removed.append(path.name)
        elif start + log.file_size > end:
            zero(path, log.file_size, owner, max(0, end - start), min(log.file_size, end + written - start))
    fs.sync_path(log.folder)
    log.close()
    log.refresh()
    return removed
