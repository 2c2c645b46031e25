"""Unique keys, as RocketMQ's clients make them.

Source: `MessageClientIDSetter`.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from itertools import count

from reput.formats.log.unique_key import encode_unique_key


class UniqueKeys:
    """Makes unique keys; each is another one. `address`: the four bytes of the maker's address."""

    def __init__(self, address: bytes) -> None:
        self._address = address
        self._process = os.getpid() & 0xFFFF
        self._hash = int.from_bytes(os.urandom(4), "big")
        self._numbers = count()

    def make(self) -> str:
        """Return a new key."""
        now_s = time.time()
        month = datetime.fromtimestamp(now_s).astimezone().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        since_ms = int((now_s - month.timestamp()) * 1000) & 0xFFFFFFFF
        number = next(self._numbers) & 0xFFFF
        return encode_unique_key(self._address, self._process, self._hash, since_ms, number)
