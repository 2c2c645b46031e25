"""Unique keys, as RocketMQ's clients make them: 16 bytes as upper-case hex.

| bytes | meaning |
|---|---|
| 4 | address of the maker |
| 2 | its process |
| 4 | hash that differs from maker to maker |
| 4 | ms since the first of the month |
| 2 | counter |

Source: `MessageClientIDSetter`.
"""

from __future__ import annotations

import os
import struct
import time
from datetime import datetime
from itertools import count

_LAYOUT = struct.Struct(">4sHIIH")
assert _LAYOUT.size == 16


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
        return _LAYOUT.pack(self._address, self._process, self._hash, since_ms, number).hex().upper()
