"""The tail: per queue, the entries of records that no durable index covers yet. It follows the log, in memory.

Entries have the ConsumeQueue's own layout, so that one walk serves files and tail. Whoever fills the tail goes through
the log in order (`take`, one decoded range after the other); the rules for queue offsets that do not run straight are
those of the rebuild: a repeated offset is left out, a gap gets pre-blank entries, a restart begins a new generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, PRE_BLANK, QueueKey
from reput.formats.record import queue_offset_bound


@dataclass(slots=True)
class QueueTail:
    """One queue's part: entries from queue offset `first` on, 20 bytes each.

    `restarted`: the numbering began again past the frontier, so nothing in the queue's files counts any more. `before`
    is what the queue was before it began again at 0, until the next message tells a restart from a repeat.
    """

    first: int
    entries: bytearray = field(default_factory=bytearray)
    restarted: bool = False
    before: QueueTail | None = None

    @property
    def next(self) -> int:
        """The queue offset behind the last entry."""
        return self.first + len(self.entries) // ENTRY_SIZE


class Trimmed(NamedTuple):
    """Entries that left the tail: queue offsets [first, next); `restarted`: nothing before them counts."""

    key: QueueKey
    first: int
    next: int
    restarted: bool


class Tail:
    """The tails of all queues. Not safe for threads by itself: its owner holds a lock.

    `entries`: how many entries all of them hold. `repeats`, `blanks`, `restarts`: what did not run straight.
    """

    def __init__(self) -> None:
        self.queues: dict[QueueKey, QueueTail] = {}
        self.entries = 0
        self.repeats = self.blanks = self.restarts = 0

    def begin(self, key: QueueKey, first: int) -> QueueTail:
        """The tail of a queue whose files end at queue offset `first`; the present one where there is one."""
        tail = self.queues.get(key)
        if tail is None:
            tail = self.queues[key] = QueueTail(first)
        return tail

    def extend(self, tail: QueueTail, first: int, entries: memoryview) -> None:
        """Add consecutive entries, the first of which has queue offset `first`, in log order."""
        count, following = len(entries) // ENTRY_SIZE, tail.next
        if first > following:
            self._fill(tail, first, entries)
        elif first < following:
            skipped = min(following - first, count)
            self.repeats += skipped
            count -= skipped
            entries = entries[skipped * ENTRY_SIZE :]
        tail.entries += entries
        self.entries += count

    def extend_unsteady(self, tail: QueueTail, offsets: Iterable[int], entries: memoryview) -> None:
        """Add entries whose queue offsets do not run straight, one by one in log order."""
        for number, offset in enumerate(offsets):
            piece = entries[number * ENTRY_SIZE : (number + 1) * ENTRY_SIZE]
            if tail.before is not None and offset != tail.next:
                self._decide(tail, offset)
            if offset == 0 and tail.next > 1:
                self._restart(tail)
            self.extend(tail, offset, piece)

    def _restart(self, tail: QueueTail) -> None:
        """The queue was deleted and made again, as it seems: what it held goes."""
        self.restarts += 1
        self.entries -= len(tail.entries) // ENTRY_SIZE
        tail.before = QueueTail(tail.first, tail.entries, tail.restarted)
        tail.first, tail.entries, tail.restarted = 0, bytearray(), True

    def _decide(self, tail: QueueTail, offset: int) -> None:
        """A stretch from 0 was a repeat where the queue then goes on exactly where it had been."""
        before, tail.before = tail.before, None
        if before is not None and offset == before.next:
            repeated = len(tail.entries) // ENTRY_SIZE
            self.restarts -= 1
            self.repeats += repeated
            self.entries += len(before.entries) // ENTRY_SIZE - repeated
            tail.first, tail.entries, tail.restarted = before.first, before.entries, before.restarted

    def _fill(self, tail: QueueTail, first: int, entries: memoryview) -> None:
        (physical_offset,) = ENTRY.struct.unpack_from(entries, 0)[:1]
        # The kernels bound queue offsets by the place in the log; a caller who did not must not fill memory.
        if first > queue_offset_bound(physical_offset):
            raise ValueError(f"queue offset {first} is more than a log of {physical_offset} bytes can hold")
        if not tail.entries and tail.first == 0 and not tail.restarted:
            # A queue without files that starts above 0: nothing is missing, its first messages have expired.
            tail.first = first
            return
        count = first - tail.next
        self.blanks += count
        self.entries += count
        tail.entries += PRE_BLANK * count

    def trim(self, frontier_offset: int) -> Iterator[Trimmed]:
        """Drop the entries of records below a log offset, which durable indexes hold now, queue by queue as it is read.

        Returns what went of each.
        """
        for key in list(self.queues):
            tail = self.queues[key]
            count = _entries_below(tail.entries, frontier_offset)
            if count:
                gone = Trimmed(key, tail.first, tail.first + count, tail.restarted)
                tail.entries = tail.entries[count * ENTRY_SIZE :]
                tail.first += count
                tail.restarted, tail.before = False, None
                self.entries -= count
                yield gone
            if not tail.entries:
                del self.queues[key]


def _entries_below(entries: bytearray, frontier_offset: int) -> int:
    """How many entries from the start belong to records below a log offset; pre-blanks go with what follows them."""
    low, high = 0, len(entries) // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        probe = middle
        while probe > low and entries[probe * ENTRY_SIZE : (probe + 1) * ENTRY_SIZE] == PRE_BLANK:
            probe -= 1
        (physical_offset,) = ENTRY.struct.unpack_from(entries, probe * ENTRY_SIZE)[:1]
        if physical_offset < frontier_offset:
            low = middle + 1
        else:
            high = probe
    return low
