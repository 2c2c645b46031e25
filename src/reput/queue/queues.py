"""The queues of an open store: each one's durable entries in its files, and behind them its tail.

A file's entries count as far as their records lie below the frontier; what stands behind is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.files.maps import MapCache
from reput.formats import paths
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.queue.files import list_queues
from reput.queue.reader import queue_span
from reput.queue.tail import QueueTail, Tail

_MOST_MAPS = 8192
_NO_ENTRIES = np.empty(0, dtype=np.uint8)


class StoredQueue:
    """What files hold of one queue: entries [first, end), of which those from `min_offset` on have their records."""

    __slots__ = ("end", "first", "folder", "min_offset")

    def __init__(self, folder: str, first: int, end: int, min_offset: int) -> None:
        self.folder = folder
        self.first = first
        self.end = end
        self.min_offset = min_offset


class Queues:
    """All queues of a store, files and tail as one. Not safe for threads by itself: its owner holds a lock.

    Args:
        folder: the consumequeue folder.
        file_size: bytes of a queue file.
    """

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size
        self.entries_per_file = file_size // ENTRY_SIZE
        self.stored: dict[QueueKey, StoredQueue] = {}
        self.tail = Tail()
        self._maps = MapCache(_MOST_MAPS)

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Read from the files where each queue ends below the frontier; the maps of older files are dropped."""
        self._maps.clear()
        stored = {}
        for queue in list_queues(self.folder):
            topic = queue.topic.encode("utf-8", "surrogateescape")
            if not paths.is_topic_folder_name(topic):
                continue
            span = queue_span(queue, log_min_offset, frontier_offset)
            files = [file for file in queue.files if file.size == self.file_size]
            first = files[0].start // ENTRY_SIZE if files else 0
            stored[QueueKey(topic, queue.queue_id)] = StoredQueue(
                str(queue.path), first, span.max_offset, span.min_offset
            )
        self.stored = stored

    def advance(self, frontier_offset: int) -> None:
        """The files hold all entries below a log offset now: the tail's move over, without a look at the disk."""
        for gone in self.tail.trim(frontier_offset):
            stored = self.stored.get(gone.key)
            if stored is None or gone.restarted:
                folder = self.folder / gone.key.topic.decode() / str(gone.key.queue_id)
                begin = gone.first // self.entries_per_file * self.entries_per_file
                self.stored[gone.key] = StoredQueue(str(folder), begin, gone.next, gone.first)
            else:
                stored.end = gone.next

    def keys(self) -> Iterator[QueueKey]:
        """Every queue that is known, once."""
        yield from self.stored
        for key in list(self.tail.queues):
            if key not in self.stored:
                yield key

    def knows(self, key: QueueKey) -> bool:
        """Whether there is such a queue."""
        return key in self.stored or key in self.tail.queues

    def min_offset(self, key: QueueKey) -> int:
        """The first queue offset whose record the log still has; the end's where none is left. 0 for no queue."""
        tail = self.tail.queues.get(key)
        stored = self.stored.get(key)
        if stored is None or (tail is not None and tail.restarted):
            return tail.first if tail else 0
        return stored.min_offset

    def max_offset(self, key: QueueKey) -> int:
        """The next queue offset, 0 for no queue."""
        tail = self.tail.queues.get(key)
        if tail is not None:
            return tail.next
        stored = self.stored.get(key)
        return stored.end if stored else 0

    def tail_of(self, key: QueueKey) -> QueueTail:
        """The tail of a queue, begun where its files end."""
        tail = self.tail.queues.get(key)
        if tail is None:
            stored = self.stored.get(key)
            tail = self.tail.begin(key, stored.end if stored else 0)
        return tail

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """The entries [begin, end) of a queue (uint8, 20 bytes each); fewer where a queue file ends before.

        As in RocketMQ a read does not go over a queue file's end; the tail's entries count as if they were in files.
        Empty where no file holds `begin`.
        """
        end = min(end, (begin // self.entries_per_file + 1) * self.entries_per_file, self.max_offset(key))
        tail = self.tail.queues.get(key)
        stored = self.stored.get(key)
        in_files_to = 0 if stored is None or (tail is not None and tail.restarted) else stored.end
        if begin >= in_files_to:
            if tail is None or begin < tail.first:
                return _NO_ENTRIES
            at = begin - tail.first
            copied = bytes(tail.entries[at * ENTRY_SIZE : (at + max(0, end - begin)) * ENTRY_SIZE])
            return np.frombuffer(copied, dtype=np.uint8)
        assert stored is not None
        from_files = self._from_files(key, stored, begin, min(end, in_files_to))
        if end <= in_files_to or tail is None or len(from_files) < (in_files_to - begin) * ENTRY_SIZE:
            return from_files
        rest = bytes(tail.entries[: (end - tail.first) * ENTRY_SIZE])
        return np.concatenate([from_files, np.frombuffer(rest, dtype=np.uint8)])

    def file_entries(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """The entries of the file in which a queue offset lies, as far as they are in front of the frontier.

        With the queue offset of the first of them; None where no file has the offset.
        """
        stored, tail = self.stored.get(key), self.tail.queues.get(key)
        if stored is None or offset >= stored.end or (tail is not None and tail.restarted):
            return None
        begin = offset // self.entries_per_file * self.entries_per_file
        entries = self._from_files(key, stored, begin, min(begin + self.entries_per_file, stored.end))
        return (begin, entries) if len(entries) else None

    def _from_files(self, key: QueueKey, stored: StoredQueue, begin: int, end: int) -> NDArray[np.uint8]:
        number = begin // self.entries_per_file
        array = self._maps.get((key, number))
        if array is None:
            start = number * self.file_size
            path = Path(stored.folder) / paths.offset_name(start)
            if not path.exists():
                return _NO_ENTRIES
            array = self._maps.open((key, number), str(path), self.file_size)
        at = number * self.entries_per_file
        return array[(begin - at) * ENTRY_SIZE : (end - at) * ENTRY_SIZE]

    def close(self) -> None:
        """Forget the maps."""
        self._maps.clear()
