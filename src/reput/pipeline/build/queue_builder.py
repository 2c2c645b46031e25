"""The rules for a queue whose offsets do not run straight, over its runs in log order; what is built is a target's.

A repeated offset: the first record wins, like the peer's `ConsumeQueue.putMessagePositionInfo`. An offset that restarts
at 0 (the topic was deleted and made again): a new generation, the last one wins. A gap: pre-blank entries, since a hole
of zeros would make RocketMQ cut the queue there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from reput.formats.consume_queue import ENTRY_SIZE, QueueKey


class QueueOutcome(NamedTuple):
    """A queue as it was built: its first and next queue offset, its entries, and what its records did.

    `repeats`: records left out because their offset was taken; `blanks`: pre-blank entries in gaps; `restarts`:
    generations that went because the numbering began again; `dropped`: entries of those.
    """

    key: QueueKey
    first: int
    next: int
    entries: int
    repeats: int
    blanks: int
    restarts: int
    dropped: int


class OffsetRun(NamedTuple):
    """Consecutive queue offsets in log order: the first of them, and their entries' bytes, `size` each."""

    first: int
    entries: memoryview
    size: int = ENTRY_SIZE

    @property
    def next(self) -> int:
        """The offset behind the run."""
        return self.first + len(self.entries) // self.size


class QueueTarget(Protocol):
    """Where a queue is built."""

    def put(self, run: OffsetRun) -> None:
        """Consecutive entries, behind those that were put before."""
        ...

    def blank(self, begin: int, end: int, following: OffsetRun) -> None:
        """Numbers [begin, end) without a message, in front of `following`."""
        ...

    def drop(self) -> None:
        """All that was put goes: the queue begins again."""
        ...


def build_queue(
    key: QueueKey, runs: Callable[[], Iterator[OffsetRun]], target: QueueTarget, end: int = 0
) -> QueueOutcome:
    """Build a queue from its runs, which are gone through twice; one that ends at queue offset `end` goes on there."""
    builder = _QueueBuilder(key, target)
    if end > 0:
        builder.first = builder.next = end
    after_zero = deque(_what_follows_zero(runs()))
    expected = -1
    for run in runs():
        starts = run.first != expected
        following = after_zero.popleft() if starts and run.first == 0 else -1
        builder.take(run, following if starts else None)
        expected = run.next
    return builder.outcome()


def _what_follows_zero(runs: Iterator[OffsetRun]) -> list[int]:
    """For each stretch of consecutive offsets that starts at 0, the offset behind its end (-1: none)."""
    follows: list[int] = []
    expected, from_zero = -1, False
    for run in runs:
        if run.first != expected:
            if from_zero:
                follows.append(run.first)
            from_zero = run.first == 0
        expected = run.next
    if from_zero:
        follows.append(-1)
    return follows


class _QueueBuilder:
    """The rules over the runs of one queue; writes as it goes, so that memory stays at one split's entries."""

    def __init__(self, key: QueueKey, target: QueueTarget) -> None:
        self.key = key
        self.target = target
        self.first = self.next = -1
        self.repeats = self.blanks = self.restarts = self.dropped = 0

    def take(self, run: OffsetRun, following: int | None) -> None:
        """Take the next run in log order.

        `following` is the offset that comes behind the stretch which this run starts at 0 (-1: none or another start);
        None says that this run only goes on where the one before ended.
        """
        if self.next < 0:
            self.first = self.next = run.first
        elif run.first > self.next:
            self._fill(run)
        elif run.first < self.next:
            if following is not None and run.first == 0 and self._restarts(following):
                self._start_again()
            else:
                run = self._without_repeats(run)
        if run.entries:
            self.target.put(run)
            self.next = run.next

    def _restarts(self, following: int) -> bool:
        # Message 0 given twice at once is a repeat; where the queue goes on as if nothing had been, so is the stretch.
        return self.next > 1 and following != self.next

    def _start_again(self) -> None:
        self.target.drop()
        self.restarts += 1
        self.dropped += self.next - self.first - self.blanks
        self.first = self.next = 0
        self.blanks = 0

    def _without_repeats(self, run: OffsetRun) -> OffsetRun:
        repeated = min(self.next, run.next) - run.first
        self.repeats += repeated
        return OffsetRun(run.first + repeated, run.entries[repeated * run.size :], run.size)

    def _fill(self, run: OffsetRun) -> None:
        self.blanks += run.first - self.next
        self.target.blank(self.next, run.first, run)
        self.next = run.first

    def outcome(self) -> QueueOutcome:
        """What was built."""
        return QueueOutcome(
            key=self.key,
            first=max(self.first, 0),
            next=max(self.next, 0),
            entries=0 if self.next < 0 else self.next - self.first - self.blanks,
            repeats=self.repeats,
            blanks=self.blanks,
            restarts=self.restarts,
            dropped=self.dropped,
        )
