"""Queue offsets by store time.

Source: `ConsumeQueue.binarySearchInQueueByTime`, `ConsumeQueueStore.getOffsetInQueueByTime` (which clamps to the
queue's span). RocketMQ chooses a file first and searches in it. Store times do not fall in a sound queue, so one search
over the whole span gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from reput.errors import ConfigError
from reput.halving import first_where_found


class Boundary(StrEnum):
    """The message that answers: the first at or after a time, or the last at or before it."""

    LOWER = "lower"
    UPPER = "upper"


def boundary_of(name: str) -> Boundary:
    """Return the boundary of that name.

    Raises:
        ConfigError: there is none.
    """
    try:
        return Boundary(name)
    except ValueError:
        raise ConfigError(f"boundary {name!r}: choose one of {', '.join(Boundary)}") from None


def offset_by_time(
    store_time: Callable[[int], int], min_offset: int, max_offset: int, timestamp_ms: int, boundary: Boundary
) -> int:
    """Return the queue offset for a time, between `min_offset` and `max_offset`.

    LOWER: the first message stored at or after the time, `max_offset` if there is none. UPPER: the last one stored at
    or before it, `min_offset` if there is none. So in a gap between two messages UPPER is below LOWER.

    Args:
        store_time: returns the store time (ms) of a queue offset; -1 in a gap, or -n if the next n offsets have none.
        min_offset: the first queue offset.
        max_offset: the next queue offset.
        timestamp_ms: the time.
        boundary: the message that answers.
    """
    if max_offset <= min_offset:
        return min_offset

    def next_time(begin: int, end: int) -> tuple[int, int] | None:
        while begin < end:
            time = store_time(begin)
            if time >= 0:
                return begin, time
            begin -= time
        return None

    if boundary is Boundary.LOWER:
        return first_where_found(min_offset, max_offset, next_time, lambda time: time >= timestamp_ms)
    above = first_where_found(min_offset, max_offset, next_time, lambda time: time > timestamp_ms)
    return max(min_offset, above - 1)
