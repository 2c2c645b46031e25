"""The vectors that let look-up kernels answer alone: one for each queue, one for the indexes, one for each topic.

They are valid as long as nothing changes. The view clears them when the frontier moves, when it follows the log and
when indexes are replaced. Their first words point to marks, in which a kernel sees changes by other processes. If a
kernel cannot answer, it says so, and the view answers in the general way, which makes the vector for the next time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files.maps import MapTable
from reput.formats.java.hashing import java_string_hash_utf8
from reput.formats.layout import INT64_MAX, NO_LIMIT
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey
from reput.index.kinds import OpenIndex
from reput.kernels.layouts.lookup import (
    FIRST_INDEX_FILE,
    INDEX_LAYOUT,
    KEY_TOPIC_LAYOUT,
    QUEUE_LAYOUT,
    TOPIC_BYTES,
    QueueAt,
    needed_file,
    topic_words,
)
from reput.kernels.layouts.vectors import address_of, vector_of, words_of
from reput.log.read.maps import LogMaps
from reput.queue.queues import Queues
from reput.store.read.message import StoredMessage

MOST_QUEUES = 1 << 14
_MOST_TOPICS = 1 << 16
_MOST_FILES = 1 << 16
_MOST_MAPS = 64
MOST_SEEK_MAPS = 1 << 12
"""The most maps of queue files that searches by time keep, those of all queues together."""
_KEPT_TIMES = 1 << 10
"""Steps of searches by time whose times are kept for a queue. All searches take the same first ones."""
_NO_TIMES: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class Watched(NamedTuple):
    """Addresses of watermarks (int64, 0 for none) that show changes, and the object that keeps them in memory."""

    confirmed_at: int = 0
    frontier_at: int = 0
    generation_at: int = 0
    generation: int = 0
    memory: object = None


class Known(NamedTuple):
    """Log offsets that a view has taken in: followed, and indexed by queues and IndexFiles."""

    log_end: int
    queue_frontier: int
    index_frontier: int


class QueueLookup:
    """A queue and its window: the entries [begin, end) of one of its files, or a block of entries without files.

    `is_last`: a pull may end at `end`, because the file or the queue ends there. `file_end`: the queue offset after the
    entries in files; from there on they are in the tail. `maps` hold the window's records.
    """

    __slots__ = (
        "address", "begin", "end", "entries", "file_end", "files", "is_last", "key", "log", "maps", "max_offset",
        "min_offset", "times", "vector", "watched",
    )  # fmt: skip

    address: int
    begin: int
    end: int
    entries: NDArray[np.uint8]
    file_end: int
    files: MapTable
    is_last: bool
    key: QueueKey
    log: MapTable
    maps: tuple[tuple[int, NDArray[np.uint8]], ...]
    max_offset: int
    min_offset: int
    times: NDArray[np.int64]
    vector: NDArray[np.int64]
    watched: Watched

    def keep_times(self) -> None:
        """Let searches keep the times of their first steps."""
        if not len(self.times):
            self.times = np.zeros(_KEPT_TIMES, dtype=np.int64)
            self.vector[QueueAt.times_at] = address_of(self.times)
            self.vector[QueueAt.time_count] = len(self.times)


class TopicLookup:
    """A topic in which the kernel looks for keys (`KEY_TOPIC_LAYOUT`)."""

    __slots__ = ("address", "index", "vector")

    def __init__(self, name: bytes, index: IndexLookup) -> None:
        self.vector: NDArray[np.int64] = np.zeros(topic_words(len(name)), dtype=np.int64)
        self.vector[:TOPIC_BYTES] = words_of(
            KEY_TOPIC_LAYOUT, index_at=index.address, hash=java_string_hash_utf8(name + b"#"), size=len(name)
        )
        self.vector[TOPIC_BYTES:].view(np.uint8)[: len(name)] = np.frombuffer(name, dtype=np.uint8)
        self.address = address_of(self.vector)
        self.index = index


@dataclass(slots=True)
class IndexLookup:
    """The IndexFiles; all files that count are mapped."""

    address: int
    vector: NDArray[np.int64]
    log: MapTable
    maps: tuple[NDArray[np.uint8], ...]
    watched: Watched
    log_file_size: int

    def message(self, offset: int, size: int) -> StoredMessage:
        """Return the message of a record that a kernel has found."""
        number, position = divmod(offset, self.log_file_size)
        return StoredMessage(self.log.arrays[number].data[position : position + size], offset - position, position)


class Lookups:
    """The vectors that a view has made. With `watched` None nothing shows changes, and no vector is made.

    Args:
        limits: the most messages and bytes of a pull, None for no limit.
        stop_bytes: a pull ends once it has this number of bytes, whatever it asks for.
    """

    def __init__(
        self,
        table: Queues,
        log: LogMaps,
        index: OpenIndex,
        limits: tuple[int | None, int | None],
        stop_bytes: int,
    ) -> None:
        self.queues: dict[tuple[str, int], QueueLookup] = {}
        self.index: IndexLookup | None = None
        # The topics that were asked for; their names are known to be valid.
        self.topics: dict[str, TopicLookup] = {}
        self.watched: Watched | None = None
        # The questions since the last change. A vector costs some 10 us, which is not worth it for a single look-up, or
        # while the store is being written.
        self._asked: set[tuple[str, int] | None] = set()
        self._seek_maps = 0
        self._table = table
        self._log = log
        self._index = index
        self._file_entries = table.durable.file_entries
        self.can_seek = self._file_entries != INT64_MAX
        """True if kernels find the entries of queues by the numbers of files."""
        self._limits = [NO_LIMIT if limit is None else limit for limit in limits] + [stop_bytes]

    def clear(self) -> None:
        """Drop all vectors, because something has changed. The caller holds the view's lock."""
        self.queues.clear()
        self.topics.clear()
        self.index = None
        self._asked.clear()
        self._seek_maps = 0

    def _is_asked_again(self, what: tuple[str, int] | None, questions: int) -> bool:
        if questions > 1 or what in self._asked:
            return self.watched is not None
        if len(self._asked) >= MOST_QUEUES:
            self._asked.clear()
        self._asked.add(what)
        return False

    def add_queue(self, topic: str, key: QueueKey, offset: int, count: int, known: Known, questions: int = 1) -> None:
        """Let the kernels answer the next pulls from `offset` on, if they can. The caller holds the view's lock.

        The window's records are those of the log file that holds the last of `count` messages from there on.
        `questions`: their number, if it is known.
        """
        if not self._is_asked_again((topic, key.queue_id), questions):
            return
        watched, table = self.watched, self._table
        if watched is None:
            return
        old, tail, stored = self.queues.get((topic, key.queue_id)), table.find_tail(key), table.durable.find(key)
        is_within = old is not None and old.begin <= offset < old.end
        found = (old.begin, old.entries) if old is not None and is_within else table.block(key, offset)
        if found is None or stored is None:
            return
        place, entries = found
        made = QueueLookup()
        made.key = key
        made.min_offset, made.max_offset = table.min_offset(key), table.max_offset(key)
        made.begin = max(place, made.min_offset)
        made.end, made.file_end = place + len(entries) // ENTRY_SIZE, stored.max_offset
        ends_here = tail is None and made.end == stored.max_offset
        made.is_last = ends_here or made.end == table.durable.block_end(key, place)
        made.entries = entries[(made.begin - place) * ENTRY_SIZE :]
        if not made.begin <= offset < made.end:
            return
        last = min(offset + count, made.end) - 1 - made.begin
        physical_offset = ENTRY.struct.unpack_from(made.entries.data, last * ENTRY_SIZE)[0]
        start = self._log.file_at(physical_offset) if 0 <= physical_offset < known.log_end else None
        # Not earlier: there may be new files.
        log = self._log.table
        number, rest = (-1, 0) if start is None else divmod(start, self._log.file_size)
        # The map is that of the table: the maps of queues would be as many as the queues.
        if log is None or start is None or rest or not self._put_log(number, log) or number not in log.arrays:
            return
        made.maps = ((start, log.arrays[number]),)
        made.files = old.files if old is not None else self._files_of(made)
        made.times = old.times if old is not None else _NO_TIMES
        made.log, made.watched = log, watched
        most_messages, most_bytes, stop_bytes = self._limits
        made.vector = vector_of(
            QUEUE_LAYOUT,
            **_watch(watched, known, log, self._log.file_size),
            first=made.min_offset,
            end=made.file_end,
            file_entries=self._file_entries,
            files_at=made.files.address,
            window_begin=made.begin,
            window_end=made.end,
            entries_at=address_of(made.entries),
            is_last=made.is_last,
            records_begin=max(start, self._log.min_offset),
            records_end=min(start + self._log.file_size, known.log_end),
            most_messages=most_messages,
            most_bytes=most_bytes,
            stop_bytes=stop_bytes,
            times_at=address_of(made.times),
            time_count=len(made.times),
        )
        made.address = address_of(made.vector)
        if len(self.queues) >= min(MOST_QUEUES, table.durable.most_blocks):
            self.queues.clear()
            self._seek_maps = 0
        self.queues[topic, key.queue_id] = made

    def _files_of(self, queue: QueueLookup) -> MapTable:
        each = self._file_entries
        first = queue.min_offset // each
        # A queue with more files gets no table, and seeks in it are answered in the general way.
        count = min(max(0, queue.file_end - 1) // each - first + 1, _MOST_FILES)
        return MapTable(first, count, _MOST_MAPS)

    def map_for(self, needed: int, key: QueueKey, queue: QueueLookup) -> bool:
        """Map the file that a seek in a queue needs; return False if there are too many, and all vectors are dropped.

        The caller holds the view's lock.
        """
        queue.keep_times()
        number, of_queue = needed_file(needed)
        if not of_queue:
            return self.map_log(needed, queue.log)
        found = self._table.block(key, max(number * self._file_entries, queue.min_offset))
        is_put = self._seek_maps < MOST_SEEK_MAPS and queue.files.put(number, found[1] if found is not None else None)
        self._seek_maps += 1
        if not is_put:
            self.clear()
        return is_put

    def map_log(self, needed: int, log: MapTable) -> bool:
        """Map the file of the log that a kernel needs; see `map_for`."""
        number, _ = needed_file(needed)
        return self._put_log(number, log)

    def _put_log(self, number: int, log: MapTable) -> bool:
        if number in log.arrays:
            return True
        is_put = log.put(number, self._log.kept(number * self._log.file_size))
        if not is_put:
            self._log.drop_table()
            self.clear()
        return is_put

    def add_topic(self, topic: str, name: bytes, known: Known, questions: int = 1) -> None:
        """Let the kernels answer the next questions by key in this topic, if they can. The caller holds the lock.

        `questions`: their number, if it is known.
        """
        if self.index is None:
            self._add_index(known, questions)
        if self.index is not None:
            if len(self.topics) >= _MOST_TOPICS:
                self.topics.clear()
            self.topics[topic] = TopicLookup(name, self.index)

    def _add_index(self, known: Known, questions: int) -> None:
        if not self._is_asked_again(None, questions):
            return
        log, watched, files = self._log.table, self.watched, self._index.mapped(_MOST_MAPS)
        if log is None or watched is None or files is None:
            return
        words = words_of(
            INDEX_LAYOUT,
            **_watch(watched, known, log, self._log.file_size),
            slots=files.sizes.slots,
            items=files.sizes.items,
            below=known.index_frontier,
            count=len(files.maps),
        )
        assert len(words) == FIRST_INDEX_FILE
        vector = np.array([*words, *map(address_of, files.maps)], dtype=np.int64)
        self.index = IndexLookup(address_of(vector), vector, log, files.maps, watched, self._log.file_size)


def _watch(watched: Watched, known: Known, log: MapTable, file_size: int) -> dict[str, int]:
    """Return the words of `WATCH_LAYOUT`."""
    return {
        "confirmed_at": watched.confirmed_at,
        "confirmed": known.log_end,
        "frontier_at": watched.frontier_at,
        "frontier": min(known.queue_frontier, known.index_frontier),
        "generation_at": watched.generation_at,
        "generation": watched.generation,
        "log_at": log.address,
        "log_file_size": file_size,
        "log_end": known.log_end,
    }
