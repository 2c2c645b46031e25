"""Numbers that the programs of a soak share: words of a file that each of them maps. Each word has one writer."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

QUEUES = 24
_STEPS = 4
_BUCKETS = 48 * _STEPS


class Weather(IntEnum):
    """The kinds of weather, in turns."""

    CALM = 0
    SLOW_DISK = 1
    """10 MB/s: each sync takes as long as the log's new bytes need."""
    JUMPING_CLOCK = 2
    """The clock goes an hour forwards, back, and by a second, every few seconds."""
    PAGING = 3
    """The system takes the programs' pages, again and again."""


class Phase(IntEnum):
    """The phases of a turn."""

    WORK = 0
    PAUSE = 1
    """The writer closes the store; the reader reads all that there is."""
    END = 2


class Timed(IntEnum):
    """The calls whose time is kept."""

    PUT = 0
    BATCH = 1
    PROMISED = 2
    WAIT = 3
    GET = 4
    ASK = 5


class Board:
    """The shared numbers.

    Attributes:
        state: the words below.
        put, put_sums: for each queue the messages that were stored, and the CRC-32 of their bodies in a row.
        read, read_sums: the same of those that were read.
        times: for each weather and each timed call a histogram: four buckets for each doubling of nanoseconds.
    """

    PHASE, WEATHER, PAUSED, READ_TO, LAG, LOG_END, REFUSED, ASKED, FOLLOWED, DELETED, WRITER_OPEN = range(11)
    WORDS = 16

    def __init__(self, path: Path, *, new: bool = False) -> None:
        sizes = [self.WORDS, *[QUEUES] * 4, len(Weather) * len(Timed) * _BUCKETS]
        words: np.memmap[tuple[int], np.dtype[np.int64]]
        words = np.memmap(path, dtype=np.int64, mode="w+" if new else "r+", shape=(sum(sizes),))
        cuts = np.cumsum(sizes)[:-1]
        self.state, self.put, self.put_sums, self.read, self.read_sums, times = np.split(words, cuts)
        self.times = times.reshape(len(Weather), len(Timed), _BUCKETS)

    @property
    def phase(self) -> Phase:
        """The phase now: work, a pause, or the end."""
        return Phase(int(self.state[self.PHASE]))

    @property
    def weather(self) -> Weather:
        """The weather now."""
        return Weather(int(self.state[self.WEATHER]))

    def took(self, call: Timed, nanoseconds: int) -> None:
        """Count the time of a call. Several threads may lose one another's count now and then."""
        bits = max(nanoseconds, 4).bit_length()
        bucket = _STEPS * bits + (nanoseconds >> bits - 3 & _STEPS - 1)
        self.times[self.state[self.WEATHER], call, min(bucket, _BUCKETS - 1)] += 1

    def quantile_ms(self, weather: Weather, call: Timed, share: float) -> float:
        """The time below which a share of the calls stayed (ms); NaN without any."""
        counts = self.times[weather, call]
        if not counts.sum():
            return float("nan")
        bucket = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        bits, step = divmod(bucket, _STEPS)
        return float((1 << bits - 1) * (1 + (step + 1) / _STEPS) / 1e6)
