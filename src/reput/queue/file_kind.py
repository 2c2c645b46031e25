"""ConsumeQueues in files, RocketMQ's default: a folder for each topic, and in it one for each queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files import names as folder_names
from reput.files.maps import MapCache
from reput.files.remedies import not_a_file
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.queue import queue_kinds
from reput.formats.queue.consume_queue import (
    ENTRY,
    ENTRY_SIZE,
    Entry,
    OffsetRange,
    QueueKey,
    decode_entry,
    file_size_in_use,
)
from reput.queue.compare import MessageRows
from reput.queue.cut import mend_empty, zero_past
from reput.queue.files import (
    QUEUES_COMPARED,
    QueueFile,
    found_file_size,
    list_queues,
    list_topic_queues,
    max_offset,
    may_have_size,
    move_queues_aside,
    queue_folder,
    queue_keys,
    remove_first_files,
    topic_names,
)
from reput.queue.kinds import (
    FILTER_ENTRIES,
    QueueOddities,
    QueueOnDisk,
    StoredRows,
)
from reput.queue.reader import QueueInFiles, QueueSpan, queue_span, read_entries, read_rows
from reput.queue.tail import Trimmed

FILE = queue_kinds.FILE
_MOST_MAPS = 8192
_FEW_ENTRIES = 64
"""Without a filter a pull reads no more entries than it returns, except for a few gaps."""
_MOST_BLOCKS = 1 << 16
_NO_ENTRIES = np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class FileQueue(QueueInFiles[Entry]):
    """One queue in files."""

    @property
    def bound(self) -> int:
        """The queue offset after the last entry that its files have room for."""
        return self.folder.bound

    @property
    def lowest(self) -> int:
        """The first queue offset of its first file."""
        return self.folder.files[0].start // ENTRY_SIZE if self.folder.files else 0

    def place_of(self, offset: int) -> str:
        """Return the file, and the byte in it."""
        at = offset * ENTRY_SIZE
        for file in self.folder.files:
            if file.start <= at < file.start + file.size:
                return f"{file.path} at {at - file.start}"
        return f"{self.folder.path} at byte {at} of the queue"

    def oddities(self, file_size: int | None = None) -> QueueOddities:
        """Return its files with a wrong length or place."""
        notes, empty, files = [], [], self.folder.files
        damage = [not_a_file(path) for path in self.folder.not_files]
        expected = file_size or self._likely_size()
        for number, file in enumerate(files):
            if file.size == 0 and number == len(files) - 1:
                notes.append(f"{file.path}: empty last file, which RocketMQ removes when it loads the queue")
            elif file.size == 0:
                empty.append(f"{file.path}: an empty file among others. Run `reput rebuild --only queue`")
            elif file.size % ENTRY_SIZE or file.start % ENTRY_SIZE or file.size != expected:
                wanted = f"{expected}, in" if expected != file.size else "whole"
                damage.append(
                    f"{file.path}: {file.size} bytes from byte {file.start} of the queue, where a queue file has "
                    f"{wanted} entries of {ENTRY_SIZE} bytes: it was cut, or is another store's. "
                    "Run `reput rebuild --only queue`"
                )
        missing = [
            f"{after.path}: no file holds the queue's bytes from {before.start + before.size} to {after.start}"
            for before, after in pairwise(files)
            if before.start + before.size < after.start
        ]
        return QueueOddities(notes, damage, empty, missing)

    def _likely_size(self) -> int:
        """Return the length that most of its files and their names show: of one file its own."""
        likely = found_file_size([self.folder])
        return likely.size if likely.is_of_files else next((file.size for file in self.folder.files), 0)

    def entry_count(self) -> int:
        """Return the number of its entries, blank ones included."""
        return self.bounds().max_offset - self.lowest

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[Entry]:
        """See `queue_span`."""
        return queue_span(self.folder, log_min_offset, below)

    def end(self, bound: int) -> int | None:
        """See `max_offset`."""
        return max_offset(self.folder, bound)

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Entry]]:
        """See `read_entries`."""
        return read_entries(self.folder, begin, end)

    def rows(self, begin: int, end: int) -> StoredRows:
        """See `read_rows`; entries have no time."""
        return StoredRows(read_rows(self.folder, begin, end), None)

    def packed(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end), with zeros where no file holds them."""
        found = np.zeros((end - begin) * ENTRY_SIZE, dtype=np.uint8)
        at = begin * ENTRY_SIZE
        for file in self.folder.files:
            low, high = max(at, file.start), min(end * ENTRY_SIZE, file.start + file.size)
            if low < high:
                data = fs.read_bytes(file.path, high - low, low - file.start) or b""
                found[low - at : low - at + len(data)] = np.frombuffer(data, dtype=np.uint8)
        return found

    def store_time(self, offset: int) -> int | None:  # noqa: ARG002 - as QueueOnDisk has it
        """Return None: entries have no time, the log has it."""
        return None


