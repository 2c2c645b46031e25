"""The search for a record's begin in plain Python: the specification of `reput.kernels.compiled.examine`.

The verdict on one place is `reput.formats.log.record.examine`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reput.formats.log.record import MAGIC_AT, MAGIC_V1, MAGIC_V2, Verdict, examine

if TYPE_CHECKING:
    from reput.kernels.layouts.log import LogBytes

_MAGIC_SIZE = 4
_MAGIC = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big", signed=True)) for magic in (MAGIC_V1, MAGIC_V2)))


def find_boundary(log: LogBytes, begin: int, end: int, crc_check: int) -> int:
    """Return the first position in [begin, end) where a record begins, -1 for none.

    `crc_check` is as in `DecodeRules`.
    """
    data, base, limit = log.data.data, log.base, log.limit
    # No magic after that place belongs to a record that begins before `end`, and a gigabyte of zeros may follow.
    for match in _MAGIC.finditer(data, begin + MAGIC_AT, min(limit, end + MAGIC_AT + _MAGIC_SIZE - 1)):
        position = match.start() - MAGIC_AT
        if examine(data, position, limit, base + position, crc_check)[0] is Verdict.GOOD:
            return position
    return -1
