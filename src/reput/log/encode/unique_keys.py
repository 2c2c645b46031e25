"""Unique keys, as RocketMQ's clients make them.

Source: `MessageClientIDSetter`.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from itertools import count

from reput.formats.log.unique_key import encode_unique_key


class UniqueKeys:
    """Makes unique keys; each is another one. `address`: the four bytes of the maker's address."""

    def __init__(self, address: bytes) -> None:
        self._address = address
        self._process = os.getpid() & 0xFFFF
        self._hash = int.from_bytes(os.urandom(4), "big")
        self._numbers = count()
        # The present month: its start, and the start of the next one (s).
        self._month = 0.0, 0.0

    def make(self) -> str:
        """Return a new key."""
        now_s = time.time()
        begin_s, end_s = self._month
        if not begin_s <= now_s < end_s:
            begin_s, _ = self._month = _month_of(now_s)
        since_ms = int((now_s - begin_s) * 1000) & 0xFFFFFFFF
        number = next(self._numbers) & 0xFFFF
        return encode_unique_key(self._address, self._process, self._hash, since_ms, number)


def _month_of(time_s: float) -> tuple[float, float]:
    """Return the start of the month that has a time, and that of the next one, by the local calendar (s)."""
    day = datetime.fromtimestamp(time_s).astimezone().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return day.timestamp(), (day + timedelta(days=32)).replace(day=1).timestamp()
