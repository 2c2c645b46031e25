"""Reading one queue: its first and last offset with a few small reads, and its entries in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.queue.batch_consume_queue import BatchEntry
from reput.formats.queue.consume_queue import ENTRY_SIZE, Entry, OffsetRange, QueueKey, decode_entry
from reput.halving import first_where
from reput.queue.files import FilesOnDisk, QueueFile, QueueFolder

# A search reads a page at once instead of halving further.
_PAGE = 4096
_READ_ENTRIES = 1 << 14


E = TypeVar("E", Entry, BatchEntry)


class QueueSpan(NamedTuple, Generic[E]):
    """Queue offsets [min_offset, max_offset), the last entry for messages, and the entries by number.

    `last` is None if there is none; a pre-blank does not count. Entries are numbered from the queue's byte 0: with an
    entry for each message their numbers are queue offsets.
    """

    min_offset: int
    max_offset: int
    last: E | None
    entries: range

    @property
    def offsets(self) -> OffsetRange:
        """The queue offsets of its messages."""
        return OffsetRange(self.min_offset, self.max_offset)


@dataclass(frozen=True, slots=True)
class QueueInFiles(ABC, Generic[E]):
    """A queue of a kind in files: what these kinds have in common."""

    folder: QueueFolder

    @property
    def key(self) -> QueueKey:
        """Its topic, as the folder is named, and its id."""
        return self.folder.key

    @property
    def place(self) -> str:
        """Its folder."""
        return str(self.folder.path)

    @property
    def files(self) -> FilesOnDisk:
        """Its files."""
        return self.folder.counted

    @abstractmethod
    def span(self, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[E]:
        """Return its span, without entries of records from log offset `below` on."""

    def bounds(self, log_min_offset: int = 0) -> OffsetRange:
        """Return its queue offsets."""
        return self.span(log_min_offset).offsets

    def bounds_and_last(self, log_min_offset: int = 0) -> tuple[OffsetRange, int]:
        """Return its queue offsets, and the log offset of its last entry's record."""
        span = self.span(log_min_offset)
        return span.offsets, span.last.physical_offset if span.last else -1


def is_past(entry: Entry | BatchEntry, below: int) -> bool:
    """Return True for an entry after the last one whose record is below a log offset."""
    return not entry.is_valid or entry.physical_offset >= below


def queue_span(queue: QueueFolder, log_min_offset: int = 0, below: int = INT64_MAX) -> QueueSpan[Entry]:
    """Return the span of a queue: from the first record that the log still has to the first entry that is not valid.

    Entries of records from log offset `below` on do not count. The number of reads does not grow with the queue: the
    end of a file is found by halving, since entries are written in order.

    Source: `ConsumeQueue.recover`, `ConsumeQueue.correctMinOffset`.
    """
    files = [file for file in queue.files if file.size >= ENTRY_SIZE and file.start % ENTRY_SIZE == 0]
    for file in reversed(files):
        count = first_entry(file, _entries_written(file), PLAIN_CODE, lambda entry: is_past(entry, below))
        if count or file is files[0]:
            end = file.start // ENTRY_SIZE + count
            first = files[0].start // ENTRY_SIZE
            return QueueSpan(_min_offset(files, end, log_min_offset), end, _last(file, count), range(first, end))
    return QueueSpan(0, 0, None, range(0))


