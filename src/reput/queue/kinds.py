"""What every kind of ConsumeQueue can do: the store, the jobs, check and the commands know no more than this.

A store has one kind, or two that hold the same (double write). `QueueKind` is a kind's side that looks at what lies on
disk, without an open store; `DurableQueues` is its side in an open store, below the tail. `store/disk/kinds.py` alone
knows which kinds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.consume_queue import Entry, OffsetRange, QueueKey
from reput.formats.layout import INT64_MAX
from reput.queue.reader import QueueSpan
from reput.queue.tail import Trimmed

FILTER_ENTRIES = 800
"""Entries that a pull with a filter looks at, or as many as it may return if that is more: maxFilterMessageSize."""


class FilesOnDisk(NamedTuple):
    """How many files a queue has of its own, and their bytes."""

    number: int
    bytes: int


class StoredRows(NamedTuple):
    """Consecutive entries as they are stored: 20 bytes each (uint8), and their records' store times (int64, ms).

    None for the times where the kind does not have them.
    """

    entries: NDArray[np.uint8]
    store_timestamps: NDArray[np.int64] | None


class QueueOddities(NamedTuple):
    """What is odd about a queue's files: lines to note, lines that tell damage, and files that nobody gave a length.

    Such a file is what a task leaves that is killed while it makes one; the next catch-up gives it its length.
    """

    notes: list[str]
    damage: list[str]
    empty: Sequence[str] = ()


class QueueBounds(NamedTuple):
    """Queue offsets [min_offset, max_offset), and where the last entry's record starts in the log (-1: none)."""

    min_offset: int
    max_offset: int
    last_physical_offset: int


class LastEntry(Protocol):
    """The last entry of a queue of any kind: where its record is in the log."""

    @property
    def physical_offset(self) -> int:
        """The log offset of the record."""
        ...

    @property
    def size(self) -> int:
        """The length of the record in bytes."""
        ...


class AnySpan(Protocol):
    """The span of a queue of any kind: queue offsets [min_offset, max_offset)."""

    @property
    def min_offset(self) -> int:
        """The first queue offset whose record the log still has."""
        ...

    @property
    def max_offset(self) -> int:
        """The next queue offset."""
        ...

    @property
    def last(self) -> LastEntry | None:
        """The last entry of a message, None if there is none."""
        ...


class AnyQueue(Protocol):
    """One queue on disk, of any kind, queues of batches too: one entry may hold several messages."""

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        ...

    @property
    def place(self) -> str:
        """Its place, for people."""
        ...

    def oddities(self, file_size: int | None = None) -> QueueOddities:
        """Return what is wrong with the names and lengths of its files; `file_size`: a file's, if that is known."""
        ...

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> AnySpan:
        """Return its span and last entry; entries of records from log offset `below` on do not count."""
        ...


class QueueOnDisk(AnyQueue, Protocol):
    """One queue on disk, of a kind with an entry for each message."""

    @property
    def room(self) -> int:
        """A queue offset that it cannot go beyond, told without reading its entries."""
        ...

    @property
    def lowest(self) -> int:
        """The first queue offset that it may have an entry for."""
        ...

    @property
    def files(self) -> FilesOnDisk:
        """Its own files: how many, and their bytes."""
        ...

    def place_of(self, offset: int) -> str:
        """Where the entry of a queue offset lies, for people."""
        ...

    def bounds(self, log_min_offset: int = 0) -> QueueBounds:
        """Its span, without a look at its last entry where that costs one."""
        ...

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan:
        """Its span and last entry; entries of records from log offset `below` on do not count."""
        ...

    def end(self, bound: int) -> int | None:
        """The queue offset behind its last entry; None without any, or past `bound`."""
        ...

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Entry]]:
        """The entries [begin, end), each with its queue offset; memory does not grow with their number.

        Raises:
            DamagedStoreError: some are missing.
        """
        ...

    def rows(self, begin: int, end: int) -> StoredRows:
        """The same as arrays; pre-blanks where a kind that may have gaps has one.

        Raises:
            DamagedStoreError: some are missing, or are of another length.
        """
        ...

    def packed(self, begin: int, end: int) -> NDArray[np.uint8]:
        """The entries [begin, end) at once in the ConsumeQueue's own layout, 20 bytes each; zeros for what is gone."""
        ...

    def store_time(self, offset: int) -> int | None:
        """The store time (ms) that the entry itself tells, as `store_times` does; None where only the log tells it."""
        ...


