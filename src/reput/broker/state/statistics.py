"""Counts of what a broker has taken and given since its start, and the rates of the last ten minutes.

Source: `StoreStatsService`, `BrokerStats`, `BrokerMetricsManager`.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from itertools import islice
from typing import NamedTuple

SAMPLES_KEPT = 601
_RATES_S = (10, 60, 600)


class Sample(NamedTuple):
    """Totals at a time (s of the monotonic clock)."""

    at_s: float
    put: int
    given: int


class Statistics:
    """Counters of a broker. One other thread, which stores batches, may count beside the loop's."""

    def __init__(self) -> None:
        self.started_ms = time.time_ns() // 1_000_000
        self.put_messages: Counter[str] = Counter()
        """Messages by topic."""
        self.put_bytes: Counter[str] = Counter()
        self.given_messages: Counter[str] = Counter()
        self.given_bytes: Counter[str] = Counter()
        self.refused_sends = 0
        self.committed = 0
        """Transactions."""
        self.rolled_back = 0
        self.requests: Counter[int] = Counter()
        """By code."""
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self._topics: deque[tuple[float, Counter[str]]] = deque(maxlen=_RATES_S[0] + 1)
        self.sample()

    def put(self, topic: str, messages: int, size: int) -> None:
        """Count messages that were stored; `size`: bytes of their bodies."""
        self.put_messages[topic] += messages
        self.put_bytes[topic] += size

    def gave(self, topic: str, messages: int, size: int) -> None:
        """Count messages that a consumer got; `size`: bytes of their records."""
        self.given_messages[topic] += messages
        self.given_bytes[topic] += size

    def sample(self) -> None:
        """Keep the totals of now; the broker calls it each second."""
        now_s = time.monotonic()
        self._samples.append(Sample(now_s, self.put_messages.total(), self.given_messages.total()))
        self._topics.append((now_s, self.put_messages.copy()))

    def rates(self) -> tuple[list[float], list[float]]:
        """Return messages put, and given, a second: over the last 10 s, minute and ten minutes, or since the start."""
        last, put, given = self._samples[-1], [], []
        for seconds in _RATES_S:
            at = max(0, len(self._samples) - 1 - seconds)
            before = next(islice(self._samples, at, None))
            took_s = max(last.at_s - before.at_s, 1e-9)
            put.append((last.put - before.put) / took_s if last is not before else 0.0)
            given.append((last.given - before.given) / took_s if last is not before else 0.0)
        return put, given

    def put_rate(self, topic: str) -> float:
        """Return the messages put to a topic a second, over the last 10 s."""
        (begin_s, before), (end_s, after) = self._topics[0], self._topics[-1]
        return (after[topic] - before[topic]) / (end_s - begin_s) if end_s > begin_s else 0.0
