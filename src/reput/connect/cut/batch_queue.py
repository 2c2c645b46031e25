"""A queue with an entry for each batch of messages, as plans and tasks ask it. See `DiskQueue`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reput.connect.cut.disk_queue import ENTRIES_AT_ONCE, WITHOUT_THEM, Entries, Int64s, Spanned
from reput.errors import DamagedStoreError
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE, BatchEntry
from reput.formats.queue.consume_queue import QueueKey
from reput.halving import first_where
from reput.queue.batch_kind import BATCHES, BatchKind, BatchQueueFiles
from reput.queue.reader import QueueSpan

_NONE: NDArray[np.void] = np.empty(0, dtype=BATCH_ENTRY.dtype)


@dataclass
class BatchQueue(Spanned):
    """A queue with an entry for each batch of messages."""

    files: BatchQueueFiles
    kind: str = BATCHES
    entry_size: int = BATCH_ENTRY_SIZE
    has_batches: bool = True

    @cached_property
    def span(self) -> QueueSpan[BatchEntry]:
        """Its queue offsets, the numbers of its entries, and its last entry."""
        return self.files.span(self.log_begin, self.frontier)

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self.files.key

    def store_time(self, offset: int) -> int:
        """Return the time of the batch that holds the offset, or of the last one before it."""
        number = self._first("base_offset", offset + 1) - 1
        found = self._raw(number, number + 1) if number >= self.span.entries.start else _NONE
        return int(found[0]["store_timestamp"]) if len(found) else -1

    def boundary_from(self, offset: int) -> int | None:
        """Search by halves: entries are written in the log's order."""
        number = self._first("physical_offset", offset)
        found = self._raw(number, number + 1) if number < self.span.entries.stop else _NONE
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
        for first in range(low, high, ENTRIES_AT_ONCE):
            count = min(high - first, ENTRIES_AT_ONCE)
            raw = self._raw(first, first + count)
            if len(raw) < count and not tolerant:
                raise DamagedStoreError(
                    f"{self.files.place}: a file with its entries {first + len(raw)} to {first + count} is gone. "
                    f"{WITHOUT_THEM}"
                )
            yield Entries(
                raw["physical_offset"].astype(np.int64), raw["size"].astype(np.int32),
                raw["tags_code"].astype(np.int64), raw["base_offset"].astype(np.int64),
            )  # fmt: skip

    def damage(self, file_size: int) -> str:  # noqa: ARG002 - as DiskQueue has it
        """Report files of another length, and files that do not join."""
        for found in self.files.oddities().damage:
            return found
        ends = [file.start + file.size for file in self.files.filled]
        if any(end != file.start for end, file in zip(ends, self.files.filled[1:], strict=False)):
            return f"{self.files.place}: files are missing between others. Run `reput rebuild --only queue`"
        return ""

    def first_place(self) -> int:
        """Read entry 0, which may begin above queue offset 0."""
        found = self._raw(0, 1)
        return int(found[0]["physical_offset"]) if len(found) and int(found[0]["base_offset"]) == 0 else -1

    def _numbers(self, begin: int, end: int) -> tuple[int, int]:
        """Return the numbers of the entries whose batches may hold the queue offsets [begin, end)."""
        return max(self.span.entries.start, self._first("base_offset", begin + 1) - 1), self._first("base_offset", end)

    def _raw(self, begin: int, end: int) -> NDArray[np.void]:
        """Return the entries numbered [begin, end) that files hold (dtype `BATCH_ENTRY`)."""
        pieces: list[NDArray[np.void]] = []
        for first, after in self._files:
            if first < end and after > begin:
                pieces += self.files.pieces(range(max(begin, first), min(end, after)))
        return np.concatenate(pieces) if pieces else _NONE

    @property
    def _files(self) -> Iterator[tuple[int, int]]:
        """The numbers of the entries in each file."""
        for file in self.files.filled:
            yield file.start // BATCH_ENTRY_SIZE, (file.start + file.size) // BATCH_ENTRY_SIZE

    def _first(self, name: str, value: int) -> int:
        """Return the number of the first entry whose field is `value` or more."""

        def is_reached(number: int) -> bool:
            found = self._raw(number, number + 1)
            if not len(found):
                # A file is missing: the next one that is there answers.
                after = next((first for first, _ in self._files if first > number), self.span.entries.stop)
                found = self._raw(after, after + 1) if after < self.span.entries.stop else _NONE
            # If none follows, it counts as reached.
            return not len(found) or int(found[0][name]) >= value

        return first_where(self.span.entries.start, self.span.entries.stop, is_reached)


@dataclass
class QueuesOfBatches:
    """The queues of batches. See `QueuesOfKind`."""

    queues: BatchKind
    log_begin: int
    frontier: int
    name: str = BATCHES

    def of(self, topic: bytes | None) -> Iterator[BatchQueue]:
        """See `QueuesOfKind`."""
        return map(self._found, self.queues.queues(topic))

    def one(self, key: QueueKey) -> BatchQueue | None:
        """See `QueuesOfKind`."""
        files = self.queues.queue(key)
        return self._found(files) if files.filled else None

    def _found(self, files: BatchQueueFiles) -> BatchQueue:
        return BatchQueue(self.log_begin, self.frontier, files)