class DurableQueues(Protocol):
    """The durable entries of all queues of an open store, as far as their records lie below a frontier.

    Entries are given in the ConsumeQueue's own layout, 20 bytes each (uint8), one for each queue offset.
    Not safe for threads by itself: its owner holds a lock.
    """

    name: str

    most_blocks: int
    """How many blocks may be kept at hand."""

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Forget what is known: each queue is looked at anew, up to the frontier, when it is asked for."""
        ...

    def advance(self, frontier_offset: int, grown: Iterable[Trimmed]) -> None:
        """All entries below the frontier are durable now; these left the tail."""
        ...

    def spans(self, topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Every queue with durable entries, or with a number to keep, and where it begins and ends; or a topic's."""
        ...

    def topics(self) -> Iterator[bytes]:
        """The topics of these queues, in no order, each perhaps several times; no queue is looked at."""
        ...

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Where a queue begins and ends; None for one that is not there."""
        ...

    def pull_entries(self, max_messages: int, has_filter: bool) -> int:
        """How many entries one pull looks at, at most."""
        ...

    def store_times(self, key: QueueKey) -> Callable[[int], int] | None:
        """What tells the store time (ms) of a queue's durable entries; None where only the log does.

        In a gap it tells -1, or -n where it knows that the n queue offsets from there on have no message.
        """
        ...

    def block_end(self, offset: int) -> int:
        """The queue offset up to which one read that begins at `offset` goes at most (a queue file's end)."""
        ...

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """The entries [begin, end), all in one block and below the queue's end; empty where `begin` is missing."""
        ...

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Entries around a queue offset that are cheap to keep at hand, with the offset of the first of them.

        They do not change any more. None where nothing is gained by it.
        """
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class AnyKind(Protocol):
    """One kind of queues in a store's folder, batches included."""

    name: str

    def is_present(self) -> bool:
        """Return True if the folder has queues of this kind."""
        ...

    def queues(self, topic: bytes | None = None) -> Generator[AnyQueue]:
        """Yield the queues, or those of a topic, by topic and id; also those with names that no topic can have.

        A queue is good until the next one is asked for.
        """
        ...

    def asked(self) -> AbstractContextManager[Callable[[QueueKey], AnyQueue | None]]:
        """Return single queues by their keys, without a look at others; they are good while the context is open."""
        ...

    def complete_to(self) -> int | None:
        """Return the log offset up to which the kind itself says that it is complete; None if it does not say."""
        ...

    def cut(self, end: int, owner: fs.Owner, whole: int = 0) -> list[str]:
        """Remove the entries of records at or above log offset `end`, durably; return the queues that had some.

        Below log offset `whole` all entries are known to be there.
        """
        ...

    def delete(self, topic: bytes, queue_id: int | None, owner: fs.Owner, aside: Path) -> list[QueueKey]:
        """Remove the queues of a topic, or one of them, each at once; return those that were removed.

        `aside` is a folder on the same file system; files may be moved there first.
        """
        ...

    def delete_expired(self, log_min_offset: int) -> list[str]:
        """Remove what refers only to records below the log's first byte; return what was removed, for people."""
        ...


class QueueKind(AnyKind, Protocol):
    """One kind of queues with an entry for each message, in a store's folder."""

    has_ext: bool
    """Whether entries may lead to units of ConsumeQueueExt."""

    stands_beside_batches: bool
    """Whether topics of batches may have their own queues beside it, as they have in files."""

    def is_held(self) -> bool:
        """Whether another process has the queues open to write, where a kind lets only one; not to be asked by that."""
        ...

    def refuse_in_fork(self) -> None:
        """Refuse to write where the kind cannot in this process.

        Raises:
            ForkedStoreError: a parent process has opened such queues, and they cannot be written in a fork.
        """
        ...

    def owns(self, names: Sequence[str]) -> bool:
        """Whether a file below the consumequeue folder, by the names that lead to it, is one of this kind's."""
        ...

    def topics(self) -> Iterator[bytes]:
        """The topics of these queues, in no order, each perhaps several times; no queue is looked at."""
        ...

    def damage_of(self, key: QueueKey, file_size: int) -> Sequence[str]:
        """What is wrong with the files of one queue, each of which should have `file_size` bytes."""
        ...

    def shared_bytes(self) -> int:
        """Bytes of the files that no queue has for itself."""
        ...

    def open(self) -> DurableQueues:
        """The same for an open store; nothing is read before its `load`."""
        ...

    def queues(self, topic: bytes | None = None) -> Generator[QueueOnDisk]:
        """Yield the queues; see `AnyKind.queues`."""
        ...

    def asked(self) -> AbstractContextManager[Callable[[QueueKey], QueueOnDisk | None]]:
        """Return single queues; see `AnyKind.asked`."""
        ...
