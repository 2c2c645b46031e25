"""The order rule of a queue: what the entries of a log, in log order, leave in their queue.

An entry takes `width` queue offsets from its own on: 1 in a ConsumeQueue, n for a batch of n messages.

1. The first entry begins the queue at its queue offset. Nothing is missing below: older messages have expired.
2. An entry at the queue's next offset is appended.
3. An entry above the next offset leaves a gap, and is appended after it. A ConsumeQueue gets a pre-blank entry for each
   missing offset, since RocketMQ cuts a queue at zeros. A queue of batches gets nothing.
4. An entry below the next offset is a repeat and is left out. The first record wins, as in the peer's
   `ConsumeQueue.putMessagePositionInfo`. RocketMQ appends a repeated batch, but then no search finds its messages.
5. But queue offset 0 restarts a queue: the topic was deleted and made again. Everything before is dropped, be it one
   message alone (`DefaultMessageStore.deleteTopics` removes the queue and its numbering).
6. A restart is taken back if the queue then continues exactly where it was: the stretch of consecutive entries from 0
   was a repeat, up to that offset. Batches are written as they come, so their restarts are final.

A caller that knows later entries decides once (`repeated_stretches`, then `may_restart`). A caller that follows the log
takes a restart back when the stretch ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class OrderState(NamedTuple):
    """The state of one queue: all that the rule depends on.

    Attributes:
        next: the queue offset after the last entry, -1 for a queue without entries.
        last: the queue offset of the last entry.
        before: `next` before a restart that may be taken back, -1 if there is none.
    """

    next: int = -1
    last: int = -1
    before: int = -1

    @classmethod
    def at(cls, end: int) -> OrderState:
        """Return the state of a ConsumeQueue that ends at queue offset `end`; 0 for one without entries."""
        return cls(end, end - 1) if end > 0 else EMPTY


EMPTY = OrderState()


class Step(NamedTuple):
    """The effect of a run of entries on its queue, in the order of these fields.

    Attributes:
        state: the state of the queue afterwards.
        takes_back: the last restart was a repeat. The queue is as before it, with the entries of the stretch above.
        restarts: the queue drops everything.
        blanks: missing queue offsets between the queue's end and the run.
        repeats: queue offsets at the beginning of the run that are left out. The rest of the run is appended.
    """

    state: OrderState
    takes_back: bool
    restarts: bool
    blanks: int
    repeats: int


def decide(
    state: OrderState, first: int, end: int, width: int = 1, *, may_restart: bool = True, is_final: bool = False
) -> Step:
    """Apply the rule to a run of consecutive entries with queue offsets [first, end), each `width` wide.

    Args:
        state: the state of the queue before the run.
        first: the queue offset of the first entry.
        end: the queue offset after the last entry.
        width: the queue offsets of each entry.
        may_restart: False for a run that is known to begin a repeated stretch (`repeated_stretches`).
        is_final: a restart is not taken back later.
    """
    next_offset, last, before = state
    if first == next_offset:
        return Step(OrderState(end, end - width, before), False, False, 0, 0)
    takes_back = False
    if before >= 0:
        takes_back = first == before
        if takes_back:
            next_offset = max(next_offset, before)
            last = next_offset - 1
        before = -1
    restarts, blanks, repeats = False, 0, 0
    if next_offset >= 0 and first > next_offset:
        blanks = first - next_offset
    elif first < next_offset:
        restarts = may_restart and first == 0
        if not restarts:
            repeats = -(-(min(next_offset, end) - first) // width) * width
        elif not is_final:
            before = next_offset
    if first + repeats < end:
        next_offset, last = end, end - width
    return Step(OrderState(next_offset, last, before), takes_back, restarts, blanks, repeats)


def repeated_stretches(runs: Iterable[tuple[int, int]], state: OrderState) -> set[int]:
    """Return the numbers of the runs [first, end) that look like a restart and begin a repeated stretch (point 6)."""
    found, begun = set(), -1
    next_offset, before = state.next, state.before
    for number, (first, end) in enumerate(runs):
        if first > 0 and before < 0:
            # Neither a restart nor the end of one: appended, after a gap or not, or a repeat.
            next_offset = max(next_offset, end)
            continue
        step = decide(OrderState(next_offset, next_offset - 1, before), first, end)
        if step.takes_back:
            found.add(begun)
        if step.restarts:
            begun = number
        next_offset, _, before = step.state
    return found


def consecutive_runs(offsets: Int64s) -> list[tuple[int, int]]:
    """Return the rows [begin, end) of each run of consecutive queue offsets, in order."""
    if not len(offsets):
        return []
    breaks = (np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()
    return list(zip([0, *breaks], [*breaks, len(offsets)], strict=True))


def continues(next_offset: Int64s, first: Int64s) -> NDArray[np.bool_]:
    """Return for each queue whether a run that begins at `first` is simply appended (points 1 and 2).

    Args:
        next_offset: the queue offset after the last entry of each queue, -1 for a queue without entries.
        first: the queue offset of each queue's run.
    """
    appended: NDArray[np.bool_] = (next_offset < 0) | (next_offset == first)
    return appended


class Kept(NamedTuple):
    """The rows [begin, end) of entries to append; `restarts`: after the queue has dropped everything."""

    begin: int
    end: int
    restarts: bool


class QueueOrder:
    """The state of one queue whose restarts are final, and counts of its entries.

    Attributes:
        first: the queue offset of the first entry that this order has seen, -1 before that.
        entries: the entries that the queue holds.
        repeats: the entries that were left out.
        missing: the queue offsets without a message.
        restarts: how often the numbering began again.
        dropped: the entries that went with restarts.
    """

    def __init__(self, state: OrderState = EMPTY, entries: int = 0) -> None:
        self.state = state
        self.first = state.next
        self.entries = entries
        self.repeats = self.missing = self.restarts = self.dropped = 0

    def take(self, first: int, end: int, width: int = 1, *, may_restart: bool = True) -> Step:
        """Take the next run of the queue; see `decide`."""
        step = decide(self.state, first, end, width, may_restart=may_restart, is_final=True)
        if step.restarts:
            self.restarts += 1
            self.dropped += self.entries
            self.entries = self.missing = 0
        if step.restarts or self.first < 0:
            self.first = first
        self.repeats += step.repeats // width
        self.missing += step.blanks
        self.entries += (end - first - step.repeats) // width
        self.state = step.state
        return step

    def sort_out(self, first: Int64s, end: Int64s) -> Iterator[Kept]:
        """Take the queue's next entries, each with queue offsets [first, end); yield the rows to append.

        The caller uses up all rows before the next call.
        """
        breaks = (np.flatnonzero(first[1:] < end[:-1]) + 1).tolist()
        for row, limit in zip([0, *breaks], [*breaks, len(first)], strict=True) if len(first) else ():
            step = self.take(int(first[row]), int(end[row]), max(1, int(end[row] - first[row])))
            begin = row
            if step.repeats:
                # Queue offsets ascend from here to `limit`, so the repeats come first.
                begin = row + int(np.searchsorted(first[row:limit], self.state.next))
                self.repeats += begin - row - 1
                if begin == limit:
                    continue
                self.take(int(first[begin]), int(end[begin]), max(1, int(end[begin] - first[begin])))
            self.missing += int((first[begin + 1 : limit] - end[begin : limit - 1]).sum())
            self.entries += limit - begin - 1
            self.state = OrderState(int(end[limit - 1]), int(first[limit - 1]))
            yield Kept(begin, limit, step.restarts)
