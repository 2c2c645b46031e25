"""Zeroing the entries of a queue's files that refer to no record of the log, after a crash.

A crash may leave pages of a queue that are newer than the log's end, and lose earlier pages. So every entry after those
that are known to be whole is checked, not only up to the first that is no entry.

Source: `ConsumeQueue.truncateDirtyLogicFiles`, `BatchConsumeQueue.truncateDirtyLogicFiles`, which walk back from the
last entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.again import write_bytes_again
from reput.formats.layout import Layout
from reput.formats.queue.consume_queue import is_blank
from reput.queue.files import BLOCK_ENTRIES, QueueFile


def zero_past(
    files: Sequence[QueueFile],
    entry: Layout,
    begin: int,
    whole: int,
    end: int,
    owner: fs.Owner,
    *,
    again: bool = False,
) -> bool:
    """Zero, durably, all bytes that are no entry of a record within log offsets [whole, end).

    Return True if there were any.

    Args:
        files: the files of one queue, with entries of layout `entry`.
        entry: the layout.
        begin: the number, from the queue's byte 0, of the first entry to check; all before it are of records below
            `whole`.
        whole: see above.
        end: see above.
        owner: the owner of the files.
        again: an earlier cut may have failed to sync: what it has zeroed is zeroed once more.
    """
    changed, highest = False, whole - 1
    for file in files:
        at = max(0, begin * entry.size - file.start)
        written = fs.end_of_data(file.path, file.size) if at < file.size else 0
        found = False
        while at < written:
            data = fs.read_bytes(file.path, min(BLOCK_ENTRIES * entry.size, file.size - at), at) or b""
            count = len(data) // entry.size
            past, highest = _past(np.frombuffer(data, dtype=entry.dtype, count=count), highest, end)
            for first, limit in _runs(past):
                zeros = bytes((limit - first) * entry.size)
                fs.write_at(str(file.path), file.size, owner, zeros, at + first * entry.size)
                found = True
            if not count:
                break
            at += count * entry.size
        if again and written:
            write_bytes_again(file.path, file.size, owner, max(0, begin * entry.size - file.start), written)
        if found or (again and written):
            fs.sync_path(file.path)
        changed |= found
    return changed


def mend_empty(files: Sequence[QueueFile], owner: fs.Owner, file_size: int = 0) -> None:
    """Give the empty files of a queue that come before others their length, and remove those at its end, durably.

    A power cut may take a new file's length. RocketMQ removes an empty last file, and loads no queue with another one.
    In a store that was closed an empty file is one whose entries are lost. With a `file_size` a file stays that is the
    only one and does not begin at byte 0: its place keeps the queue's numbering.
    """
    size = max((file.size for file in files), default=0)
    last = max((number for number, file in enumerate(files) if file.size), default=-1)
    for number, file in enumerate(files):
        if file.size:
            continue
        if number < last or (file_size and file.start and number == 0):
            fs.write_at(str(file.path), size or file_size, owner, b"", 0)
            fs.sync_path(file.path)
        else:
            fs.remove_file(file.path)
            fs.sync_path(file.path.parent)


def _past(entries: NDArray[np.void], highest: int, end: int) -> tuple[NDArray[np.bool_], int]:
    """Return which entries are no blank, not empty and of no record in (highest, end) (bool), and the last such offset.

    Offsets ascend in a queue: one that is not above all earlier ones is the rest of a torn entry.
    """
    offset, size = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    fills = is_blank(offset, size)
    # With tags it is the rest of another entry.
    blank = fills & (entries["tags_code"] == 0) if "tags_code" in (entries.dtype.names or ()) else fills
    may_be = ~fills & (offset > highest) & (size > 0) & (offset <= end - size)
    reached = np.maximum.accumulate(np.where(may_be, offset, highest))
    before = np.concatenate(([highest], reached[:-1]))
    is_empty = ~entries.view(np.uint8).reshape(len(entries), -1).any(axis=1)
    past: NDArray[np.bool_] = ~(is_empty | blank | (may_be & (offset > before)))
    return past, int(reached[-1]) if len(reached) else highest


def _runs(chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the spans [first, end) in which all are chosen."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]
