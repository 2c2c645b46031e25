"""One queue of a store as plans and tasks ask it, whatever its entries are: by queue offset, by time and by log offset.

`disk_queues.py` lists the queues of each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.formats.queue.batch_consume_queue import BatchEntry
from reput.formats.queue.consume_queue import Entry, QueueKey
from reput.queue.reader import QueueSpan

ENTRIES_AT_ONCE = 1 << 16
WITHOUT_THEM = "Run `reput rebuild --only queue`, or read with scan=log; failOnDataLoss=false passes it over"

Int64s = NDArray[np.int64]


def missing_entry(where: str, offset: int) -> DamagedStoreError:
    """Return the error that a queue has no entry for a queue offset."""
    return DamagedStoreError(f"{where}: does not hold queue offset {offset}. {WITHOUT_THEM}")


class Entries(NamedTuple):
    """Some entries of a queue: log offsets, sizes, tags codes and queue offsets."""

    position: Int64s
    size: NDArray[np.int32]
    tags_code: Int64s
    queue_offset: Int64s


class DiskQueue(Protocol):
    """One queue, below the frontier: queue offsets [begin, end)."""

    kind: str

    has_batches: bool
    """True if an entry may lead to a batch of messages."""

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
class Spanned(ABC):
    """A queue by its span: queue offsets of records from log offset `log_begin` on, of entries below the `frontier`."""

    log_begin: int
    frontier: int

    @property
    @abstractmethod
    def span(self) -> QueueSpan[Entry] | QueueSpan[BatchEntry]:
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
