"""Counts of what a broker has taken and given since its start, and the rates of the last ten minutes.

Source: `StoreStatsService`, `BrokerStats`, `BrokerMetricsManager`, `RemotingMetricsManager`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from reput.broker.state.configuration import is_system_topic
from reput.times import now_ms

SAMPLES_KEPT = 601
_RATES_S = (10, 60, 600)
SIZE_BOUNDS: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
"""Bounds of the sizes of records (bytes), as RocketMQ counts them."""
LATENCY_BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
"""Bounds of the times from a request to its answer (ms), as RocketMQ counts them."""

MAX_COUNTED: Final = 100_000
"""The most pairs of a topic and a group whose messages are counted, and the most queues of groups whose last pulls are
known. Above them these begin anew."""
OTHER_CODE: Final = -1
"""A code in place of all that the broker does not know."""
Answered = tuple[int, int, bool, bool]
"""The code of a request, that of its answer, and whether it was held, and one-way."""


class MessageKind(StrEnum):
    """Kinds of messages, as their senders see them (`TopicMessageType.getMetricsValue`)."""

    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"


class Histogram:
    """Values by size: `counts` of each bucket, one more than `bounds`, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Volume:
    """Messages of a topic, and the bytes of their records. `sizes`: the mean record of each put."""

    __slots__ = ("messages", "size", "sizes")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.sizes = Histogram(SIZE_BOUNDS)

    def add(self, other: Volume) -> None:
        """Add the messages and bytes of another one."""
        self.messages += other.messages
        self.size += other.size


class FurtherTopics:
    """Messages of the topics that have no counts of their own: those of users, and those of RocketMQ."""

    __slots__ = ("system", "users")

    def __init__(self) -> None:
        self.users, self.system = Volume(), Volume()

    @property
    def all(self) -> tuple[Volume, Volume]:
        """Both."""
        return self.users, self.system

    def of(self, topic: str) -> Volume:
        """Return the volume to which the messages of a topic count."""
        return self.system if is_system_topic(topic) else self.users


class Sample(NamedTuple):
    """Totals at a time (s of the monotonic clock)."""

    at_s: float
    put: int
    given: int


