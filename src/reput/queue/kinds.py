"""The protocols of a kind of ConsumeQueue. The store, the jobs, check and the commands ask nothing else of it.

A store has one kind with an entry for each message, or two that hold the same (double write), and a kind for topics of
batches beside them. `AnyKind` is a kind on disk, without an open store; `QueueKind` adds what a kind with one entry for
each message can do; `ReadableQueues` is all that reads need of it; `DurableQueues` is that in an open store, below the
tail. docs/architecture.md names the lists of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.queue.batch_consume_queue import BatchEntry
from reput.formats.queue.consume_queue import Entry, OffsetRange, QueueKey, QueueRange
from reput.queue.files import FilesOnDisk
from reput.queue.reader import QueueSpan
from reput.queue.tail import Trimmed

FILTER_ENTRIES = 800
"""The entries that a pull with a filter reads, or the number of messages it may return if that is more.

MaxFilterMessageSize.
"""


class StoredRows(NamedTuple):
    """Consecutive entries as they are stored, 20 bytes each (uint8), and the store times of their records (int64, ms).

    The times are None for a kind that does not store them.
    """

    entries: NDArray[np.uint8]
    store_timestamps: NDArray[np.int64] | None


class QueueOddities(NamedTuple):
    """The oddities of a queue's files: notes, damage, files of no bytes, and files that are missing between others.

    A task that is killed while it makes a file leaves one of no bytes. The next catch-up gives it its length. The read
    of an entry reports that its file is missing; a job that plans by the names of files asks before.
    """

    notes: list[str]
    damage: list[str]
    empty: Sequence[str] = ()
    missing: Sequence[str] = ()


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

    @property
    def lowest(self) -> int:
        """The first queue offset for which it may have an entry."""
        ...

    @property
    def files(self) -> FilesOnDisk:
        """The number of its own files, and their bytes."""
        ...

    def place_of(self, offset: int) -> str:
        """Return the place of the entry of a queue offset, for people."""
        ...

    def bounds(self, log_min_offset: int = 0) -> OffsetRange:
        """Return its queue offsets; does not read its last entry if that costs a read."""
        ...

    def bounds_and_last(self, log_min_offset: int = 0) -> tuple[OffsetRange, int]:
        """Return the same, and the log offset of its last entry's record (-1: none)."""
        ...

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[Entry] | QueueSpan[BatchEntry]:
        """Return its span and last entry; entries of records from log offset `below` on do not count."""
        ...

    def entry_count(self) -> int:
        """Return the number of its entries, blank ones included."""
        ...

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Entry | BatchEntry]]:
        """Yield the entries for messages with queue offsets in [begin, end), each with its first queue offset.

        Memory does not grow with their number.

        Raises:
            DamagedStoreError: some are missing.
        """
        ...


class QueueOnDisk(AnyQueue, Protocol):
    """One queue on disk, of a kind with an entry for each message."""

    @property
    def bound(self) -> int:
        """An upper bound of its queue offsets; reads no entry."""
        ...

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[Entry]:
        """Return its span and last entry; entries of records from log offset `below` on do not count."""
        ...

    def end(self, bound: int) -> int | None:
        """Return the queue offset after its last entry; None without any, or above `bound`."""
        ...

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Entry]]:
        """Yield the entries [begin, end), each with its queue offset. Memory does not grow with their number.

        Raises:
            DamagedStoreError: some are missing.
        """
        ...

    def rows(self, begin: int, end: int) -> StoredRows:
        """Return the same as arrays, with pre-blanks in the gaps of a kind that has gaps.

        Raises:
            DamagedStoreError: some are missing, or have another length.
        """
        ...

    def packed(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end) in the ConsumeQueue's own layout, 20 bytes each; zeros for missing ones."""
        ...

    def store_time(self, offset: int) -> int | None:
        """Return the store time (ms) that the entry itself has, as `store_times` does; None if only the log has it."""
        ...