class FolderTopics(NamedTuple):
    """The topics that have a folder of queue files. See `KnownTopics`."""

    folder: Path

    def has(self, topic: bytes) -> bool:
        """Return True if a topic has a folder."""
        return paths.is_topic_folder_name(topic) and folder_names.is_own_dir(self.folder / os.fsdecode(topic))

    def any_with(self, prefix: bytes) -> bool:
        """Return True if a topic that begins with these bytes has a folder."""
        return any(name.startswith(prefix) for name in topic_names(self.folder))


class FileKind:
    """The queue files below a consumequeue folder; `file_size` bytes each."""

    name = FILE
    has_ext = True
    has_batches = False
    allows_batches = True
    size_setting = "mapped_file_size_consume_queue"

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size

    def size_in_use(self, configured: int) -> int:
        """Return a configured length, rounded up to whole entries."""
        return file_size_in_use(configured)

    def found_file_size(self, given: int | None = None) -> int | None:
        """Return the length that most files show; None if none shows it, or if `given` may be right."""
        queues = list(islice(list_queues(self.folder), QUEUES_COMPARED))
        if given is not None and may_have_size(queues, self.size_in_use(given)):
            return None
        likely = found_file_size(queues)
        return likely.size if likely.is_of_files else None

    def is_present(self) -> bool:
        """Return True if there is a folder of a queue."""
        return next(queue_keys(self.folder), None) is not None

    def is_held(self) -> bool:
        """Return False: files have no lock of their own."""
        return False

    def refuse_in_fork(self) -> None:
        """Return: files can be written in any process."""

    def queues(self, topic: bytes | None = None) -> Generator[QueueOnDisk]:
        """Yield the queues, or those of a topic, by topic and id."""
        if topic is not None and not paths.is_topic_folder_name(topic):
            return
        folders = list_queues(self.folder) if topic is None else list_topic_queues(self.folder / os.fsdecode(topic))
        yield from map(FileQueue, folders)

    def topics(self) -> Iterator[bytes]:
        """Yield the names of the folders that a topic can have."""
        return topic_names(self.folder)

    @contextmanager
    def topics_known(self) -> Iterator[FolderTopics]:
        """Return the topics with folders."""
        yield FolderTopics(self.folder)

    @contextmanager
    def asked(self) -> Iterator[Callable[[QueueKey], FileQueue | None]]:
        """Return single queues that have files."""
        yield self._queue

    def _queue(self, key: QueueKey) -> FileQueue | None:
        if not paths.is_topic_folder_name(key.topic):
            return None
        found = queue_folder(self.folder, key)
        return FileQueue(found) if found.files else None

    def damage_of(self, key: QueueKey, file_size: int) -> Sequence[str]:
        """Return what is wrong with the lengths and places of its files."""
        return FileQueue(queue_folder(self.folder, key)).oddities(file_size).damage

    def emptied(self, key: QueueKey) -> Sequence[str]:
        """See `QueueFolder.emptied`."""
        return queue_folder(self.folder, key).emptied

    def shared_bytes(self) -> int:
        """Return 0: every file belongs to a queue."""
        return 0

    def complete_to(self) -> int | None:
        """Return None: files do not say it."""
        return None

    def open(self) -> FileQueues:
        """Return the queues for an open store."""
        return FileQueues(self.folder, self.file_size)

    def compared(self, log_min_offset: int) -> MessageRows:
        """Return the entries of all queues, to compare them."""
        return MessageRows(self.open(), log_min_offset)

    def cut(self, end: int, owner: fs.Owner, whole: int = 0, *, crashed: bool = True, again: bool = False) -> list[str]:
        """Zero the entries of records at or above log offset `end`.

        Source: `ConsumeQueue.truncateDirtyLogicFiles`.
        """
        cut = []
        for queue in list_queues(self.folder):
            if zero_past(queue.files, ENTRY, queue_span(queue, below=whole).max_offset, whole, end, owner, again=again):
                cut.append(f"{queue.topic}/{queue.queue_id}")
            if crashed:
                mend_empty(queue.files, owner, self.file_size)
        return cut

    def delete(self, topic: bytes, queue_id: int | None, owner: fs.Owner, aside: Path) -> list[QueueKey]:  # noqa: ARG002 - as QueueKind has it
        """Move their folders aside.

        Source: `ConsumeQueueStore.deleteTopic`, `ConsumeQueue.destroy`.
        """
        return move_queues_aside(self.folder, topic, queue_id, aside)

    def delete_expired(self, log_min_offset: int) -> list[str]:
        """Delete the files whose records are all below the log's first byte, except a queue's last file.

        Source: `ConsumeQueue.deleteExpiredFile`.
        """
        gone = []
        for queue in list_queues(self.folder):
            gone += remove_first_files(takewhile(lambda file: _all_below(file, log_min_offset), queue.files[:-1]))
        return gone


