"""The queues of a store as plans ask them, of whatever kind they are: by queue offset, by time and by log offset.

Only what lies below the frontier counts. Where a store has its queues in two kinds (double write), the one that
RocketMQ reads first answers; topics of batches have queues of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reput.formats import paths
from reput.formats.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.consume_queue import ENTRY_SIZE, Entry, QueueKey, decode_entry
from reput.log.maps import LogMaps
from reput.queue.batch_files import BatchFiles, BatchQueueFiles, BatchSpan
from reput.queue.kinds import QueueKind, QueueOnDisk
from reput.queue.reader import QueueSpan

BATCHES = "batches"
"""What a cut of a queue of batches has for its kind."""


class DiskQueue(Protocol):
    """One queue, below the frontier: queue offsets [begin, end)."""

    kind: str

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        ...

    @property
    def begin(self) -> int:
        """Its first queue offset."""
        ...

    @property
    def end(self) -> int:
        """The queue offset behind its last one."""
        ...

    @property
    def last_offset(self) -> int:
        """The log offset of its last message's record, -1 without one."""
        ...

    def store_time(self, offset: int) -> int:
        """The store time (ms) of a queue offset, -1 where there is none."""
        ...

    def boundary_from(self, offset: int) -> int | None:
        """The first beginning of a record at or behind a log offset that it knows; None for none."""
        ...

    def damage(self, file_size: int) -> str:
        """What shows that entries are missing, where plain queue files have `file_size` bytes; "" for nothing."""
        ...


@dataclass
class PlainQueue:
    """A queue with an entry for each message."""

    kind: str
    queue: QueueOnDisk
    span: QueueSpan
    maps: LogMaps

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self.queue.key

    @property
    def begin(self) -> int:
        """Its first queue offset."""
        return self.span.min_offset

    @property
    def end(self) -> int:
        """The queue offset behind its last one."""
        return self.span.max_offset

    @property
    def last_offset(self) -> int:
        """The log offset of its last message's record."""
        return self.span.last.physical_offset if self.span.last else -1

    def store_time(self, offset: int) -> int:
        """As the entry tells it, else the log."""
        told = self.queue.store_time(offset)
        if told is not None:
            return told
        entry = self._entry(offset)
        return -1 if entry is None or entry.is_pre_blank else self.maps.store_time(entry.physical_offset)

    def boundary_from(self, offset: int) -> int | None:
        """By halves, as entries are written in the log's order."""
        low, high = self.begin, self.end
        while low < high:
            middle = (low + high) // 2
            entry = self._entry(middle)
            if entry is None:
                return None
            if entry.physical_offset >= offset:
                high = middle
            else:
                low = middle + 1
        entry = self._entry(low) if low < self.end else None
        return entry.physical_offset if entry is not None and not entry.is_pre_blank else None

    def damage(self, file_size: int) -> str:
        """Files of another length, and files that do not join; other kinds than files do not show it."""
        for told in self.queue.oddities(file_size).damage:
            return told
        files = self.queue.files
        if files.number and (self.queue.room - self.queue.lowest) * ENTRY_SIZE != files.bytes:
            return f"{self.queue.place}: files are missing between others. Run `reput rebuild --only queue`"
        return ""

    def _entry(self, offset: int) -> Entry | None:
        entry = decode_entry(self.queue.packed(offset, offset + 1).data)
        return entry if entry.is_valid else None