class DurableQueues(Protocol):
    """The durable entries of all queues of an open store, as far as their records are below a frontier.

    Entries have the ConsumeQueue's own layout, 20 bytes each (uint8), one for each queue offset. Not safe for threads:
    its owner holds a lock.
    """

    name: str

    most_blocks: int
    """The maximum number of blocks that a caller may keep."""

    file_entries: int
    """The number of entries in a file of a queue; the maximum (INT64_MAX) if not all queues have files."""

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Forget everything. Each queue is read again on demand, up to the frontier."""
        ...

    def advance(self, frontier_offset: int, grown: Iterable[Trimmed]) -> None:
        """Note that all entries below the frontier are durable now; `grown` left the tail."""
        ...

    def spans(self, topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue, or those of a topic, that has durable entries or a number to keep, with its span."""
        ...

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of these queues, in no order, perhaps several times each. No queue is read."""
        ...

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue; None if there is no such queue."""
        ...

    def pull_entries(self, max_messages: int, has_filter: bool) -> int:
        """Return the maximum number of entries that one pull reads."""
        ...

    def store_times(self, key: QueueKey) -> Callable[[int], int] | None:
        """Return a function from queue offset to store time (ms) for a queue's durable entries.

        None if only the log has times.

        In a gap it returns -1, or -n if it knows that the next n queue offsets have no message.
        """
        ...

    def block_end(self, key: QueueKey, offset: int) -> int:
        """Return the queue offset at which a read of a queue from `offset` on stops at the latest (a file's end)."""
        ...

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end), all in one block and below the queue's end; empty if `begin` is missing."""
        ...

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Return entries around a queue offset that are cheap to keep, with the offset of the first of them.

        They do not change any more. None if keeping them saves nothing.
        """
        ...

    def close(self) -> None:
        """Close files."""
        ...


class QueuesOnDisk(Protocol):
    """Queues in a store's folder, batches included."""

    name: str

    folder: Path
    """The folder of their files."""

    has_batches: bool
    """True if an entry may be for several messages. Such a kind has queues of topics of batches, and no others."""

    def queues(self, topic: bytes | None = None) -> Generator[AnyQueue]:
        """Yield the queues, or those of a topic, by topic and id; also those with names that no topic can have.

        A queue is good until the next one is asked for.
        """
        ...

    def asked(self) -> AbstractContextManager[Callable[[QueueKey], AnyQueue | None]]:
        """Return single queues by their keys, without a look at others; they are good while the context is open."""
        ...

    def compared(self, log_min_offset: int) -> ComparedQueues:
        """Return the entries of all queues, to compare them with those of another kind or store."""
        ...


