"""The order of an export's rows: by topic and day of store time, so that each part of a batch is a slice of it.

Rows are sorted before their bodies are gathered from the log. To filter each part out of a batch copied the bodies
once more, 90 ns a message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reput.connect.scan.arrays import Rows

MS_PER_DAY = 86_400_000
_SHORT = 1 << 15

Int64s = NDArray[np.int64]


def in_parts(rows: Rows) -> Rows:
    """Return rows sorted by topic and day of store time (UTC); rows of one part keep their order."""
    stored = rows.store_timestamp
    assert stored is not None, "the log scan has the store times of its rows"
    topic, days = _topic_numbers(rows), stored // MS_PER_DAY
    first = days.min(initial=0)
    part = topic * (int(days.max(initial=0) - first) + 1) + days - first
    if (part[1:] >= part[:-1]).all():
        return rows
    # Numpy sorts 16 bits by their value, in a tenth of the time of 64.
    keys: NDArray[Any] = part.astype(np.int16) if part.min() >= 0 and part.max() < _SHORT else part
    return rows.taken(np.argsort(keys, kind="stable"))


def _topic_numbers(rows: Rows) -> Int64s:
    """Return a number for the topic of each row."""
    used, row = np.unique(rows.topic_row, return_inverse=True)
    numbers = rows.topics.take(used).dictionary_encode().indices
    found: Int64s = np.asarray(numbers).astype(np.int64)[row]
    return found
