"""The queues of batches of an open store: the durable entries of each in its files, then its tail.

Entries are numbered from the queue's byte 0, as in its files. The tail continues where the files end. A search by base
offset finds an entry, since its place does not give its offset.

Source: `BatchConsumeQueue.getBatchMsgIndexBuffer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.files.maps import MapCache
from reput.formats import paths
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE, BatchEntry
from reput.formats.queue.consume_queue import QueueKey, QueueRange
from reput.halving import first_where
from reput.queue.batch_kind import BatchKind, order_of, take_batches
from reput.queue.order import QueueOrder
from reput.queue.reader import QueueSpan
from reput.queue.tail import Tail

_MOST_MAPS = 4096
_NONE: NDArray[np.void] = np.empty(0, dtype=BATCH_ENTRY.dtype)
_NOTHING: QueueSpan[BatchEntry] = QueueSpan(0, 0, None, range(0))


class _BatchTail:
    """Entries after the end of the files, numbered from `first`; `restarted`: the files do not count."""

    __slots__ = ("entries", "first", "order", "restarted")

    def __init__(self, first: int, order: QueueOrder) -> None:
        self.first = first
        self.order = order
        self.entries = bytearray()
        self.restarted = False

    @property
    def end(self) -> int:
        """The number after the last entry."""
        return self.first + len(self.entries) // BATCH_ENTRY_SIZE

    def entry(self, number: int) -> BatchEntry:
        """Return one entry."""
        return BatchEntry(*BATCH_ENTRY.struct.unpack_from(self.entries, (number - self.first) * BATCH_ENTRY_SIZE))

    def number_from(self, log_offset: int) -> int:
        """Return the number of the first entry whose record is at or after a log offset, `end` if there is none."""
        return first_where(self.first, self.end, lambda number: self.entry(number).physical_offset >= log_offset)

    def copied(self, begin: int, end: int) -> NDArray[np.void]:
        """Return the entries numbered [begin, end): a copy, since more may come."""
        data = self.entries[(begin - self.first) * BATCH_ENTRY_SIZE : (end - self.first) * BATCH_ENTRY_SIZE]
        return np.frombuffer(bytes(data), dtype=BATCH_ENTRY.dtype)


class BatchQueues:
    """All queues of batches of a store, files and tail as one. Not safe for threads: its owner holds a lock.

    Args:
        folder: the batchconsumequeue folder.
        file_size: bytes of a queue file.
        counter: the tail of the other queues. Its `entries` count these too, so one bound holds for both.
    """

    def __init__(self, folder: Path, file_size: int, counter: Tail) -> None:
        self.files = BatchKind(folder)
        self.file_size = file_size
        self.entries_per_file = file_size // BATCH_ENTRY_SIZE
        self.topics: set[str] = set()
        """The topics that have such queues."""
        self._counter = counter
        self._stored: dict[QueueKey, QueueSpan[BatchEntry]] = {}
        self._tails: dict[QueueKey, _BatchTail] = {}
        self._maps = MapCache(_MOST_MAPS)

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Read from the files where each queue ends below the frontier; those entries leave the tail."""
        self._maps.clear()
        self._stored = {
            queue.key: queue.span(log_min_offset, frontier_offset)
            for queue in self.files.queues()
            if paths.is_topic_folder_name(queue.key.topic)
        }
        self.topics |= {key.topic.decode() for key in self._stored}
        self.advance(frontier_offset)

    def take(self, key: QueueKey, entries: NDArray[np.void]) -> None:
        """Add a queue's next entries, in log order, to its tail."""
        tail = self._tails.get(key)
        if tail is None:
            stored = self._stored.get(key, _NOTHING)
            tail = self._tails[key] = _BatchTail(stored.entries.stop, order_of(stored))
            self.topics.add(key.topic.decode())
        for kept in take_batches(tail.order, entries):
            if kept.restarts:
                self._counter.entries -= len(tail.entries) // BATCH_ENTRY_SIZE
                tail.first, tail.entries, tail.restarted = 0, bytearray(), True
            tail.entries += kept.entries.tobytes()
            self._counter.entries += len(kept.entries)

    def advance(self, frontier_offset: int) -> None:
        """Move the entries of records below a log offset from the tail to the files, which hold them now.

        No disk access.
        """
        for key, tail in list(self._tails.items()):
            end = tail.number_from(frontier_offset)
            if end > tail.first:
                gone, last = tail.entry(tail.first), tail.entry(end - 1)
                stored = _NOTHING if tail.restarted else self._stored.get(key, _NOTHING)
                least = stored.min_offset if stored.last else gone.base_offset
                first = stored.entries.start if stored.last else tail.first
                self._stored[key] = QueueSpan(least, last.next_offset, last, range(first, end))
                self._counter.entries -= end - tail.first
                tail.entries = tail.entries[(end - tail.first) * BATCH_ENTRY_SIZE :]
                tail.first, tail.restarted = end, False
            if not tail.entries:
                del self._tails[key]

    def spans(self, topic: bytes | None = None) -> Iterator[QueueRange]:
        """Yield every known queue, or those of a topic, once, with its first and next queue offset."""
        for key in [*self._stored, *(key for key in self._tails if key not in self._stored)]:
            if topic not in (None, key.topic):
                continue
            yield QueueRange(key, self.min_offset(key), self.max_offset(key))

    def knows(self, key: QueueKey) -> bool:
        """Return True if there is such a queue."""
        return key in self._stored or key in self._tails

    def min_offset(self, key: QueueKey) -> int:
        """Return the first queue offset whose record the log still has; the queue's end if no record is left."""
        tail, stored = self._tails.get(key), self._stored.get(key, _NOTHING)
        if tail is not None and (tail.restarted or stored.last is None or stored.min_offset == stored.max_offset):
            return tail.entry(tail.first).base_offset if tail.entries else stored.min_offset
        return stored.min_offset

    def max_offset(self, key: QueueKey) -> int:
        """Return the next queue offset, 0 if there is no such queue."""
        tail = self._tails.get(key)
        return tail.order.state.next if tail is not None else self._stored.get(key, _NOTHING).max_offset

    def span(self, key: QueueKey) -> tuple[int, int]:
        """Return the number of a queue's first entry, and the number after its last entry."""
        tail, stored = self._tails.get(key), self._stored.get(key, _NOTHING)
        first = stored.entries.start if tail is None or not tail.restarted else 0
        return first, stored.entries.stop if tail is None else tail.end

    def entries_from(self, key: QueueKey, number: int, most: int) -> NDArray[np.void]:
        """Return at most `most` entries (dtype `BATCH_ENTRY`) from this number on, up to the end of its file.

        As in RocketMQ a read stops at a file's end; the tail's entries count as if they were in files.
        """
        end = min((number // self.entries_per_file + 1) * self.entries_per_file, number + most, self.span(key)[1])
        tail = self._tails.get(key)
        in_files_to = self._in_files_to(key)
        from_files = self._from_files(key, number, min(end, in_files_to)) if number < in_files_to else _NONE
        if tail is None or end <= in_files_to or len(from_files) < in_files_to - number:
            return from_files
        rest = tail.copied(max(number, tail.first), end)
        return np.concatenate([from_files, rest]) if len(from_files) else rest

    def number_of(self, key: QueueKey, field: str, value: int) -> int:
        """Return the number of the last entry whose `field` is at most `value`.

        One less than the first number if there is none.

        The field's values must not fall from entry to entry.
        """
        first, end = self.span(key)
        tail, in_files_to = self._tails.get(key), self._in_files_to(key)
        place = BATCH_ENTRY.dtype.names.index(field)

        def is_above(number: int) -> bool:
            if tail is not None and number >= in_files_to:
                return tail.entry(number)[place] > value
            found = self._from_files(key, number, number + 1)
            # An entry that is gone counts as above each value.
            return not len(found) or int(found[0][field]) > value

        return first_where(first, end, is_above) - 1

    def _in_files_to(self, key: QueueKey) -> int:
        tail = self._tails.get(key)
        return 0 if tail is not None and tail.restarted else self._stored.get(key, _NOTHING).entries.stop

    def _from_files(self, key: QueueKey, begin: int, end: int) -> NDArray[np.void]:
        number = begin // self.entries_per_file
        array = self._maps.get((key, number))
        if array is None:
            start = number * self.file_size
            path = self.files.folder / key.topic.decode() / str(key.queue_id) / paths.offset_name(start)
            if not path.exists():
                return _NONE
            array = self._maps.open((key, number), str(path), self.file_size)
        at = number * self.entries_per_file
        piece = array[(begin - at) * BATCH_ENTRY_SIZE : (end - at) * BATCH_ENTRY_SIZE]
        return piece.view(BATCH_ENTRY.dtype)

    def close(self) -> None:
        """Close the maps."""
        self._maps.clear()
