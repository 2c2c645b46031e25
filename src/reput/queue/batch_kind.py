"""Queues of batches on disk: which queues there are, and where each begins and ends.

Source: `BatchConsumeQueue.recover`, `correctMinOffset`, `truncateDirtyLogicFiles`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.remedies import not_a_file
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.queue import queue_kinds
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE, BatchEntry, decode_batch_entry
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.queue.cut import mend_empty, zero_past
from reput.queue.files import (
    QUEUES_COMPARED,
    QueueFile,
    list_queues,
    list_topic_queues,
    may_have_size,
    move_queues_aside,
    queue_folder,
    queue_keys,
    remove_first_files,
)
from reput.queue.kinds import EntryRows, QueueOddities
from reput.queue.order import OrderState, QueueOrder
from reput.queue.reader import EntryCode, QueueInFiles, QueueSpan, first_entry, is_past

BATCH_CODE = EntryCode[BatchEntry](BATCH_ENTRY_SIZE, decode_batch_entry)
_READ_ENTRIES = 1 << 13
_NO_ENTRIES: NDArray[np.void] = np.empty(0, dtype=BATCH_ENTRY.dtype)
BATCHES = queue_kinds.BATCHES


def order_of(span: QueueSpan[BatchEntry]) -> QueueOrder:
    """Return the order rule's view of a queue; see `take_batches`."""
    if span.last is None:
        return QueueOrder()
    return QueueOrder(OrderState(span.max_offset, span.last.base_offset), len(span.entries))


def take_batches(order: QueueOrder, entries: NDArray[np.void]) -> Iterator[KeptBatches]:
    """Take a queue's next entries (dtype `BATCH_ENTRY`) in log order; yield those to append, in pieces.

    The caller uses up all pieces before the next call.
    """
    base = entries["base_offset"].astype(np.int64)
    for kept in order.sort_out(base, base + entries["messages"]):
        yield KeptBatches(entries[kept.begin : kept.end], kept.restarts)


class KeptBatches(NamedTuple):
    """Entries to append (dtype `BATCH_ENTRY`); `restarts`: after the queue has dropped everything."""

    entries: NDArray[np.void]
    restarts: bool