def _entries_written(file: QueueFile) -> int:
    """Return how many entries may be written: the rest of the file is a hole."""
    if file.size <= _PAGE:
        return file.size // ENTRY_SIZE
    return min(file.size // ENTRY_SIZE, -(-fs.end_of_data(file.path, file.size) // ENTRY_SIZE))


def _min_offset(files: list[QueueFile], end: int, log_min_offset: int) -> int:
    # Pre-blank entries fill the first file up to the first message. If a queue that lost its first messages has another
    # gap, the search may end there and return a later entry.
    def is_kept(entry: Entry) -> bool:
        return not entry.is_valid or (not entry.is_pre_blank and entry.physical_offset >= log_min_offset)

    for file in files:
        begin = file.start // ENTRY_SIZE
        count = min(file.size // ENTRY_SIZE, end - begin)
        if count <= 0:
            break
        if (kept := first_entry(file, count, PLAIN_CODE, is_kept)) < count:
            return begin + kept
    return end


def _last(file: QueueFile, count: int) -> Entry | None:
    limit, step = count, 1
    while limit > 0:
        begin = max(0, limit - step)
        for entry in reversed(_entries(file, begin, limit - begin)):
            if not entry.is_pre_blank:
                return entry
        # Rare: pre-blank entries are at the end if a gap was built last.
        limit, step = begin, _READ_ENTRIES
    return None


class EntryCode(NamedTuple, Generic[E]):
    """The bytes of an entry of one kind, and the function that decodes it at a byte of its file's data."""

    size: int
    decode: Callable[[bytes, int], E]


PLAIN_CODE = EntryCode[Entry](ENTRY_SIZE, decode_entry)


def first_entry(file: QueueFile, count: int, code: EntryCode[E], holds: Callable[[E], bool]) -> int:
    """Return the first of a file's `count` entries that `holds`, by number; `count` if there is none.

    Once an entry `holds`, all later ones must. A file that has been cut in the meantime has none where it ends.
    """
    size, at_once = code.size, _PAGE // code.size

    def holds_at(number: int) -> bool:
        data = fs.read_bytes(file.path, size, number * size) or b""
        return len(data) < size or holds(code.decode(data, 0))

    low, high = 0, count
    if count and holds_at(0):
        return 0
    # Most ends are in the last page written and most beginnings in the first: look there before halving.
    for probe in (max(0, count - at_once), at_once):
        if low < probe < high:
            if holds_at(probe):
                high = probe
            else:
                low = probe
    begin, steps = low, -(-(high - low) // at_once)
    low += at_once * (first_where(1, steps, lambda step: holds_at(begin + step * at_once)) - 1)
    block = fs.read_bytes(file.path, min(high - low, at_once) * size, low * size) or b""
    return low + first_where(0, len(block) // size, lambda number: holds(code.decode(block, number * size)))


def _entries(file: QueueFile, first: int, count: int) -> list[Entry]:
    data = fs.read_bytes(file.path, count * ENTRY_SIZE, first * ENTRY_SIZE) or b""
    return [decode_entry(data, at) for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE)]


def read_entries(queue: QueueFolder, begin: int, end: int) -> Iterator[tuple[int, Entry]]:
    """Yield the entries [begin, end), each with its queue offset. Memory does not grow with their number.

    Raises:
        DamagedStoreError: a file in the middle is missing or too short.
    """
    for position, data in _pieces(queue, begin, end):
        yield from ((position + at // ENTRY_SIZE, decode_entry(data, at)) for at in range(0, len(data), ENTRY_SIZE))


def read_rows(queue: QueueFolder, begin: int, end: int) -> NDArray[np.uint8]:
    """Return the same as an array of 20 bytes an entry."""
    return np.frombuffer(b"".join(data for _, data in _pieces(queue, begin, end)), dtype=np.uint8)


def _pieces(queue: QueueFolder, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of the entries [begin, end), in whole entries, each piece with its first queue offset."""
    position = begin
    for file in queue.files:
        first, limit = file.start // ENTRY_SIZE, (file.start + file.size) // ENTRY_SIZE
        if limit <= position or file.size < ENTRY_SIZE:
            continue
        if position >= end:
            return
        if first > position:
            break
        while position < min(limit, end):
            count = min(_READ_ENTRIES, min(limit, end) - position)
            data = fs.read_bytes(file.path, count * ENTRY_SIZE, (position - first) * ENTRY_SIZE) or b""
            found = len(data) // ENTRY_SIZE
            if not found:
                break
            yield position, data[: found * ENTRY_SIZE]
            position += found
    if position < end:
        raise DamagedStoreError(
            f"{queue.path}: no file holds queue offset {position} (byte {position * ENTRY_SIZE} of the queue), "
            f"though the queue goes on to {end}. Run `reput rebuild --only queue`"
        )