@dataclass
class BatchQueue:
    """A queue with an entry for each batch of messages."""

    files: BatchQueueFiles
    span: BatchSpan
    kind: str = BATCHES

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self.files.key

    @property
    def begin(self) -> int:
        """Its first queue offset."""
        return self.span.min_offset

    @property
    def end(self) -> int:
        """The queue offset behind its last one."""
        return self.span.max_offset

    @property
    def last_offset(self) -> int:
        """The log offset of its last batch's record."""
        return self.span.last.physical_offset if self.span.last else -1

    def store_time(self, offset: int) -> int:
        """That of the batch that holds the offset, or of the last one in front of it."""
        number = self._first("base_offset", offset + 1) - 1
        found = self.entries(number, number + 1) if number >= self.span.first else _NONE
        return int(found[0]["store_timestamp"]) if len(found) else -1

    def boundary_from(self, offset: int) -> int | None:
        """By halves, as entries are written in the log's order."""
        number = self._first("physical_offset", offset)
        found = self.entries(number, number + 1) if number < self.span.end else _NONE
        return int(found[0]["physical_offset"]) if len(found) else None

    def damage(self, file_size: int) -> str:  # noqa: ARG002 - as DiskQueue has it
        """Files of another length, and files that do not join."""
        for told in self.files.damage():
            return told
        ends = [file.start + file.size for file in self.files.files]
        if any(end != file.start for end, file in zip(ends, self.files.files[1:], strict=False)):
            return f"{self.files.place}: files are missing between others. Run `reput rebuild --only queue`"
        return ""

    def numbers(self, begin: int, end: int) -> tuple[int, int]:
        """The numbers of the entries whose batches may hold the queue offsets [begin, end)."""
        return max(self.span.first, self._first("base_offset", begin + 1) - 1), self._first("base_offset", end)

    def entries(self, begin: int, end: int) -> NDArray[np.void]:
        """The entries numbered [begin, end) that files hold (dtype `BATCH_ENTRY`)."""
        pieces: list[NDArray[np.void]] = []
        for first, behind in self._files:
            pieces += self.files.read(max(begin, first), min(end, behind)) if first < end and behind > begin else ()
        return np.concatenate(pieces) if pieces else _NONE

    @property
    def _files(self) -> Iterator[tuple[int, int]]:
        """The numbers of the entries in each file."""
        for file in self.files.files:
            yield file.start // BATCH_ENTRY_SIZE, (file.start + file.size) // BATCH_ENTRY_SIZE

    def _first(self, name: str, value: int) -> int:
        """The number of the first entry whose field is `value` or more."""

        def told(number: int) -> int:
            found = self.entries(number, number + 1)
            if not len(found):
                # A file is missing: what comes behind it tells.
                behind = next((first for first, _ in self._files if first > number), self.span.end)
                found = self.entries(behind, behind + 1) if behind < self.span.end else _NONE
            return int(found[0][name]) if len(found) else value

        return self.span.first + bisect_left(range(self.span.first, self.span.end), value, key=told)


_NONE: NDArray[np.void] = np.empty(0, dtype=BATCH_ENTRY.dtype)


@dataclass
class DiskQueues(AbstractContextManager["DiskQueues"]):
    """The queues of a store: all, those of some topics, or one.

    `kind` are its plain queues, `batches` those of batches; records stand in the log from `begin` on, and only those
    below `frontier` count.
    """

    kind: QueueKind
    batches: BatchFiles
    maps: LogMaps
    begin: int
    frontier: int

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def all(self) -> Iterator[DiskQueue]:
        """Every queue; good until the next one is asked for."""
        for queue in self.kind.queues():
            if paths.is_topic_folder_name(queue.key.topic):
                yield self._plain(queue)
        for files in self.batches.queues():
            if paths.is_topic_folder_name(files.key.topic):
                yield self._batch(files)

    def of(self, topics: Iterable[bytes]) -> Iterator[DiskQueue]:
        """The queues of some topics; good until the next one is asked for."""
        for topic in topics:
            if not paths.is_topic_folder_name(topic):
                continue
            for queue in self.kind.queues(topic):
                yield self._plain(queue)
            for files in self.batches.of_topic(topic):
                yield self._batch(files)

    def firsts(self, topics: Iterable[bytes] | None = None) -> Iterator[tuple[QueueKey, int]]:
        """Every queue, or those of some topics, with the log offset of its message 0; -1 where that is gone."""
        for topic in [None] if topics is None else topics:
            if topic is not None and not paths.is_topic_folder_name(topic):
                continue
            for queue in self.kind.queues() if topic is None else self.kind.queues(topic):
                entry = decode_entry(queue.packed(0, 1).data) if queue.lowest == 0 else None
                is_there = entry is not None and entry.is_valid and not entry.is_pre_blank
                yield queue.key, entry.physical_offset if entry is not None and is_there else -1
            for files in self.batches.queues() if topic is None else self.batches.of_topic(topic):
                found = self._batch(files).entries(0, 1)
                is_there = len(found) > 0 and int(found[0]["base_offset"]) == 0
                yield files.key, int(found[0]["physical_offset"]) if is_there else -1

    def one(self, key: QueueKey) -> DiskQueue | None:
        """One queue, good until this is closed; None where it is not there."""
        if not paths.is_topic_folder_name(key.topic):
            return None
        queue = self._asked(key)
        if queue is not None:
            return self._plain(queue)
        files = self.batches.queue(key)
        return self._batch(files) if files.files else None

    def plain(self, key: QueueKey) -> QueueOnDisk | None:
        """One queue with an entry for each message, without a look at its span."""
        return self._asked(key)

    def batch(self, key: QueueKey) -> BatchQueue:
        """One queue of batches, there or not."""
        return self._batch(self.batches.queue(key))

    @cached_property
    def _open(self) -> ExitStack:
        return ExitStack()

    @cached_property
    def _asked(self) -> Callable[[QueueKey], QueueOnDisk | None]:
        return self._open.enter_context(self.kind.asked())

    def _plain(self, queue: QueueOnDisk) -> PlainQueue:
        return PlainQueue(self.kind.name, queue, queue.span(self.begin, self.frontier), self.maps)

    def _batch(self, files: BatchQueueFiles) -> BatchQueue:
        return BatchQueue(files, files.span(self.begin, self.frontier))