class Statistics:
    """Counters of a broker. One other thread, which stores batches, may count beside the loop's.

    Only topics that exist have counts of their own. Messages of other topics count in the sums alone.

    Args:
        exists: returns True for a topic that exists.
    """

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self._exists = exists
        self._further_taken, self._further_given = FurtherTopics(), FurtherTopics()
        self.started_ms = now_ms()
        self.taken: dict[tuple[str, MessageKind], Volume] = {}
        """Messages that were stored, by topic and kind."""
        self.given: dict[tuple[str, str], Volume] = {}
        """Messages that consumers got, by topic and group."""
        self.pulled: dict[tuple[str, str, int], int] = {}
        """The offset after the last answer of a pull, by group, topic and queue."""
        self.refused_sends = 0
        self.committed: Counter[str] = Counter()
        """Transactions, by topic."""
        self.rolled_back: Counter[str] = Counter()
        self.dead_letters: Counter[tuple[str, str]] = Counter()
        """Messages that became dead letters, by group and topic."""
        self.latencies: dict[Answered, Histogram] = {}
        """Times from requests to their answers (ms)."""
        self.closed: Counter[str] = Counter()
        """Connections that the broker has closed, by reason."""
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self._topics: deque[tuple[float, Counter[str]]] = deque(maxlen=_RATES_S[0] + 1)
        self.sample()

    def put(self, topic: str, kind: MessageKind, messages: int, size: int) -> None:
        """Count messages that one put has stored; `size`: bytes of their records."""
        volume = self.taken.get((topic, kind))
        if volume is None:
            exists, further = self._exists(topic), self._further_taken
            volume = self.taken.setdefault((topic, kind), Volume()) if exists else further.of(topic)
        volume.messages += messages
        volume.size += size
        volume.sizes.add(size // messages)

    def gave(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count messages that a consumer got; `size`: bytes of their records."""
        volume = self.given.get((topic, group)) or self._new_given(topic, group)
        volume.messages += messages
        volume.size += size

    def _new_given(self, topic: str, group: str) -> Volume:
        if not self._exists(topic):
            return self._further_given.of(topic)
        if len(self.given) >= MAX_COUNTED:
            for (counted, _), volume in self.given.items():
                self._further_given.of(counted).add(volume)
            self.given.clear()
        return self.given.setdefault((topic, group), Volume())

    def pulled_to(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset after an answer of a pull."""
        if len(self.pulled) >= MAX_COUNTED and (group, topic, queue_id) not in self.pulled:
            self.pulled.clear()
        self.pulled[group, topic, queue_id] = offset

    def became_dead_letter(self, group: str, topic: str) -> None:
        """Count a message that became a dead letter."""
        if self._exists(topic):
            if len(self.dead_letters) >= MAX_COUNTED and (group, topic) not in self.dead_letters:
                self.dead_letters.clear()
            self.dead_letters[group, topic] += 1

    def transaction_ended(self, topic: str | None, *, is_commit: bool) -> None:
        """Count a transaction that has ended."""
        if topic is not None and self._exists(topic):
            (self.committed if is_commit else self.rolled_back)[topic] += 1

    def forget(self, topic: str) -> None:
        """Forget the counts of a topic that is deleted; its messages stay in the sums."""
        for kind in MessageKind:
            self._further_taken.of(topic).add(self.taken.pop((topic, kind), Volume()))
        for pair in [one for one in self.given if one[0] == topic]:
            self._further_given.of(topic).add(self.given.pop(pair))
        for queue in [one for one in self.pulled if one[1] == topic]:
            del self.pulled[queue]
        for letters in [one for one in self.dead_letters if one[1] == topic]:
            del self.dead_letters[letters]
        for ended in (self.committed, self.rolled_back):
            ended.pop(topic, None)

    def answered(self, answered: Answered, seconds: float) -> None:
        """Count a request that has been answered."""
        found = self.latencies.get(answered) or self.latencies.setdefault(answered, Histogram(LATENCY_BOUNDS_MS))
        found.add(seconds * 1000)

    @property
    def put_messages(self) -> int:
        """All messages that were stored."""
        return sum(volume.messages for volume in (*self.taken.values(), *self._further_taken.all))

    @property
    def put_bytes(self) -> int:
        """The bytes of their records."""
        return sum(volume.size for volume in (*self.taken.values(), *self._further_taken.all))

    @property
    def given_messages(self) -> int:
        """All messages that consumers got."""
        return sum(volume.messages for volume in (*self.given.values(), *self._further_given.all))

    @property
    def put_messages_of_users(self) -> int:
        """The messages that were stored, without those of system topics."""
        return _of_users(list(self.taken.items()), self._further_taken)

    @property
    def given_messages_of_users(self) -> int:
        """The messages that consumers got, without those of system topics."""
        return _of_users(list(self.given.items()), self._further_given)

    def sample(self) -> None:
        """Keep the totals of now; the broker calls it each second."""
        now_s = time.monotonic()
        topics: Counter[str] = Counter()
        for (topic, _), volume in list(self.taken.items()):
            topics[topic] += volume.messages
        put = topics.total() + sum(volume.messages for volume in self._further_taken.all)
        self._samples.append(Sample(now_s, put, self.given_messages))
        self._topics.append((now_s, topics))

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
        # A topic that was deleted meanwhile begins anew.
        count = max(after[topic] - before[topic], 0)
        return count / (end_s - begin_s) if end_s > begin_s else 0.0


def _of_users(counted: Iterable[tuple[tuple[str, str], Volume]], further: FurtherTopics) -> int:
    return further.users.messages + sum(one.messages for (topic, _), one in counted if not is_system_topic(topic))
