"""Queues of a store as plans and tasks ask them, of any kind: by queue offset, by time and by log offset.

Only entries of records below the frontier count. If a store has its queues in two kinds (double write), the one that
RocketMQ reads first answers; topics of batches have queues of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, Entry, QueueKey, decode_entry, is_blank
from reput.log.read.maps import LogMaps
from reput.queue.batch_files import BATCHES, BatchFiles, BatchQueueFiles, BatchSpan
from reput.queue.kinds import QueueOnDisk, ReadableQueues
from reput.queue.reader import QueueSpan

_ENTRIES_AT_ONCE = 1 << 16
_WITHOUT_THEM = "Run `reput rebuild --only queue`, or read with scan=log; failOnDataLoss=false passes it over"

Int64s = NDArray[np.int64]


def missing_entry(where: str, offset: int) -> DamagedStoreError:
    """Return the error that a queue has no entry for a queue offset."""
    return DamagedStoreError(f"{where}: does not hold queue offset {offset}. {_WITHOUT_THEM}")


class Entries(NamedTuple):
    """Some entries of a queue: log offsets, sizes, tags codes and queue offsets."""

    position: Int64s
    size: NDArray[np.int32]
    tags_code: Int64s
    queue_offset: Int64s


class DiskQueue(Protocol):
    """One queue, below the frontier: queue offsets [begin, end)."""

    kind: str

    entry_size: int

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
        """The queue offset after its last one."""
        ...

    @property
    def last_offset(self) -> int:
        """The log offset of its last message's record, -1 without one."""
        ...

    def store_time(self, offset: int) -> int:
        """Return the store time (ms) of a queue offset, -1 if there is none."""
        ...

    def boundary_from(self, offset: int) -> int | None:
        """Return the first beginning of a record at or after a log offset that its entries name; None for none."""
        ...

    def places(self, numbers: Int64s) -> Int64s:
        """Return the log offsets that the entries of some queue offsets name; 0 or less if there is no entry."""
        ...

    def entries(self, begin: int, end: int, *, tolerant: bool) -> Iterator[Entries]:
        """Yield the entries of the queue offsets [begin, end), some thousands at once.

        Raises:
            DamagedStoreError: some are gone, and that is not to be tolerated.
        """
        ...

    def damage(self, file_size: int) -> str:
        """Return a text if files show that entries are missing, "" else; plain files should have `file_size` bytes."""
        ...

    def first_place(self) -> int:
        """Return the log offset of the record with its message 0; -1 if that is gone."""
        ...


class _Spanned(ABC):
    """A queue by its span."""

    @property
    @abstractmethod
    def span(self) -> QueueSpan | BatchSpan:
        """Its queue offsets and last entry."""

    @property
    def begin(self) -> int:
        """Its first queue offset."""
        return self.span.min_offset

    @property
    def end(self) -> int:
        """The queue offset after its last one."""
        return self.span.max_offset

    @property
    def last_offset(self) -> int:
        """The log offset of its last entry's record."""
        return self.span.last.physical_offset if self.span.last else -1