def _all_below(file: QueueFile, log_min_offset: int) -> bool:
    """Return True if the last entry of a full file, and so every entry, is of a record below the log's first byte."""
    data = fs.read_bytes(file.path, ENTRY_SIZE, file.size - ENTRY_SIZE) or b""
    if len(data) < ENTRY_SIZE:
        return False
    last = decode_entry(data)
    return last.is_valid and last.physical_offset < log_min_offset


class _FolderSeen(NamedTuple):
    """A queue's folder, and its span."""

    folder: str
    stored: OffsetRange


class FileQueues:
    """All queue files of an open store, read and mapped on demand.

    Args:
        folder: the consumequeue folder.
        file_size: bytes of a queue file.
    """

    name = FILE
    most_blocks = _MOST_BLOCKS

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size
        self.file_entries = file_size // ENTRY_SIZE
        self._found: dict[QueueKey, _FolderSeen | None] = {}
        self._frontier = self._log_min = 0
        self._is_empty = True
        self._maps = MapCache(_MOST_MAPS)

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Forget the ends of queues and the maps of older files. A queue is read again on demand."""
        self._maps.clear()
        self._frontier, self._log_min = frontier_offset, log_min_offset
        # In a new store no queue is searched on disk.
        self._is_empty = folder_names.is_empty_dir(self.folder)
        self._found = {}

    def advance(self, frontier_offset: int, grown: Iterable[Trimmed]) -> None:
        """Note that the files hold these entries now; no disk access is needed."""
        self._frontier = frontier_offset
        for gone, restarted in grown:
            found = self._look(gone.key)
            if found is None or restarted:
                folder = self.folder / gone.key.topic.decode() / str(gone.key.queue_id)
                self._found[gone.key] = _FolderSeen(str(folder), OffsetRange(gone.first, gone.end))
            else:
                stored = OffsetRange(found.stored.min_offset, gone.end)
                self._found[gone.key] = found._replace(stored=stored)

    def _look(self, key: QueueKey) -> _FolderSeen | None:
        """Return a queue as it was found before, otherwise from disk; remember the answer.

        Threads may ask while another thread, which holds the owner's lock, calls `load` or `advance`. Their answers
        then come too late for a queue that has grown, and go into a table that nobody uses any more.
        """
        known = self._found
        try:
            return known[key]
        except KeyError:
            return known.setdefault(key, None if self._is_empty else self._on_disk(key))

    def _on_disk(self, key: QueueKey) -> _FolderSeen | None:
        """Read from a queue's folder, if it has one, where it ends below the frontier."""
        if not paths.is_topic_folder_name(key.topic) or key.queue_id < 0:
            return None
        folder = queue_folder(self.folder, key)
        if not folder.files and not folder_names.is_own_dir(folder.path):
            return None
        span = queue_span(folder, self._log_min, self._frontier)
        return _FolderSeen(str(folder.path), OffsetRange(span.min_offset, span.max_offset))

    def spans(self, topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue that has a folder, or those of a topic."""
        if topic is not None and not paths.is_topic_folder_name(topic):
            return
        known = [key for key, found in self._found.items() if found is not None and topic in (None, key.topic)]
        for key in {*known, *queue_keys(self.folder, topic)}:
            found = self._look(key)
            if found is not None:
                yield key, found.stored

    def topics(self) -> Iterator[bytes]:
        """Yield the names of the folders that a topic can have."""
        return topic_names(self.folder)

    def pull_entries(self, max_messages: int, has_filter: bool) -> int:
        """Return 800 with a filter, or the maximum number of messages if that is more."""
        return max(FILTER_ENTRIES if has_filter else _FEW_ENTRIES, max_messages)

    def store_times(self, key: QueueKey) -> Callable[[int], int] | None:  # noqa: ARG002 - as DurableQueues has it
        """Return None: entries have no time, the log has it."""
        return None

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue; None if there is none."""
        found = self._look(key)
        return found.stored if found else None

    def block_end(self, key: QueueKey, offset: int) -> int:  # noqa: ARG002 - as DurableQueues has it
        """Return the end of the file that holds a queue offset: as in RocketMQ a read stops there."""
        return (offset // self.file_entries + 1) * self.file_entries

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end) of one file; empty if no file holds `begin`."""
        number = begin // self.file_entries
        array = self._maps.get((key, number))
        if array is None:
            found = self._look(key)
            if found is None:
                return _NO_ENTRIES
            path = Path(found.folder) / paths.offset_name(number * self.file_size)
            if not path.exists():
                return _NO_ENTRIES
            array = self._maps.open((key, number), str(path), self.file_size)
        at = number * self.file_entries
        return array[(begin - at) * ENTRY_SIZE : (end - at) * ENTRY_SIZE]

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Return the entries of the file that holds a queue offset: they are mapped anyway."""
        stored = self.find(key)
        if stored is None or offset >= stored.max_offset:
            return None
        begin = offset // self.file_entries * self.file_entries
        entries = self.entries(key, begin, min(begin + self.file_entries, stored.max_offset))
        return (begin, entries) if len(entries) else None

    def close(self) -> None:
        """Close the maps."""
        self._maps.clear()
