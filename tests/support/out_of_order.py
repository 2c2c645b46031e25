"""Logs whose queue offsets are not consecutive, and the entries that their queue must then have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

SPLITS = (1 << 27, 1000, 500, 130, 60)
"""Bytes in a split: all in one, a few records each, one each, and less than one."""


class Case(NamedTuple):
    """Queue offsets in log order, and which of these records (by number; None: pre-blank) the queue then holds."""

    offsets: list[int]
    holds: list[int | None]
    repeats: int = 0
    blanks: int = 0
    restarts: int = 0
    dropped: int = 0


def upto(count: int) -> list[int]:
    """0 to count - 1."""
    return list(range(count))


def more(first: int, count: int) -> list[int | None]:
    """`count` numbers from `first` on."""
    return list(range(first, first + count))


CASES = {
    "straight": Case(upto(12), more(0, 12)),
    "a repeat of an old offset": Case([*upto(10), 5, 10], [*more(0, 10), 11], repeats=1),
    "the last offset again": Case([*upto(10), 9, 10], [*more(0, 10), 11], repeats=1),
    "message 0 twice at once": Case([0, 0, 1], [1, 2], restarts=1, dropped=1),
    "message 0 twice, and nothing more": Case([0, 0], [1], restarts=1, dropped=1),
    "a stretch again that goes on": Case([*upto(6), 2, 3, 4, 5, 6, 7], [*more(0, 6), 10, 11], repeats=4),
    "numbering begins again and continues after the old": Case(
        [*upto(4), 0, 1, 2, 3, 4], more(4, 5), restarts=1, dropped=4
    ),
    "numbering begins again": Case([*upto(10), 0, 1, 2], more(10, 3), restarts=1, dropped=10),
    "numbering begins again with one message": Case([*upto(10), 0], [10], restarts=1, dropped=10),
    "numbering begins again, goes further, and once again": Case(
        [*upto(3), *upto(8), 0, 1, 2], more(11, 3), restarts=2, dropped=11
    ),
    "numbering begins again twice": Case([*upto(10), *upto(5), 0, 1], more(15, 2), restarts=2, dropped=15),
    "message 0 again, and on from before": Case([*upto(10), 0, 10], [*more(0, 10), 11], repeats=1),
    "a gap": Case([0, 1, 4, 5], [0, 1, None, None, 2, 3], blanks=2),
    "a gap over queue files": Case([0, 25], [0, *[None] * 24, 1], blanks=24),
    "a gap, later filled": Case([0, 1, 4, 2, 3, 5], [0, 1, None, None, 2, 5], repeats=2, blanks=2),
    "a gap in the old generation": Case([*upto(3), 8, 9, 0, 1], more(5, 2), restarts=1, dropped=5),
    "a gap in the new generation": Case([*upto(10), 0, 3], [10, None, None, 11], blanks=2, restarts=1, dropped=10),
    "everything": Case([0, 0, 1, 5, 5, 3, 0, 2, 2, 3], [6, None, 7, 9], repeats=3, blanks=1, restarts=2, dropped=4),
}


def written(case: Case, noise: int, folder: Path) -> tuple[Path, list[int]]:
    """A store with these offsets in one queue, `noise` messages of another between them; the records' places."""
    log = LogBuilder(4096)
    places = []
    for offset in case.offsets:
        places.append(log.message(queue_offset=offset, tags="x", keys="k").offset)
        for _ in range(noise):
            log.message("noise", tags="y")
    return stores.with_log(folder, log), places