@dataclass
class PlainQueue(_Spanned):
    """A queue with an entry for each message."""

    kind: str
    queue: QueueOnDisk
    source: IndexedQueues
    maps: LogMaps
    entry_size: int = ENTRY_SIZE

    @cached_property
    def span(self) -> QueueSpan:
        """Its queue offsets and last entry."""
        return self.queue.span(self.source.begin, self.source.frontier)

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
        """Search by halves: entries are written in the log's order."""
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

    def places(self, numbers: Int64s) -> Int64s:
        """Read the entries in blocks."""
        found = np.zeros(len(numbers), dtype=np.int64)
        for block in np.unique(numbers // _ENTRIES_AT_ONCE).tolist():
            begin, end = block * _ENTRIES_AT_ONCE, min((block + 1) * _ENTRIES_AT_ONCE, self.end)
            if begin < end:
                places = self.queue.packed(begin, end).view(ENTRY.dtype)["physical_offset"].astype(np.int64)
                here = np.flatnonzero((numbers >= begin) & (numbers < end))
                found[here] = places[numbers[here] - begin]
        return found

    def entries(self, begin: int, end: int, *, tolerant: bool) -> Iterator[Entries]:
        """Yield the entries that name records; pre-blanks are left out."""
        for first in range(begin, end, _ENTRIES_AT_ONCE):
            raw = self.queue.packed(first, min(end, first + _ENTRIES_AT_ONCE)).view(ENTRY.dtype)
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
class BatchQueue(_Spanned):
    """A queue with an entry for each batch of messages."""

    files: BatchQueueFiles
    source: IndexedQueues
    kind: str = BATCHES
    entry_size: int = BATCH_ENTRY_SIZE

    @cached_property
    def span(self) -> BatchSpan:
        """Its queue offsets, the numbers of its entries, and its last entry."""
        return self.files.span(self.source.begin, self.source.frontier)

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self.files.key

    def store_time(self, offset: int) -> int:
        """Return the time of the batch that holds the offset, or of the last one before it."""
        number = self._first("base_offset", offset + 1) - 1
        found = self._raw(number, number + 1) if number >= self.span.first else _NONE
        return int(found[0]["store_timestamp"]) if len(found) else -1

    def boundary_from(self, offset: int) -> int | None:
        """Search by halves: entries are written in the log's order."""
        number = self._first("physical_offset", offset)
        found = self._raw(number, number + 1) if number < self.span.end else _NONE
        return int(found[0]["physical_offset"]) if len(found) else None

    def places(self, numbers: Int64s) -> Int64s:
        """Search the batch of each queue offset."""
        found = np.zeros(len(numbers), dtype=np.int64)
        for at, number in enumerate(numbers.tolist()):
            first, _ = self._numbers(number, number + 1)
            entries = self._raw(first, first + 1)
            found[at] = entries[0]["physical_offset"] if len(entries) else 0
        return found

    def entries(self, begin: int, end: int, *, tolerant: bool) -> Iterator[Entries]:
        """Yield the entries of the batches that may hold the queue offsets."""
        low, high = self._numbers(begin, end)
        for first in range(low, high, _ENTRIES_AT_ONCE):
            count = min(high - first, _ENTRIES_AT_ONCE)
            raw = self._raw(first, first + count)
            if len(raw) < count and not tolerant:
                raise DamagedStoreError(
                    f"{self.files.place}: a file with its entries {first + len(raw)} to {first + count} is gone. "
                    f"{_WITHOUT_THEM}"
                )
            yield Entries(
                raw["physical_offset"].astype(np.int64), raw["size"].astype(np.int32),
                raw["tags_code"].astype(np.int64), raw["base_offset"].astype(np.int64),
            )  # fmt: skip

    def damage(self, file_size: int) -> str:  # noqa: ARG002 - as DiskQueue has it
        """Report files of another length, and files that do not join."""
        for found in self.files.oddities().damage:
            return found
        ends = [file.start + file.size for file in self.files.files]
        if any(end != file.start for end, file in zip(ends, self.files.files[1:], strict=False)):
            return f"{self.files.place}: files are missing between others. Run `reput rebuild --only queue`"
        return ""

    def first_place(self) -> int:
        """Read entry 0, which may begin above queue offset 0."""
        found = self._raw(0, 1)
        return int(found[0]["physical_offset"]) if len(found) and int(found[0]["base_offset"]) == 0 else -1

    def _numbers(self, begin: int, end: int) -> tuple[int, int]:
        """Return the numbers of the entries whose batches may hold the queue offsets [begin, end)."""
        return max(self.span.first, self._first("base_offset", begin + 1) - 1), self._first("base_offset", end)

    def _raw(self, begin: int, end: int) -> NDArray[np.void]:
        """Return the entries numbered [begin, end) that files hold (dtype `BATCH_ENTRY`)."""
        pieces: list[NDArray[np.void]] = []
        for first, after in self._files:
            pieces += self.files.read(max(begin, first), min(end, after)) if first < end and after > begin else ()
        return np.concatenate(pieces) if pieces else _NONE

    @property
    def _files(self) -> Iterator[tuple[int, int]]:
        """The numbers of the entries in each file."""
        for file in self.files.files:
            yield file.start // BATCH_ENTRY_SIZE, (file.start + file.size) // BATCH_ENTRY_SIZE

    def _first(self, name: str, value: int) -> int:
        """Return the number of the first entry whose field is `value` or more."""

        def field_of(number: int) -> int:
            found = self._raw(number, number + 1)
            if not len(found):
                # A file is missing: the next one that is there answers.
                after = next((first for first, _ in self._files if first > number), self.span.end)
                found = self._raw(after, after + 1) if after < self.span.end else _NONE
            return int(found[0][name]) if len(found) else value

        return self.span.first + bisect_left(range(self.span.first, self.span.end), value, key=field_of)


_NONE: NDArray[np.void] = np.empty(0, dtype=BATCH_ENTRY.dtype)


@dataclass(frozen=True)
class IndexedQueues:
    """The queues of a store as a value that goes to tasks; `opened` reads them.

    `kind` are its plain queues, `batches` those of batches. The log has records from `begin` on, in files of
    `log_file_size` bytes, and only entries of records below `frontier` count.
    """

    kind: ReadableQueues
    batches: BatchFiles
    commit_log: str
    log_file_size: int
    begin: int
    frontier: int

    @contextmanager
    def opened(self) -> Iterator[DiskQueues]:
        """Open the queues and the log while the block runs."""
        maps = LogMaps(Path(self.commit_log), self.log_file_size)
        try:
            with ExitStack() as stack:
                yield DiskQueues(self, maps, stack)
        finally:
            maps.close()


class QueuesOfKind(Protocol):
    """The queues of one kind, below the frontier."""

    @property
    def name(self) -> str:
        """The kind's name, which its queues have as `kind`."""
        ...

    def of(self, topic: bytes | None) -> Iterator[DiskQueue]:
        """Yield the queues of a topic, or all; each is good until the next one is asked for."""
        ...

    def one(self, key: QueueKey) -> DiskQueue | None:
        """Return one queue, good until the block ends; None if it is not there."""
        ...


@dataclass
class PlainQueues:
    """The queues with an entry for each message: of the kind that answers reads."""

    source: IndexedQueues
    maps: LogMaps
    stack: ExitStack

    @property
    def name(self) -> str:
        """The name of that kind."""
        return self.source.kind.name

    def of(self, topic: bytes | None) -> Iterator[PlainQueue]:
        """See `QueuesOfKind`."""
        for queue in self.source.kind.queues(topic):
            yield PlainQueue(self.name, queue, self.source, self.maps)

    @cached_property
    def _asked(self) -> Callable[[QueueKey], QueueOnDisk | None]:
        return self.stack.enter_context(self.source.kind.asked())

    def one(self, key: QueueKey) -> PlainQueue | None:
        """See `QueuesOfKind`."""
        queue = self._asked(key)
        return None if queue is None else PlainQueue(self.name, queue, self.source, self.maps)


@dataclass
class QueuesOfBatches:
    """The queues with an entry for each batch of messages."""

    source: IndexedQueues
    name: str = BATCHES

    def of(self, topic: bytes | None) -> Iterator[BatchQueue]:
        """See `QueuesOfKind`."""
        for files in self.source.batches.queues(topic):
            yield BatchQueue(files, self.source)

    def one(self, key: QueueKey) -> BatchQueue | None:
        """See `QueuesOfKind`."""
        files = self.source.batches.queue(key)
        return BatchQueue(files, self.source) if files.files else None


@dataclass
class DiskQueues:
    """The open queues of a store: all, those of some topics, or one; and its log's maps."""

    source: IndexedQueues
    maps: LogMaps
    stack: ExitStack

    @cached_property
    def kinds(self) -> list[QueuesOfKind]:
        """The queues by kind. A topic has queues of one of them."""
        return [PlainQueues(self.source, self.maps, self.stack), QueuesOfBatches(self.source)]

    def all(self) -> Iterator[DiskQueue]:
        """Yield every queue; each is good until the next one is asked for."""
        for kind in self.kinds:
            yield from (queue for queue in kind.of(None) if paths.is_topic_folder_name(queue.key.topic))

    def of(self, topics: Iterable[bytes]) -> Iterator[DiskQueue]:
        """Yield the queues of some topics; each is good until the next one is asked for."""
        for topic in topics:
            for kind in self.kinds if paths.is_topic_folder_name(topic) else ():
                yield from kind.of(topic)

    def one(self, key: QueueKey) -> DiskQueue | None:
        """Return one queue, good until the block ends; None if it is not there."""
        kinds = self.kinds if paths.is_topic_folder_name(key.topic) else ()
        return next((queue for kind in kinds if (queue := kind.one(key)) is not None), None)

    def of_kind(self, key: QueueKey, name: str) -> DiskQueue | None:
        """Return the queue of one kind, as a plan found it; None if it is gone."""
        return {kind.name: kind for kind in self.kinds}[name].one(key)
