"""The rules of a sound ConsumeQueue, over the bytes of entries.

An entry on disk must be the one that its record gives. Before a queue's first record there may be pre-blank entries
and entries of expired records. After its last record there are only zeros, or blank entries that keep the numbering of
lost messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, LAST_BLANK_SIZE
from reput.queue.compare import blanks


class Outside(NamedTuple):
    """Entries outside a queue's records that must not be there: their places, and their physical offsets."""

    places: NDArray[np.int64]
    physical_offsets: NDArray[np.int64]

    def below(self, offset: int) -> Outside:
        """Return those that point below a log offset."""
        kept = self.physical_offsets < offset
        return Outside(self.places[kept], self.physical_offsets[kept])


_NOTHING = Outside(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def entries_before(data: bytes, log_min_offset: int) -> Outside:
    """Return the entries before the first record that are neither pre-blank nor of expired records."""
    entries = _entries(data)
    physical, size = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    pre_blank = blanks(entries)
    expired = (physical >= 0) & (size > 0) & (physical < log_min_offset)
    places = np.flatnonzero(~(pre_blank | expired))
    return Outside(places, physical[places])


def entries_after(data: bytes) -> Outside:
    """Return the entries after the last record that are not zero, without the blanks that keep a queue's numbering."""
    if data.count(0) == len(data):
        # Mostly so, and a store may have a million queue files: to look at entries takes 0.1 ms.
        return _NOTHING
    entries = _entries(data)
    blank = blanks(entries)
    kept = len(blank) if blank.all() else int(np.argmin(blank))
    if kept and kept < len(blank) and entries["size"][kept - 1] != LAST_BLANK_SIZE:
        kept = 0
    rows = np.frombuffer(data, dtype=np.uint8, count=len(entries) * ENTRY_SIZE).reshape(-1, ENTRY_SIZE)
    places = kept + np.flatnonzero(rows[kept:].any(axis=1))
    return Outside(places, entries["physical_offset"].astype(np.int64)[places])


def _entries(data: bytes) -> NDArray[np.void]:
    return np.frombuffer(data, dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)