class ReadableQueues(QueuesOnDisk, Protocol):
    """Queues with an entry for each message, as reads see them: of one kind, or of several as one."""

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of these queues, in no order, perhaps several times each. No queue is read."""
        ...

    def open(self) -> DurableQueues:
        """Return the queues for an open store. Nothing is read before `load`."""
        ...

    def queues(self, topic: bytes | None = None) -> Generator[QueueOnDisk]:
        """Yield the queues; see `QueuesOnDisk.queues`."""
        ...

    def asked(self) -> AbstractContextManager[Callable[[QueueKey], QueueOnDisk | None]]:
        """Return single queues; see `QueuesOnDisk.asked`."""
        ...


class EntryRows(NamedTuple):
    """Entries as rows of bytes (uint8), each with its queue offset and the one after it (int64). Offsets ascend.

    Unlike those of an `EntryRun` they need not be consecutive, and one of a batch takes several queue offsets.
    """

    first: NDArray[np.int64]
    next: NDArray[np.int64]
    rows: NDArray[np.uint8]


class ComparedQueues(Protocol):
    """The entries of all queues of a kind whose records the log still has; each queue is read in order."""

    def spans(self) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue with its span."""
        ...

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue; None if there is no such queue."""
        ...

    def block_end(self, key: QueueKey, begin: int) -> int:
        """Return the queue offset, above `begin`, up to which the entries from there on may be asked for at once."""
        ...

    def rows(self, key: QueueKey, begin: int, end: int) -> EntryRows:
        """Return the entries that begin in [begin, end)."""
        ...

    def decoded(self, row: bytes) -> Entry | BatchEntry | None:
        """Return the entry of a row; None if zeros are no entry, but the lack of one."""
        ...

    def close(self) -> None:
        """Close files."""
        ...


class AnyKind(QueuesOnDisk, Protocol):
    """One kind of queues in a store's folder, batches included."""

    has_ext: bool
    """True if entries may lead to units of ConsumeQueueExt."""

    allows_batches: bool
    """True if a store may have queues of batches beside this kind, as beside files."""

    size_setting: str
    """The setting of StoreConfig for the length of its files; "" if they have no one length."""

    def size_in_use(self, configured: int) -> int:
        """Return the length of files that RocketMQ uses for a configured one."""
        ...

    def found_file_size(self, given: int | None = None) -> int | None:
        """Return the length that its files show; None if they do not show it, or if `given` may be right."""
        ...

    def is_held(self) -> bool:
        """Return True if another process has the queues open to write, and the kind allows one writer only.

        The writer itself must not ask.
        """
        ...

    def refuse_in_fork(self) -> None:
        """Refuse to write if the kind cannot be written in this process.

        Raises:
            ForkedStoreError: a parent process has opened such queues, and they cannot be written in a fork.
        """
        ...

    def is_present(self) -> bool:
        """Return True if the folder has queues of this kind."""
        ...

    def complete_to(self) -> int | None:
        """Return the log offset up to which the kind itself says that it is complete; None if it does not say."""
        ...

    def cut(self, end: int, owner: fs.Owner, whole: int = 0, *, crashed: bool = True, again: bool = False) -> list[str]:
        """Remove the entries of records at or above log offset `end`, durably; return the queues that had some.

        Below log offset `whole` all entries are known to be there. Files of no bytes go if the store has `crashed`: in
        one that was closed they have lost their entries. `again`: an earlier cut may have failed to sync.
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

    def damage_of(self, key: QueueKey, file_size: int) -> Sequence[str]:
        """Return what is wrong with the files of one queue, each of which should have `file_size` bytes."""
        ...

    def shared_bytes(self) -> int:
        """Return the bytes of the files that belong to no single queue."""
        ...


class OpenQueues(Protocol):
    """The queues of an open store, durable entries and tail as one. Not safe for threads: its owner holds a lock."""

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Read from disk where each queue ends below the frontier; those entries leave the tail."""
        ...

    def advance(self, frontier_offset: int) -> None:
        """Note that all entries below a log offset are durable now: they leave the tail."""
        ...

    def spans(self, topic: bytes | None = None) -> Iterator[QueueRange]:
        """Yield every known queue, or those of a topic, once, with its first and next queue offset."""
        ...

    def min_offset(self, key: QueueKey) -> int:
        """Return the first queue offset whose record the log still has."""
        ...

    def max_offset(self, key: QueueKey) -> int:
        """Return the next queue offset, 0 for no queue."""
        ...

    def close(self) -> None:
        """Close files."""
        ...


class TakesBatches(Protocol):
    """The open queues that take the entries of batches as the log is followed."""

    def take(self, key: QueueKey, entries: NDArray[np.void]) -> None:
        """Add a queue's next entries (dtype `BATCH_ENTRY`), in log order, to its tail."""
        ...


class KnownTopics(Protocol):
    """The topics that have queues of a kind, asked for without a list of all."""

    def has(self, topic: bytes) -> bool:
        """Return True if a topic has queues."""
        ...

    def any_with(self, prefix: bytes) -> bool:
        """Return True if a topic that begins with these bytes has queues."""
        ...


class QueueKind(AnyKind, ReadableQueues, Protocol):
    """One kind of queues with an entry for each message, in a store's folder."""

    def emptied(self, key: QueueKey) -> Sequence[str]:
        """Return a sentence on each file of a queue that has no bytes."""
        ...

    def topics_known(self) -> AbstractContextManager[KnownTopics]:
        """Return the topics of these queues, to ask for some of them.

        Raises:
            DamagedStoreError: they cannot be read.
        """
        ...
