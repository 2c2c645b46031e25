"""Zeroing the entries of a queue's files that speak of no record of the log.

A crash may leave pages of a queue that are newer than the log's end, and lose pages in front of them: so what stands
behind the entries that are known to be whole is looked at entry by entry, not up to the first that is none.

Source: `ConsumeQueue.truncateDirtyLogicFiles`, `BatchConsumeQueue.truncateDirtyLogicFiles`, which walk back from the
last entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.consume_queue import is_blank
from reput.formats.layout import Layout
from reput.queue.files import QueueFile

_BLOCK_ENTRIES = 1 << 14


def zero_past(files: Sequence[QueueFile], entry: Layout, begin: int, whole: int, end: int, owner: fs.Owner) -> bool:
    """Zero, durably, what is no entry of a record from log offset `whole` on that ends at `end`; whether there was any.

    Args:
        files: a queue's, whose entries are laid out as `entry`.
        begin: the number, counted from the queue's byte 0, of the first entry that is looked at: all in front of it
            are of records below `whole`.
    """
    changed, least = False, whole
    for file in files:
        at = max(0, begin * entry.size - file.start)
        written = fs.end_of_data(file.path, file.size) if at < file.size else 0
        found = False
        while at < written:
            data = fs.read_bytes(file.path, min(_BLOCK_ENTRIES * entry.size, file.size - at), at) or b""
            count = len(data) // entry.size
            past, least = _past(np.frombuffer(data, dtype=entry.dtype, count=count), least, end)
            for first, behind in _runs(past):
                zeros = bytes((behind - first) * entry.size)
                fs.write_at(str(file.path), file.size, owner, zeros, at + first * entry.size)
                found = True
            if not count:
                break
            at += count * entry.size
        if found:
            fs.sync_path(file.path)
            changed = True
    return changed


def _past(entries: NDArray[np.void], least: int, end: int) -> tuple[NDArray[np.bool_], int]:
    """Which entries are neither empty, nor a blank, nor of a record in [least, end) (bool); the last such offset.

    Offsets ascend in a queue: one that is lower than another in front of it is what is left of a torn entry.
    """
    offset, size = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    blank = is_blank(offset, size)
    is_record = ~blank & (offset >= least) & (size > 0) & (offset <= end - size)
    highest = np.maximum.accumulate(np.where(is_record, offset, least))
    is_empty = ~entries.view(np.uint8).reshape(len(entries), -1).any(axis=1)
    past: NDArray[np.bool_] = ~(is_empty | blank | (is_record & (offset == highest)))
    return past, int(highest[-1]) if len(highest) else least


def _runs(chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The spans [first, behind) in which all are chosen."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(behind)) for first, behind in edges.reshape(-1, 2)]
