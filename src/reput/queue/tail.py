"""The tail: the entries of each queue whose records no durable index covers yet. It follows the log, in memory.

Entries have the ConsumeQueue's own layout, so one walk serves files and tail. Entries come in log order. The order rule
(`queue/order.py`) says what they leave in the queue, as in a rebuild.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from reput.errors import TailFullError
from reput.formats.log.record import queue_offset_bound
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, PRE_BLANK, QueueKey, QueueRange
from reput.halving import first_where
from reput.queue.order import EMPTY, OrderState, decide

TAIL_MAX_ENTRIES = 16_000_000
"""Entries that the tail may hold: some 830 MB of memory with three index items a message."""


@dataclass(slots=True)
class QueueTail:
    """The tail of one queue: entries from queue offset `first` on, 20 bytes each. An `EntryRun` is taken in at its end.

    Attributes:
        restarted: the numbering began again past the frontier, so the queue's files no longer count.
        before: the queue before that restart, until the next entries show that it was no restart.
    """

    first: int
    entries: bytearray = field(default_factory=bytearray)
    restarted: bool = False
    before: QueueTail | None = None

    @property
    def next(self) -> int:
        """The queue offset after the last entry."""
        return self.first + len(self.entries) // ENTRY_SIZE

    @property
    def state(self) -> OrderState:
        """The queue's state for the order rule."""
        if not self.entries and not self.first and not self.restarted:
            return EMPTY
        end = self.next
        return OrderState(end, end - 1, self.before.next if self.before is not None else -1)


class Trimmed(NamedTuple):
    """Entries that left the tail; `restarted`: nothing before them counts."""

    entries: QueueRange
    restarted: bool


class Tail:
    """The tails of all queues. Not safe for threads: its owner holds a lock.

    `entries`: the entries of all queues. `most_entries`: how many there may be once a gap is filled with blank ones, of
    which two records of a hostile log can ask for a million.
    """

    def __init__(self) -> None:
        self.queues: dict[QueueKey, QueueTail] = {}
        self.entries = 0
        self.most_entries = 2 * TAIL_MAX_ENTRIES
        self.refused = ""
        """The reason why entries are missing from now on."""

    def refuse(self) -> None:
        """Refuse questions once entries are missing.

        Raises:
            TailFullError: a gap had no room.
        """
        if self.refused:
            raise TailFullError(self.refused)

    def begin(self, key: QueueKey, first: int) -> QueueTail:
        """Return the tail of a queue; make it if there is none, for a queue whose files end at offset `first`."""
        tail = self.queues.get(key)
        if tail is None:
            tail = self.queues[key] = QueueTail(first)
        return tail

    def take(self, tail: QueueTail, first: int, entries: memoryview) -> None:
        """Take the next entries of a queue, which are consecutive from queue offset `first` on."""
        if first != tail.next:
            entries = entries[self._arrange(tail, first, len(entries) // ENTRY_SIZE, entries) * ENTRY_SIZE :]
        tail.entries += entries
        self.entries += len(entries) // ENTRY_SIZE

    def _arrange(self, tail: QueueTail, first: int, count: int, entries: memoryview) -> int:
        """Do to the queue what the order rule asks for before `count` entries; return how many of them it repeats."""
        step = decide(tail.state, first, first + count)
        if step.takes_back and tail.before is not None:
            self._take_back(tail, tail.before)
        if step.restarts:
            self._restart(tail)
        elif step.state.before < 0:
            tail.before = None
        if first > tail.next:
            self._fill(tail, first, step.blanks, entries)
        return step.repeats

    def _restart(self, tail: QueueTail) -> None:
        """Drop the queue's entries, but keep them at hand: the restart may be taken back."""
        self.entries -= len(tail.entries) // ENTRY_SIZE
        tail.before = QueueTail(tail.first, tail.entries, tail.restarted)
        tail.first, tail.entries, tail.restarted = 0, bytearray(), True

    def _take_back(self, tail: QueueTail, before: QueueTail) -> None:
        """Return to the queue before its restart. The stretch from 0 was a repeat as far as that queue went."""
        stretch, more = len(tail.entries), tail.entries[before.next * ENTRY_SIZE :]
        self.entries += (len(before.entries) + len(more) - stretch) // ENTRY_SIZE
        tail.first, tail.entries, tail.restarted = before.first, before.entries + more, before.restarted
        tail.before = None

    def _fill(self, tail: QueueTail, first: int, blanks: int, entries: memoryview) -> None:
        """Fill the gap of `blanks` below queue offset `first`; without any the queue begins at `first`."""
        (physical_offset,) = ENTRY.struct.unpack_from(entries, 0)[:1]
        # The kernels bound queue offsets by the place in the log. A caller that does not must not fill memory.
        if first > queue_offset_bound(physical_offset):
            raise ValueError(f"queue offset {first} is more than a log of {physical_offset} bytes can hold")
        if blanks and self.entries + blanks > self.most_entries:
            self.refused = (
                f"the message at log offset {physical_offset} has queue offset {first}, after {blanks} numbers without "
                f"a message, and {self.entries} entries wait for their durable index: memory has room for "
                f"{self.most_entries}. If the log is sound, build its indexes first: `reput rebuild`"
            )
            self.refuse()
        if not blanks:
            tail.first = first
        self.entries += blanks
        tail.entries += PRE_BLANK * blanks

    def trim(self, frontier_offset: int) -> Iterator[Trimmed]:
        """Drop the entries of records below a log offset, which durable indexes hold now.

        Yields the entries that left each queue; a queue is trimmed when its turn comes.
        """
        for key in list(self.queues):
            tail = self.queues[key]
            count = _entries_below(tail.entries, frontier_offset)
            if count:
                gone = Trimmed(QueueRange(key, tail.first, tail.first + count), tail.restarted)
                tail.entries = tail.entries[count * ENTRY_SIZE :]
                tail.first += count
                tail.restarted, tail.before = False, None
                self.entries -= count
                yield gone
            if not tail.entries:
                del self.queues[key]


def _entries_below(entries: bytearray, frontier_offset: int) -> int:
    """Count the entries of records below a log offset, which come first; a pre-blank counts as the entry before it."""

    def is_past(number: int) -> bool:
        while number > 0 and entries[number * ENTRY_SIZE : (number + 1) * ENTRY_SIZE] == PRE_BLANK:
            number -= 1
        physical_offset: int = ENTRY.struct.unpack_from(entries, number * ENTRY_SIZE)[0]
        return physical_offset >= frontier_offset

    return first_where(0, len(entries) // ENTRY_SIZE, is_past)
