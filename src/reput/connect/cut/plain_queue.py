"""A queue with an entry for each message, as plans and tasks ask it. See `DiskQueue`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reput.connect.cut.disk_queue import ENTRIES_AT_ONCE, Entries, Int64s, Spanned, missing_entry
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, Entry, QueueKey, decode_entry, is_blank
from reput.halving import first_where_found
from reput.log.read.maps import LogMaps
from reput.queue.kinds import QueueOnDisk, ReadableQueues
from reput.queue.reader import QueueSpan


@dataclass
class PlainQueue(Spanned):
    """A queue with an entry for each message."""

    kind: str
    queue: QueueOnDisk
    maps: LogMaps
    entry_size: int = ENTRY_SIZE
    has_batches: bool = False

    @cached_property
    def span(self) -> QueueSpan[Entry]:
        """Its queue offsets and last entry."""
        return self.queue.span(self.log_begin, self.frontier)

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self.queue.key

    def store_time(self, offset: int) -> int:
        """Return the time that the entry has, or else the record's."""
        stored = self.queue.store_time(offset)
        if stored is not None:
            return stored
        entry = self._entry(offset)
        return -1 if entry is None or entry.is_pre_blank else self.maps.store_time(entry.physical_offset)

    def boundary_from(self, offset: int) -> int | None:
        """Search by halves: entries are written in the log's order. In a gap the next entry decides."""
        first = first_where_found(self.begin, self.end, self._next_record, lambda place: place >= offset)
        found = self._next_record(first, self.end)
        return None if found is None else found[1]

    def _next_record(self, begin: int, end: int) -> tuple[int, int] | None:
        """Return the first of the queue offsets [begin, end) that names a record, and the record's log offset."""
        if begin >= end:
            return None
        entry = self._entry(begin)
        if entry is not None and not entry.is_pre_blank:
            return begin, entry.physical_offset
        for found in self.entries(begin + 1, end, tolerant=True):
            if len(found.position):
                return int(found.queue_offset[0]), int(found.position[0])
        return None

    def places(self, numbers: Int64s) -> Int64s:
        """Read the entries in blocks."""
        found = np.zeros(len(numbers), dtype=np.int64)
        for block in np.unique(numbers // ENTRIES_AT_ONCE).tolist():
            begin, end = block * ENTRIES_AT_ONCE, min((block + 1) * ENTRIES_AT_ONCE, self.end)
            if begin < end:
                places = self.queue.packed(begin, end).view(ENTRY.dtype)["physical_offset"].astype(np.int64)
                here = np.flatnonzero((numbers >= begin) & (numbers < end))
                found[here] = places[numbers[here] - begin]
        return found

    def entries(self, begin: int, end: int, *, tolerant: bool) -> Iterator[Entries]:
        """Yield the entries that name records; pre-blanks are left out."""
        for first in range(begin, end, ENTRIES_AT_ONCE):
            raw = self.queue.packed(first, min(end, first + ENTRIES_AT_ONCE)).view(ENTRY.dtype)
            gone = raw["size"] <= 0
            if gone.any() and not tolerant:
                offset = first + int(np.flatnonzero(gone)[0])
                raise missing_entry(self.queue.place_of(offset), offset)
            position, size = raw["physical_offset"].astype(np.int64), raw["size"].astype(np.int32)
            there = np.flatnonzero(~gone & ~is_blank(position, size))
            yield Entries(
                position[there], size[there], raw["tags_code"].astype(np.int64)[there], first + there.astype(np.int64)
            )

    def damage(self, file_size: int) -> str:
        """Report files of another length, and files that do not join; only queues in files can show it."""
        for found in self.queue.oddities(file_size).damage:
            return found
        files = self.queue.files
        if files.number and (self.queue.bound - self.queue.lowest) * ENTRY_SIZE != files.bytes:
            return f"{self.queue.place}: files are missing between others. Run `reput rebuild --only queue`"
        return ""

    def first_place(self) -> int:
        """Read the entry of queue offset 0, wherever the queue begins for readers."""
        entry = self._entry(0) if self.queue.lowest == 0 else None
        return entry.physical_offset if entry is not None and not entry.is_pre_blank else -1

    def _entry(self, offset: int) -> Entry | None:
        entry = decode_entry(self.queue.packed(offset, offset + 1).data)
        return entry if entry.is_valid else None


@dataclass
class PlainQueues:
    """The queues of a kind with an entry for each message. See `QueuesOfKind`."""

    queues: ReadableQueues
    log_begin: int
    frontier: int
    maps: LogMaps
    stack: ExitStack

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.queues.name

    def of(self, topic: bytes | None) -> Iterator[PlainQueue]:
        """See `QueuesOfKind`."""
        return map(self._found, self.queues.queues(topic))

    @cached_property
    def _asked(self) -> Callable[[QueueKey], QueueOnDisk | None]:
        return self.stack.enter_context(self.queues.asked())

    def one(self, key: QueueKey) -> PlainQueue | None:
        """See `QueuesOfKind`."""
        queue = self._asked(key)
        return None if queue is None else self._found(queue)

    def _found(self, queue: QueueOnDisk) -> PlainQueue:
        return PlainQueue(self.log_begin, self.frontier, self.name, queue, self.maps)
