"""Times as a store has them: whole milliseconds since 1970."""

from __future__ import annotations

from datetime import datetime

_US_PER_MS = 1000


def us_of(value: datetime) -> int:
    """Microseconds since 1970, exactly; a datetime without a zone is local time."""
    # `timestamp()` is a float, which does not hold microseconds of our time exactly.
    return round(value.replace(microsecond=0).timestamp()) * 1_000_000 + value.microsecond


def ms_down(microseconds: int) -> int:
    """The last millisecond that is not after a time."""
    return microseconds // _US_PER_MS


def ms_up(microseconds: int) -> int:
    """The first millisecond that is not before a time."""
    return -(-microseconds // _US_PER_MS)
