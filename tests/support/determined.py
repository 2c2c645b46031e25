"""The clock, the names and the ids of a run, the same in each run: stores that took the same steps have the same bytes.

with determined():
...             the store's clock begins at FIRST_MS, and goes on by a millisecond at each look
"""

from __future__ import annotations

import itertools
import random
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reput import times
from reput.files import fs, watermarks
from reput.log.append import append
from reput.pipeline.build.grow import grow
from reput.pipeline.build.index import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST_MS = 1_700_000_000_000
_DAY = datetime(2023, 11, 14)  # noqa: DTZ001 - a local time, as RocketMQ names IndexFiles


class _Lots:
    """The module `secrets`, with lots that a seed decides."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def token_hex(self, count: int) -> str:
        return self._chance.randbytes(count).hex()

    def randbits(self, count: int) -> int:
        return self._chance.getrandbits(count)


class _Time:
    """The module `time` as `reput.times` sees it: later by a tenth of a second at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count(FIRST_MS * 1_000_000, 100_000_000)

    def time_ns(self) -> int:
        return next(self._ticks)


class _Calendar:
    """The class `datetime`, whose `now` is later by a second at each look."""

    def __init__(self) -> None:
        self._seconds = itertools.count()
        self.strptime = datetime.strptime

    def now(self) -> datetime:
        return _DAY + timedelta(seconds=next(self._seconds))


@contextmanager
def determined(seed: int = 0, clock_ns: Callable[[], int] | None = None) -> Iterator[None]:
    """Decide the store's clock, the names of its IndexFiles, and its ids, for the time of the block.

    Args:
        seed: decides the ids.
        clock_ns: the clock; None for one that goes on by a millisecond at each look.
    """
    ticks = itertools.count(FIRST_MS * 1_000_000, 1_000_000)
    lots, calendar = _Lots(random.Random(seed)), _Calendar()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "_time_ns", clock_ns or (lambda: next(ticks)))
        patch.setattr(times, "time", _Time())
        for module in (grow, plan):
            patch.setattr(module, "datetime", calendar)
        for module in (fs, watermarks):
            patch.setattr(module, "secrets", lots)
        yield
