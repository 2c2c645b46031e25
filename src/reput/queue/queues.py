"""The queues of an open store: the durable entries of each, of any kind, then its tail.

If entries come for very many queues, they wait in a backlog until a caller asks for the queue.

Durable entries count as far as their records are below the frontier. Later entries are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey, QueueRange
from reput.kernels.layouts.columns import Columns
from reput.kernels.layouts.pack import EntrySources
from reput.queue.backlog import Backlog, Waiting
from reput.queue.kinds import DurableQueues
from reput.queue.runs import runs_of
from reput.queue.tail import QueueTail, Tail

_NO_ENTRIES = np.empty(0, dtype=np.uint8)


class Queues:
    """All queues of a store, durable entries and tail as one. Not safe for threads: its owner holds a lock.

    Args:
        durable: the entries below the frontier.
    """

    def __init__(self, durable: DurableQueues) -> None:
        self.durable = durable
        self.tail = Tail()
        self.backlog = Backlog()

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Read from disk where each queue ends below the frontier; those entries leave the tail."""
        self.settle_all()
        self.durable.load(frontier_offset, log_min_offset)
        for _ in self.tail.trim(frontier_offset):
            pass

    def advance(self, frontier_offset: int) -> None:
        """Note that all entries below a log offset are durable now: they leave the tail."""
        self.settle_all()
        self.durable.advance(frontier_offset, self.tail.trim(frontier_offset))

    def spans(self, topic: bytes | None = None) -> Iterator[QueueRange]:
        """Yield every known queue, or those of a topic, once, with its first and next queue offset."""
        self.settle_all()
        tails = {key: tail for key, tail in self.tail.queues.items() if topic in (None, key.topic)}
        for key, stored in self.durable.spans(topic):
            tail = tails.pop(key, None)
            if tail is None:
                yield QueueRange(key, *stored)
            else:
                yield QueueRange(key, tail.first if tail.restarted else stored.min_offset, tail.next)
        for key, tail in tails.items():
            yield QueueRange(key, tail.first, tail.next)

    def topics(self) -> set[bytes]:
        """Return the topics of all queues. No queue is read."""
        self.settle_all()
        return {*self.durable.topics(), *(key.topic for key in self.tail.queues)}

    def durable_ends(self) -> dict[QueueKey, int]:
        """Return the queue offset after the durable entries of each queue."""
        return {key: stored.max_offset for key, stored in self.durable.spans()}

    def ends_below_tail(self) -> dict[QueueKey, int]:
        """Return the same for the queues that have a tail: a catch-up changes no others."""
        self.settle_all()
        found = ((key, self.durable.find(key)) for key in self.tail.queues)
        return {key: stored.max_offset for key, stored in found if stored is not None}

    def knows(self, key: QueueKey) -> bool:
        """Return True if there is such a queue. Any thread may ask, with or without the lock."""
        return key in self.tail.queues or self.backlog.holds(key) or self.durable.find(key) is not None

    def min_offset(self, key: QueueKey) -> int:
        """Return the first queue offset whose record the log still has.

        The queue's end if none is left, 0 for no queue.
        """
        tail = self.find_tail(key)
        if tail is not None and tail.restarted:
            return tail.first
        stored = self.durable.find(key)
        if stored is None:
            return tail.first if tail else 0
        return stored.min_offset

    def max_offset(self, key: QueueKey) -> int:
        """Return the next queue offset, 0 for no queue."""
        tail = self.find_tail(key)
        if tail is not None:
            return tail.next
        stored = self.durable.find(key)
        return stored.max_offset if stored else 0

    def find_tail(self, key: QueueKey) -> QueueTail | None:
        """Return the tail of a queue with all its entries; None if there is none."""
        self.tail.refuse()
        waiting = self.backlog.take(key) if self.backlog.count else None
        if waiting is not None:
            self._settle(waiting)
        return self.tail.queues.get(key)

    def wait(self, columns: Columns, sources: EntrySources) -> None:
        """Take the next entries of many queues. A queue's tail gets them when a caller asks for it."""
        self.tail.entries += self.backlog.add(columns, sources)

    def extend(
        self, key: QueueKey, first: int, steady: bool, entries: memoryview, offsets: Callable[[], list[int]]
    ) -> None:
        """Add a queue's next entries, in log order, to its tail.

        Args:
            key: the queue.
            first: the queue offset of the first entry.
            steady: the entries are consecutive. Otherwise `offsets` returns their queue offsets.
            entries: 20 bytes each.
            offsets: see `steady`.
        """
        if self.backlog.count:
            self.find_tail(key)
        self._extend(key, first, steady, entries, offsets)

    def settle_all(self) -> None:
        """Move all waiting entries to the tails."""
        self.tail.refuse()
        for waiting in self.backlog.take_all():
            self._settle(waiting)

    def _settle(self, waiting: Waiting) -> None:
        self.tail.entries -= len(waiting.entries) // ENTRY_SIZE
        self._extend(*waiting)

    def _extend(
        self, key: QueueKey, first: int, steady: bool, entries: memoryview, offsets: Callable[[], list[int]]
    ) -> None:
        tail = self.tail.queues.get(key)
        if tail is None:
            stored = self.durable.find(key)
            tail = self.tail.begin(key, stored.max_offset if stored else 0)
        if steady:
            self.tail.take(tail, first, entries)
            return
        for run in runs_of(np.array(offsets(), dtype=np.int64), entries):
            self.tail.take(tail, run.first, run.entries)

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end) of a queue (uint8, 20 bytes each), fewer if a block ends before.

        As in RocketMQ a read stops at the end of a queue file; the tail's entries count as if they were in files. The
        answer is empty if nothing holds `begin`.
        """
        end = min(end, self.durable.block_end(key, begin), self.max_offset(key))
        tail = self.find_tail(key)
        stored = None if tail is not None and tail.restarted else self.durable.find(key)
        durable_to = 0 if stored is None else stored.max_offset
        if begin >= durable_to:
            if tail is None or begin < tail.first:
                return _NO_ENTRIES
            at = begin - tail.first
            copied = bytes(tail.entries[at * ENTRY_SIZE : (at + max(0, end - begin)) * ENTRY_SIZE])
            return np.frombuffer(copied, dtype=np.uint8)
        from_disk = self.durable.entries(key, begin, min(end, durable_to))
        if end <= durable_to or tail is None or len(from_disk) < (durable_to - begin) * ENTRY_SIZE:
            return from_disk
        rest = bytes(tail.entries[: (end - tail.first) * ENTRY_SIZE])
        return np.concatenate([from_disk, np.frombuffer(rest, dtype=np.uint8)])

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Return durable entries around a queue offset that are cheap to keep; see `DurableQueues.block`."""
        tail = self.find_tail(key)
        if tail is not None and tail.restarted:
            return None
        return self.durable.block(key, offset)

    def close(self) -> None:
        """Close files."""
        self.durable.close()
