"""The clock, and units of time."""

from __future__ import annotations

import time
from datetime import timedelta

from reput.times import HOUR_MS, UNITS_MS, now_ms

NAMES = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def test_the_clock_is_that_of_the_system() -> None:
    """The time is in milliseconds since 1970."""
    before = time.time_ns()
    assert before // 1_000_000 <= now_ms() <= time.time_ns() // 1_000_000


def test_units_are_those_of_a_calendar() -> None:
    """Each letter means as many milliseconds as Python's unit of that name."""
    one_ms = timedelta(milliseconds=1)
    assert {letter: timedelta(**{name: 1}) // one_ms for letter, name in NAMES.items()} == UNITS_MS
    assert UNITS_MS["h"] == HOUR_MS
