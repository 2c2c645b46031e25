"""The kernels of reading in plain Python: the specification of `reput.kernels.compiled.select`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.consume_queue import ENTRY, is_blank
from reput.kernels.layouts.columns import Pull


def select_entries(
    entries: NDArray[np.uint8], log_begin: int, log_end: int, log_file_size: int, codes: NDArray[np.int64],
    max_messages: int, max_bytes: int, stop_bytes: int, places: NDArray[np.int64],
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Choose the entries of a pull; write log offset and size of each, one after the other, to `places` (int64).

    `entries` (uint8, 20 bytes each) are all that may be read. An entry is passed over if its record does not lie in
    [log_begin, log_end), or if its tags code, cut to 32 bits, is not in `codes` (int64; empty: all match). The pull
    ends before an entry that would exceed `max_messages` or `max_bytes`, but takes at least one; and it ends once it
    has `stop_bytes`. Returns the number taken, the number of entries passed or taken, a `Pull`, and the log offsets of
    the first and the last one taken.
    """
    wanted = set(codes.tolist())
    taken, total, skip_below, status = 0, 0, -1, Pull.NOTHING
    first = last = -1
    number = -1
    for number, (begin, length, code) in enumerate(ENTRY.struct.iter_unpack(entries.tobytes())):
        if taken and (taken + 1 > max_messages or total + length > max_bytes):
            return taken, number, status, first, last
        if total >= stop_bytes:
            return taken, number, status, first, last
        if begin < skip_below or is_blank(begin, length):
            continue
        if wanted and _int32(code) not in wanted:
            status = status if taken else Pull.NOTHING
            continue
        if begin < log_begin or length <= 0 or begin > log_end - length:
            status = status if taken else Pull.REMOVED
            skip_below = (begin // log_file_size + 1) * log_file_size
            continue
        first, last = (begin if taken == 0 else first), begin
        places[2 * taken : 2 * taken + 2] = begin, length
        taken += 1
        total += length
        status, skip_below = Pull.FOUND, -1
    return taken, number + 1, status, first, last


def _int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
