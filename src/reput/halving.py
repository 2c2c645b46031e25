"""The search by halves: the first number from which on something holds.

Its steps grow with the logarithm of the range, so it reads a few entries of a queue or a file of any length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeVar

V = TypeVar("V")


def first_where(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number in [low, high) that `holds`, `high` if none does; `low` if there are no numbers.

    Once a number `holds`, all later ones must.
    """
    return low + bisect_left(range(low, high), True, key=holds)


def first_where_found(
    low: int, high: int, find: Callable[[int, int], tuple[int, V] | None], holds: Callable[[V], bool]
) -> int:
    """Return the first number in [low, high) whose value `holds`, otherwise `high`; numbers may lack a value.

    A number without a value, in a gap, counts as the next one with one; numbers before `high` with none after them
    count as if they held.

    Args:
        low: the first number.
        high: the number after the last one.
        find: returns the first number in [begin, end) that has a value, with the value; None if there is none.
        holds: judges a value. Once one `holds`, all later ones must.
    """
    while low < high:
        middle = (low + high) // 2
        found = find(middle, high)
        if found is None or holds(found[1]):
            high = middle
        else:
            low = found[0] + 1
    return low
