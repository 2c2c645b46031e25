"""Building a queue whose entries are out of order: the order rule (`queue/order.py`) over its runs in log order.

A target takes the entries: queue files, or values for RocksDB's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from reput.formats.queue.consume_queue import QueueKey
from reput.queue.order import OrderState, QueueOrder, repeated_stretches
from reput.queue.runs import EntryRun


class QueueOutcome(NamedTuple):
    """A queue as it was built: its first and next queue offset, its entries, and what its records did.

    `repeats`: records left out because their offset was taken; `blanks`: queue offsets without a message, which are
    pre-blank entries in a ConsumeQueue; `restarts`: generations that were dropped because the numbering began again;
    `dropped`: the entries of those.
    """

    key: QueueKey
    first: int
    next: int
    entries: int
    repeats: int
    blanks: int
    restarts: int
    dropped: int

    @property
    def is_odd(self) -> bool:
        """Return True if the queue's offsets are not consecutive in the log."""
        return bool(self.repeats or self.blanks or self.restarts)


class QueueTarget(Protocol):
    """The target of a queue that is built."""

    def put(self, run: EntryRun) -> None:
        """Append consecutive entries."""
        ...

    def blank(self, begin: int, end: int, following: EntryRun) -> None:
        """Fill the queue offsets [begin, end), which have no message; the run `following` comes next."""
        ...

    def drop(self) -> None:
        """Drop all entries: the queue begins again."""
        ...


def build_queue(
    key: QueueKey, runs: Callable[[], Iterator[EntryRun]], target: QueueTarget, end: int = 0
) -> QueueOutcome:
    """Build a queue from its runs in log order, by the order rule; memory holds one run.

    Args:
        key: the queue.
        runs: returns the runs. It is called twice: the first pass finds repeats that look like restarts.
        target: takes the entries.
        end: the queue offset at which the queue ends already, 0 for a new queue.
    """
    order = QueueOrder(OrderState.at(end))
    repeated = repeated_stretches(((run.first, run.next) for run in runs()), order.state)
    for number, run in enumerate(runs()):
        step = order.take(run.first, run.next, may_restart=number not in repeated)
        if step.restarts:
            target.drop()
        if step.blanks:
            target.blank(run.first - step.blanks, run.first, run)
        kept = run.above(step.repeats)
        if kept.entries:
            target.put(kept)
    return QueueOutcome(
        key=key,
        first=max(order.first, 0),
        next=max(order.state.next, 0),
        entries=order.entries,
        repeats=order.repeats,
        blanks=order.missing,
        restarts=order.restarts,
        dropped=order.dropped,
    )
