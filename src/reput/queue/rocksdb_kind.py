"""ConsumeQueues in RocksDB: all queues of a store in one database, so there may be millions of them.

Nothing is in memory for a queue that nobody asks for. Entries are read by range. A reader that reads a queue in order
gets blocks that were read ahead.

Source: `RocksDBConsumeQueueStore`, `RocksDBConsumeQueueTable`, `RocksDBConsumeQueueOffsetTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import StoreLockedError
from reput.files import database, database_owner, fs, locks
from reput.files import names as folder_names
from reput.files.database import DatabaseReader, Family
from reput.files.database_owner import DatabaseOwner
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.queue import queue_kinds
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import Entry, OffsetRange, QueueKey
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.queue.compare import MessageRows
from reput.queue.files import FilesOnDisk
from reput.queue.kinds import (
    FILTER_ENTRIES,
    QueueOddities,
    QueueOnDisk,
    StoredRows,
)
from reput.queue.reader import QueueSpan
from reput.queue.rocksdb_entries import EntryTable, entries_in, no_bound
from reput.queue.tail import Trimmed

ROCKSDB = queue_kinds.ROCKSDB
FAMILIES = (fmt.ENTRY_FAMILY, fmt.OFFSET_FAMILY)
_READ_AHEAD = 2048
_READ_ENTRIES = 1 << 12
_MOST_REMEMBERED = 1 << 16
_MOST_BLOCKS = 1024
_NO_ENTRIES = np.empty(0, dtype=np.uint8)
_BATCH_QUEUES = 10_000


def open_reader(folder: Path) -> DatabaseReader:
    """Open the database in a consumequeue folder to read, beside its owner.

    Raises:
        DamagedStoreError: it cannot be read, or is no database of RocketMQ's queues.
    """
    return DatabaseReader(folder, FAMILIES)


def remove_topics(database: DatabaseOwner, wanted: Callable[[bytes], bool]) -> None:
    """Remove the queues of these topics: entries and ends, also if a queue has only one of them."""
    batch = database.batch()
    for family, decoded in ((fmt.ENTRY_FAMILY, fmt.decode_entry_key), (fmt.OFFSET_FAMILY, fmt.decode_offset_key)):
        at = b""
        while found := database.families[family].some(at, 1):
            raw = found[0][0]
            place = decoded(raw)
            if place is None:
                at = raw + b"\0"
                continue
            topic = place[0].topic
            bounds = fmt.topic_bounds(topic)
            if raw != fmt.RESTART_KEY and wanted(topic):
                batch.delete_range(family, *bounds)
            at = bounds[1]
    database.write(batch)


class RocksdbQueues:
    """The queues of an open store, read beside the database's owner."""

    name = ROCKSDB
    most_blocks = _MOST_BLOCKS
    file_entries = INT64_MAX

    def __init__(self, folder: Path, log_end: Callable[[], int] = no_bound) -> None:
        self.folder = folder
        self._log_end = log_end
        self._reader: DatabaseReader | None = None
        self._table: EntryTable | None = None
        self._found: dict[QueueKey, OffsetRange | None] = {}
        self._last_read: dict[QueueKey, int] = {}
        self._goes_on = False
        self._frontier = self._log_min = 0

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Open the database again: a rebuild may have replaced it. If that fails, the one of before goes on."""
        reader = open_reader(self.folder) if folder_names.is_database(self.folder) else None
        self.close()
        self._reader = reader
        self._table = None if reader is None else EntryTable(reader.families, self._log_end)
        self._frontier, self._log_min = frontier_offset, log_min_offset

    def advance(self, frontier_offset: int, grown: Iterable[Trimmed]) -> None:
        """Read what the owner has written."""
        if self._reader is None:
            self.load(frontier_offset, self._log_min)
        elif self._reader.refresh(lambda: self._reaches(frontier_offset)):
            self._found, self._last_read = {}, {}
        self._frontier = frontier_offset
        for gone, _ in grown:
            self._found.pop(gone.key, None)

    def _reaches(self, frontier_offset: int) -> bool:
        restart = self._table.restart_offset() if self._table is not None else None
        return restart is None or restart >= frontier_offset

    def spans(self, topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue that RocketMQ can have, or those of a topic, with its span."""
        if self._table is None:
            return
        for key, last, first in self._table.ends(topic):
            if paths.is_topic_folder_name(key.topic) and key.queue_id >= 0:
                yield key, self._table.stored(key, last, first, self._log_min, self._frontier)

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue; remember the answer."""
        if key in self._found:
            return self._found[key]
        if self._table is None:
            return None
        last = self._table.offset(key, fmt.MAX)
        stored = None
        if last is not None:
            first = self._table.offset(key, fmt.MIN)
            stored = self._table.stored(key, last, first, self._log_min, self._frontier)
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        self._found[key] = stored
        return stored

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of all queues."""
        return (key.topic for key, _, _ in (self._table.ends() if self._table is not None else ()))

    def pull_entries(self, max_messages: int, has_filter: bool) -> int:
        """Return the same as for files with a filter.

        Without one only as many as are returned, since each is a read here.
        """
        return max(FILTER_ENTRIES if has_filter else 1, max_messages)

    def block_end(self, key: QueueKey, offset: int) -> int:  # noqa: ARG002 - as DurableQueues has it
        """Return the maximum: only the queue ends a read."""
        return INT64_MAX

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end)."""
        if self._table is None:
            return _NO_ENTRIES
        if len(self._last_read) >= _MOST_REMEMBERED:
            self._last_read.clear()
        self._goes_on = self._last_read.get(key) == begin
        self._last_read[key] = end
        return self._read(key, begin, end)

    def _read(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        assert self._table is not None
        return self._table.packed(key, begin, end)

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Return entries read ahead, for a reader that continues where its last read of this queue ended."""
        stored = self.find(key)
        if stored is None or offset >= stored.max_offset or not self._goes_on:
            return None
        self._goes_on = False
        end = min(offset + _READ_AHEAD, stored.max_offset)
        self._last_read[key] = end
        return offset, self._read(key, offset, end)

    def store_times(self, key: QueueKey) -> Callable[[int], int] | None:
        """Return the times: values have the store time, so the log is not read."""
        table = self._table
        return None if table is None else partial(table.store_time, key)

    def close(self) -> None:
        """Close the database."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._table = None
        self._found, self._last_read = {}, {}


class RocksdbQueue:
    """One queue in the database; good while the listing that gave it is open."""

    __slots__ = ("_first", "_key", "_last", "_place", "_table")

    def __init__(
        self, place: str, table: EntryTable, key: QueueKey, last: OffsetValue, first: OffsetValue | None
    ) -> None:
        self._place, self._table, self._key, self._last, self._first = place, table, key, last, first

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return self._key

    @property
    def place(self) -> str:
        """The database's folder: a queue has no place of its own."""
        return self._place

    @property
    def bound(self) -> int:
        """The queue offset after the last entry."""
        return self._last.queue_offset + 1

    @property
    def lowest(self) -> int:
        """The first queue offset that has an entry."""
        first = self._table.first_key(self._key)
        return self.bound if first is None else min(first, self.bound)

    @property
    def files(self) -> FilesOnDisk:
        """No files: all belong to the database."""
        return FilesOnDisk(0, 0)

    def place_of(self, offset: int) -> str:
        """Return the database and the key."""
        return f"{self._place}, {self._key} queue offset {offset}"

    def oddities(self, file_size: int | None = None) -> QueueOddities:  # noqa: ARG002 - as QueueOnDisk has it
        """Return none: oddities show only in the entries."""
        return QueueOddities([], [])

    def bounds(self, log_min_offset: int = 0) -> OffsetRange:
        """Return its queue offsets by `max` and `min`."""
        return self.bounds_and_last(log_min_offset)[0]

    def bounds_and_last(self, log_min_offset: int = 0) -> tuple[OffsetRange, int]:
        """Return the same, and the log offset of the record that `max` names."""
        stored = self._table.stored(self._key, self._last, self._first, log_min_offset, INT64_MAX)
        is_empty = stored.min_offset >= stored.max_offset
        return stored, -1 if is_empty else self._last.physical_offset

    def entry_count(self) -> int:
        """Return the number of its entries, blank ones included."""
        return self.bounds().max_offset - self.lowest

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[Entry]:
        """Return its span and last entry."""
        stored = self._table.stored(self._key, self._last, self._first, log_min_offset, below)
        found = self._table.last_message(self._key, stored.min_offset, stored.max_offset)
        return QueueSpan(*stored, found[1] if found is not None else None, range(*stored))

    def end(self, bound: int) -> int | None:
        """Return the queue offset after its last entry; None above `bound`."""
        return self.bound if 0 <= self.bound <= bound else None

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Entry]]:
        """Yield the entries [begin, end) that exist, each with its queue offset."""
        bounds = fmt.entry_key(self._key, begin), fmt.entry_key(self._key, end)
        for raw, value in self._table.entries.walk(*bounds):
            place = fmt.decode_entry_key(raw)
            if place is not None and len(value) == fmt.VALUE_SIZE:
                yield place[1], fmt.decode_value(value)[0]

    def rows(self, begin: int, end: int) -> StoredRows:
        """Return the entries [begin, end) with their times, with pre-blanks for missing ones."""
        values = self._table.values(self._key, begin, end)
        times = values.reshape(-1).view(fmt.VALUE.dtype)["store_timestamp"].astype(np.int64)
        return StoredRows(entries_in(values), times)

    def packed(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end), with pre-blanks for missing ones, as files have them in a gap."""
        return self._table.packed(self._key, begin, end)

    def store_time(self, offset: int) -> int | None:
        """Return the store time of the value; -n in a gap of n."""
        return self._table.store_time(self._key, offset)


class DatabaseTopics(NamedTuple):
    """The topics that have queues in an open database. See `KnownTopics`."""

    ends: Family

    def has(self, topic: bytes) -> bool:
        """Return True if a topic has queues."""
        return self._begins(fmt.topic_bounds(topic)[0])

    def any_with(self, prefix: bytes) -> bool:
        """Return True if a topic that begins with these bytes has queues; a look-up for each length of a name."""
        lengths = range(len(prefix), paths.MAX_TOPIC_BYTES + 1)
        return any(self._begins(fmt.topic_begin(prefix, length)) for length in lengths)

    def _begins(self, begin: bytes) -> bool:
        found = self.ends.some(begin, 1)
        return bool(found) and found[0][0].startswith(begin)


class RocksdbKind:
    """The database in a consumequeue folder.

    Args:
        folder: the consumequeue folder.
        logs: a folder for RocksDB's text logs when something is changed.
        log_end: returns the end of the CommitLog, so that no queue counts as longer than that allows.
    """

    name = ROCKSDB
    has_ext = False
    has_batches = False
    # `RocksDBConsumeQueueStore.dispatch` writes one entry for each record, at its first number, whatever the record
    # holds. The numbers inside a batch have no entry, and `RocksDBConsumeQueue` reads each entry as one message.
    allows_batches = False
    size_setting = ""

    def __init__(self, folder: Path, logs: Path, log_end: Callable[[], int] = no_bound) -> None:
        self.folder = folder
        self.logs = logs
        self._log_end = log_end

    def size_in_use(self, configured: int) -> int:
        """Return what is given: no setting has it."""
        return configured

    def found_file_size(self, given: int | None = None) -> int | None:  # noqa: ARG002 - as AnyKind has it
        """Return None: RocksDB's files have any length."""
        return None

    def is_present(self) -> bool:
        """Return True if the folder is a database."""
        return folder_names.is_database(self.folder)

    def is_held(self) -> bool:
        """Return True if another process has the database open to write.

        A broker has it before it takes its own lock.
        """
        return locks.is_database_held(self.folder)

    def refuse_in_fork(self) -> None:
        """Refuse to write in a fork: a database's threads do not survive there.

        Raises:
            ForkedStoreError: a parent process has opened the database.
        """
        database.refuse_in_fork(self.folder)

    def queues(self, topic: bytes | None = None) -> Generator[QueueOnDisk]:
        """Yield the queues, or those of a topic, in the order of their keys."""
        if not self.is_present():
            return
        with open_reader(self.folder) as reader:
            table = EntryTable(reader.families, self._log_end)
            for key, last, first in table.ends(topic):
                yield RocksdbQueue(str(self.folder), table, key, last, first)

    @contextmanager
    def topics_known(self) -> Iterator[DatabaseTopics]:
        """Return the topics of a present database, to ask for some of them.

        Raises:
            DamagedStoreError: the database cannot be read.
        """
        with open_reader(self.folder) as reader:
            yield DatabaseTopics(reader.families[fmt.OFFSET_FAMILY])

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of all queues."""
        if not self.is_present():
            return
        with open_reader(self.folder) as reader:
            yield from (key.topic for key, _, _ in EntryTable(reader.families, self._log_end).ends())

    @contextmanager
    def asked(self) -> Iterator[Callable[[QueueKey], RocksdbQueue | None]]:
        """Return single queues, from one reader of the database."""
        if not self.is_present():
            yield lambda _: None
            return
        with open_reader(self.folder) as reader:
            table = EntryTable(reader.families, self._log_end)

            def queue(key: QueueKey) -> RocksdbQueue | None:
                last = table.offset(key, fmt.MAX)
                return RocksdbQueue(str(self.folder), table, key, last, table.offset(key, fmt.MIN)) if last else None

            yield queue

    def damage_of(self, key: QueueKey, file_size: int) -> Sequence[str]:  # noqa: ARG002 - as QueueKind has it
        """Return nothing: a queue has no files of its own."""
        return ()

    def emptied(self, key: QueueKey) -> Sequence[str]:  # noqa: ARG002 - as QueueKind has it
        """Return nothing: a queue has no files of its own."""
        return ()

    def shared_bytes(self) -> int:
        """Return the bytes of the database's files."""
        entries = fs.list_dir(self.folder) if self.is_present() else []
        return sum(entry.size for entry in entries if entry.is_file)

    def complete_to(self) -> int | None:
        """Return the restart point, 0 if there is none."""
        if not self.is_present():
            return 0
        with open_reader(self.folder) as reader:
            return EntryTable(reader.families).restart_offset() or 0

    def open(self) -> RocksdbQueues:
        """Return the queues for an open store."""
        return RocksdbQueues(self.folder, self._log_end)

    def compared(self, log_min_offset: int) -> MessageRows:
        """Return the entries of all queues, to compare them."""
        return MessageRows(self.open(), log_min_offset)

    def open_to_write(self, owner: fs.Owner) -> DatabaseOwner:
        """Open the database for its one owner; make it if there is none.

        Raises:
            StoreLockedError: another process has it.
        """
        return DatabaseOwner(self.folder, FAMILIES, self.logs, owner)

    def copy_to(self, folder: Path, owner: fs.Owner) -> None:
        """Make a copy of the database, which nobody has open."""
        database_owner.copy_database(self.folder, folder, owner)

    def cut(self, end: int, owner: fs.Owner, whole: int = 0, *, crashed: bool = True, again: bool = False) -> list[str]:  # noqa: ARG002 - as QueueKind has it
        """Remove the entries of records at or above log offset `end`, and lower the restart point.

        Source: `RocksDBConsumeQueueStore.truncateDirty`; RocketMQ leaves such entries to be overwritten.
        """
        if not self.is_present() or not self._reaches_past(end):
            return []
        cut = []
        with self.open_to_write(owner) as written:
            table = EntryTable(written.families, self._log_end)
            restart = table.restart_offset()
            batch = written.batch()
            for key, last, first in table.ends():
                if last.physical_offset < end:
                    continue
                stored = table.stored(key, last, first, 0, end)
                batch.delete_range(fmt.ENTRY_FAMILY, fmt.entry_key(key, stored.max_offset), fmt.queue_bounds(key)[1])
                found = table.entry(key, stored.max_offset - 1)
                if found is None and stored.max_offset == 0:
                    batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX))
                    batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MIN))
                else:
                    place = found[0].physical_offset if found else 0
                    value = fmt.encode_offset_value(OffsetValue(place, stored.max_offset - 1))
                    batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX), value)
                cut.append(str(key))
            if restart is not None and restart > end:
                batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(end))
            written.write(batch)
            written.sync()
        return cut

    def _reaches_past(self, end: int) -> bool:
        """Return True if the restart point or a queue's last entry is above log offset `end`.

        Reading needs no owner.
        """
        with open_reader(self.folder) as reader:
            table = EntryTable(reader.families)
            return (table.restart_offset() or 0) > end or any(
                last.physical_offset >= end for _, last, _ in table.ends()
            )

    def delete_expired(self, log_min_offset: int) -> list[str]:
        """Remove the entries of records below the log's first byte; queues keep their numbers.

        Source: RocketMQ does it by compaction with a filter, `ConsumeQueueCompactionFilterFactory`.
        """
        if not self.is_present():
            return []
        try:
            owner = self.open_to_write(fs.owner_of(self.folder))
        except StoreLockedError:
            # A follower in another process has it. Readers skip expired entries until the next time.
            return []
        with owner as written:
            table = EntryTable(written.families, self._log_end)
            batch, queues = written.batch(), 0
            for key, last, first in table.ends():
                if first is not None and first.physical_offset >= log_min_offset:
                    continue
                stored = table.stored(key, last, first, log_min_offset, INT64_MAX)
                if first is not None and stored.min_offset == first.queue_offset:
                    continue
                found = table.entry(key, stored.min_offset)
                place = found[0].physical_offset if found else log_min_offset
                batch.delete_range(fmt.ENTRY_FAMILY, fmt.queue_bounds(key)[0], fmt.entry_key(key, stored.min_offset))
                value = fmt.encode_offset_value(OffsetValue(place, stored.min_offset))
                batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MIN), value)
                queues += 1
                if queues % _BATCH_QUEUES == 0:
                    written.write(batch)
                    batch = written.batch()
            written.write(batch)
            if queues:
                written.compact(fmt.ENTRY_FAMILY)
        return [f"{self.folder}: expired entries of {queues} queues"] if queues else []

    def delete(self, topic: bytes, queue_id: int | None, owner: fs.Owner, aside: Path) -> list[QueueKey]:  # noqa: ARG002 - as QueueKind has it
        """Remove their entries by range, and their ends, also if a queue has only one of them.

        Source: `RocksDBConsumeQueueStore.destroy`, `RocksDBConsumeQueueTable.destroyCQ`.
        """
        if not self.is_present():
            return []
        with self.open_to_write(owner) as written:
            found = EntryTable(written.families).queues_of(topic)
            keys = [key for key in found if queue_id is None or key.queue_id == queue_id]
            batch = written.batch()
            for key in keys:
                batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
                for kind in (fmt.MAX, fmt.MIN):
                    batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(key, kind))
            written.write(batch)
            written.sync()
        return keys
