"""The clock, and units of time in milliseconds."""

from __future__ import annotations

import time

HOUR_MS = 3_600_000
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR_MS, "d": 24 * HOUR_MS, "w": 7 * 24 * HOUR_MS}
"""Milliseconds of a unit, by the letters that texts have after a number."""


def now_ms() -> int:
    """Return the present time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
