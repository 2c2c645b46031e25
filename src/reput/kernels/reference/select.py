"""The kernels of reading in plain Python: the specification of `reput.kernels.compiled.select`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY, is_blank
from reput.kernels.layouts.columns import Choice, Pull, PullRules


def select_entries(entries: NDArray[np.uint8], rules: PullRules, places: NDArray[np.int64]) -> Choice:
    """Choose the entries of a pull; write log offset and size of each, one after the other, to `places` (int64).

    `entries` (uint8, 20 bytes each) are all that may be read.
    """
    wanted = set(rules.codes.tolist())
    taken, total, skip_below, status = 0, 0, -1, Pull.NOTHING
    first = last = damaged = unordered = -1
    number = -1
    for number, (begin, length, code) in enumerate(ENTRY.struct.iter_unpack(entries.tobytes())):
        if taken and (taken + 1 > rules.max_messages or total + length > rules.max_bytes):
            return Choice(taken, number, status, first, last, damaged, unordered)
        if total >= rules.stop_bytes:
            return Choice(taken, number, status, first, last, damaged, unordered)
        if begin < skip_below or is_blank(begin, length):
            continue
        if wanted and _int32(code) not in wanted:
            status = status if taken else Pull.NOTHING
            continue
        if length <= 0 or begin > rules.log_end - length:
            status = status if taken else Pull.REMOVED
            damaged = number if damaged < 0 else damaged
            continue
        if begin < rules.log_begin:
            status = status if taken else Pull.REMOVED
            skip_below = (begin // rules.log_file_size + 1) * rules.log_file_size
            continue
        # Entries of a damaged queue may be in no order.
        if taken and begin <= places[2 * taken - 2] and unordered < 0:
            unordered = number
        first, last = (begin if taken == 0 else min(first, begin)), max(last, begin)
        places[2 * taken : 2 * taken + 2] = begin, length
        taken += 1
        total += length
        status, skip_below = Pull.FOUND, -1
    return Choice(taken, number + 1, status, first, last, damaged, unordered)


def _int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