@dataclass(frozen=True, slots=True)
class BatchQueueFiles(QueueInFiles[BatchEntry]):
    """One queue of batches."""

    @property
    def filled(self) -> list[QueueFile]:
        """The files that can hold entries. An empty last file does not count: RocketMQ removes it."""
        return [file for file in self.folder.files if file.size >= BATCH_ENTRY_SIZE]

    def oddities(self, file_size: int | None = None) -> QueueOddities:  # noqa: ARG002 - as AnyQueue has it
        """Return the files with a wrong length or place; an empty last one is right."""
        files, expected = self.folder.files, self._likely_size()
        damage = [not_a_file(path) for path in self.folder.not_files]
        damage += [
            f"{file.path}: {file.size} bytes from byte {file.start} of the queue, where a file has {expected}, in "
            f"entries of {BATCH_ENTRY_SIZE} bytes: it was cut, or is another store's. "
            "Run `reput rebuild --only queue`"
            for file in files
            if (file.size or file is not files[-1])
            and (file.size % BATCH_ENTRY_SIZE or file.start % BATCH_ENTRY_SIZE or file.size != expected)
        ]
        return QueueOddities([], damage)

    def _likely_size(self) -> int:
        """Return the length that most of its files have: of two lengths the one that is between names, too."""
        files = self.folder.files
        between = {after.start - before.start for before, after in pairwise(files)}
        lengths = Counter(file.size for file in self.filled if file.size % BATCH_ENTRY_SIZE == 0)
        return max(lengths, key=lambda size: (lengths[size], size in between), default=0)

    def entry_count(self) -> int:
        """Return the number of its entries; each has a batch of messages."""
        return len(self.span().entries)

    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[BatchEntry]:
        """Return its span, up to the first entry that is not valid or whose record is at or above `below`.

        `min_offset` is that of the first batch whose record the log still has. The number of reads does not grow with
        the queue.
        """
        files = self.filled
        for file in reversed(files):
            count = first_entry(file, file.size // BATCH_ENTRY_SIZE, BATCH_CODE, lambda entry: is_past(entry, below))
            if count:
                last = _entry(file, count - 1)
                end = file.start // BATCH_ENTRY_SIZE + count
                first = files[0].start // BATCH_ENTRY_SIZE
                least = _min_offset(files, end, last.next_offset, log_min_offset)
                return QueueSpan(least, last.next_offset, last, range(first, end))
        first = files[0].start // BATCH_ENTRY_SIZE if files else 0
        return QueueSpan(0, 0, None, range(first, first))

    @property
    def lowest(self) -> int:
        """The queue offset of its first entry."""
        span = self.span()
        return next((int(piece[0]["base_offset"]) for piece in self.pieces(span.entries)), 0)

    def place_of(self, offset: int) -> str:  # noqa: ARG002 - as AnyQueue has it
        """Return its folder: the place of an entry does not follow from its queue offset."""
        return self.place

    def read(self, begin: int, end: int) -> Iterator[tuple[int, BatchEntry]]:
        """Yield the entries of batches with queue offsets in [begin, end), each with its first one."""
        span = self.span()
        for piece in self.pieces(span.entries):
            for row in piece[_next_offsets(piece) > begin].tolist():
                entry = BatchEntry(*row)
                if entry.base_offset >= end:
                    return
                yield entry.base_offset, entry

    def pieces(self, numbers: range) -> Iterator[NDArray[np.void]]:
        """Yield the entries with these numbers in pieces (dtype `BATCH_ENTRY`), up to the first missing file."""
        begin, end = numbers.start, numbers.stop
        for file in self.filled:
            start = file.start // BATCH_ENTRY_SIZE
            limit = min(end, start + file.size // BATCH_ENTRY_SIZE)
            if begin < start:
                return
            while begin < limit:
                count = min(_READ_ENTRIES, limit - begin)
                data = fs.read_bytes(file.path, count * BATCH_ENTRY_SIZE, (begin - start) * BATCH_ENTRY_SIZE) or b""
                found = np.frombuffer(data, dtype=BATCH_ENTRY.dtype, count=len(data) // BATCH_ENTRY_SIZE)
                if not len(found):
                    return
                yield found
                begin += len(found)


def _min_offset(files: list[QueueFile], end: int, max_offset: int, log_min_offset: int) -> int:
    for file in files:
        count = min(file.size // BATCH_ENTRY_SIZE, end - file.start // BATCH_ENTRY_SIZE)
        kept = first_entry(file, count, BATCH_CODE, lambda entry: entry.physical_offset >= log_min_offset)
        if kept < count:
            return _entry(file, kept).base_offset
    return max_offset


def _entry(file: QueueFile, number: int) -> BatchEntry:
    data = fs.read_bytes(file.path, BATCH_ENTRY_SIZE, number * BATCH_ENTRY_SIZE) or b""
    # A file that has been cut in the meantime has no entry there.
    return decode_batch_entry(data.ljust(BATCH_ENTRY_SIZE, b"\0"))


class BatchRows:
    """The entries of batches whose records the log has. See `ComparedQueues`."""

    def __init__(self, kind: BatchKind, log_min_offset: int) -> None:
        self._kind = kind
        self._log_min = log_min_offset
        self._key: QueueKey | None = None
        self._pieces: Iterator[NDArray[np.void]] = iter(())
        self._rest = _NO_ENTRIES

    def spans(self) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue with its span."""
        yield from ((queue.key, queue.span(self._log_min).offsets) for queue in self._kind.queues())

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue that has files."""
        queue = self._kind.queue(key)
        return queue.span(self._log_min).offsets if queue.folder.files else None

    def block_end(self, key: QueueKey, begin: int) -> int:
        """Return the queue offset after the entries that are read at once."""
        if key != self._key:
            queue = self._kind.queue(key)
            span = queue.span(self._log_min)
            self._key, self._rest, self._pieces = key, _NO_ENTRIES, queue.pieces(span.entries)
        while not len(self._rest) or int(_next_offsets(self._rest)[-1]) <= begin:
            piece = next(self._pieces, None)
            if piece is None:
                return INT64_MAX
            self._rest = piece
        return int(_next_offsets(self._rest)[-1])

    def rows(self, key: QueueKey, begin: int, end: int) -> EntryRows:
        """Return the entries of batches that begin in [begin, end)."""
        self.block_end(key, begin)
        base = self._rest["base_offset"].astype(np.int64)
        wanted = self._rest[(base >= begin) & (base < end)]
        rows = np.frombuffer(wanted.tobytes(), dtype=np.uint8).reshape(-1, BATCH_ENTRY_SIZE)
        return EntryRows(wanted["base_offset"].astype(np.int64), _next_offsets(wanted), rows)

    def decoded(self, row: bytes) -> BatchEntry | None:
        """Return the entry of a row; None for zeros."""
        return decode_batch_entry(row) if any(row) else None

    def close(self) -> None:
        """Do nothing: no file is held open."""


def _next_offsets(entries: NDArray[np.void]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = entries["base_offset"].astype(np.int64) + entries["messages"]
    return found


class BatchKind:
    """The queues of batches below a batchconsumequeue folder. See `AnyKind`."""

    name = BATCHES
    has_ext = False
    has_batches = True
    allows_batches = True
    size_setting = "mapper_file_size_batch_consume_queue"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_present(self) -> bool:
        """Return True if there is a folder of a queue."""
        return next(queue_keys(self.folder), None) is not None

    def queues(self, topic: bytes | None = None) -> Generator[BatchQueueFiles]:
        """Yield the queues, or those of a topic, by topic and id."""
        if topic is not None and not paths.is_topic_folder_name(topic):
            return
        folders = list_queues(self.folder) if topic is None else list_topic_queues(self.folder / os.fsdecode(topic))
        yield from map(BatchQueueFiles, folders)

    @contextmanager
    def asked(self) -> Iterator[Callable[[QueueKey], BatchQueueFiles | None]]:
        """Return single queues that have files."""
        yield self._asked

    def _asked(self, key: QueueKey) -> BatchQueueFiles | None:
        if not paths.is_topic_folder_name(key.topic):
            return None
        found = self.queue(key)
        return found if found.filled else None

    def is_held(self) -> bool:
        """Return False: files have no lock of their own."""
        return False

    def refuse_in_fork(self) -> None:
        """Return: files can be written in any process."""

    def damage_of(self, key: QueueKey, file_size: int) -> Sequence[str]:  # noqa: ARG002 - as AnyKind has it
        """Return what is wrong with the lengths and places of its files."""
        return self.queue(key).oddities().damage

    def shared_bytes(self) -> int:
        """Return 0: every file belongs to a queue."""
        return 0

    def complete_to(self) -> int | None:
        """Return None: files do not say it."""
        return None

    def queue(self, key: QueueKey) -> BatchQueueFiles:
        """Return one queue, whether it exists or not."""
        return BatchQueueFiles(queue_folder(self.folder, key))

    def cut(self, end: int, owner: fs.Owner, whole: int = 0, *, crashed: bool = True, again: bool = False) -> list[str]:
        """Zero the entries of records at or above log offset `end`, durably; return the queues that had some.

        Below log offset `whole` all entries are known to be there. Files of no bytes go if the store has `crashed`: in
        one that was closed they have lost their entries. `again`: an earlier cut may have failed to sync.
        """
        cut = []
        for queue in self.queues():
            if zero_past(
                queue.filled, BATCH_ENTRY, queue.span(below=whole).entries.stop, whole, end, owner, again=again
            ):
                cut.append(f"{queue.folder.topic}/{queue.folder.queue_id}")
            if crashed:
                mend_empty(queue.folder.files, owner)
        return cut

    def delete(self, topic: bytes, queue_id: int | None, owner: fs.Owner, aside: Path) -> list[QueueKey]:  # noqa: ARG002 - as AnyKind has it
        """Move their folders aside."""
        return move_queues_aside(self.folder, topic, queue_id, aside)

    def delete_expired(self, log_min_offset: int) -> list[str]:
        """Delete the files whose records are all below the log's first byte, except a queue's last file."""

        def is_below(file: QueueFile) -> bool:
            last = _entry(file, file.size // BATCH_ENTRY_SIZE - 1) if file.size >= BATCH_ENTRY_SIZE else None
            return last is not None and last.is_valid and last.physical_offset < log_min_offset

        gone = []
        for queue in self.queues():
            gone += remove_first_files(takewhile(is_below, queue.folder.files[:-1]))
        return gone

    def compared(self, log_min_offset: int) -> BatchRows:
        """Return the entries of all queues, to compare them."""
        return BatchRows(self, log_min_offset)

    def size_in_use(self, configured: int) -> int:
        """Return what is given: it must be whole entries."""
        return configured

    def found_file_size(self, given: int | None = None) -> int | None:
        """Return the file size of these queues, by the names of files, otherwise by their lengths.

        None if neither shows it, or if `given` may be right.
        """
        distances: Counter[int] = Counter()
        lengths: Counter[int] = Counter()
        queues = list(islice(self.queues(), QUEUES_COMPARED))
        if given is not None and may_have_size((queue.folder for queue in queues), given):
            return None
        for queue in queues:
            distances.update(after.start - before.start for before, after in pairwise(queue.folder.files))
            lengths.update(file.size for file in queue.filled)
        for votes in (distances, lengths):
            likely = [(count, size) for size, count in votes.items() if size % BATCH_ENTRY_SIZE == 0]
            if likely:
                return max(likely)[1]
        return None
