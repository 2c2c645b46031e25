"""The one comparison of entries on disk with expected entries, for check, diff and conversion.

Entries of any kind are rows of bytes here (uint8, one column for each byte of an entry).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, Entry, QueueKey, decode_entry, is_blank
from reput.queue.kinds import DurableQueues, EntryRows
from reput.queue.order import consecutive_runs

_AT_ONCE = 1 << 16


class MessageRows:
    """The durable entries of queues with an entry for each message. See `ComparedQueues`."""

    def __init__(self, queues: DurableQueues, log_min_offset: int) -> None:
        self._queues = queues
        # Without a frontier: all entries count.
        queues.load(INT64_MAX, log_min_offset)
        self.spans = queues.spans
        self.find = queues.find
        self.close = queues.close

    def block_end(self, key: QueueKey, begin: int) -> int:
        """Return the end of the file that holds a queue offset, or the end of some thousands of entries."""
        return min(begin + _AT_ONCE, self._queues.block_end(key, begin))

    def rows(self, key: QueueKey, begin: int, end: int) -> EntryRows:
        """Return the entries [begin, end); zeros for those of a missing file."""
        first = np.arange(begin, end, dtype=np.int64)
        return EntryRows(first, first + 1, rows_of(self._queues.entries(key, begin, end), ENTRY_SIZE, end - begin))

    def decoded(self, row: bytes) -> Entry:
        """Return the entry of a row."""
        return decode_entry(row)


def side_by_side(left: EntryRows, right: EntryRows) -> tuple[EntryRows, EntryRows]:
    """Return both sides with a row for each queue offset at which one of them has an entry: zeros where one has none.

    Queue offsets that do not ascend are damage. Such entries are compared in their order.
    """
    if np.array_equal(left.first, right.first):
        longest = np.maximum(left.next, right.next)
        return left._replace(next=longest), right._replace(next=longest)
    sides, width = (left, right), left.rows.shape[1]
    if all((np.diff(side.first) > 0).all() for side in sides):
        first = np.union1d(left.first, right.first)
        places = [np.searchsorted(first, side.first) for side in sides]
    else:
        longer = max(sides, key=lambda side: len(side.first))
        first, places = longer.first, [np.arange(len(side.first)) for side in sides]
    rows = [np.zeros((len(first), width), dtype=np.uint8) for _ in sides]
    longest = first.copy()
    for side, place, found in zip(sides, places, rows, strict=True):
        found[place] = side.rows
        longest[place] = np.maximum(longest[place], side.next)
    return EntryRows(first, longest, rows[0]), EntryRows(first, longest, rows[1])


class Differences(NamedTuple):
    """Row numbers, ascending: missing entries, and wrong entries."""

    missing: NDArray[np.int64]
    wrong: NDArray[np.int64]


@dataclass(slots=True)
class Compared:
    """The differences of a queue from its expected content.

    Counts, and the number of the first entry of each (-1: none).
    `missing_from`: the log offset of the first record without an entry; `wrong_from`: that of the first record with a
    wrong one; `lacking_to`: that of the last record without its right one (-1: none).
    """

    missing: int = 0
    first_missing: int = -1
    wrong: int = 0
    first_wrong: int = -1
    missing_from: int = -1
    lacking_to: int = -1
    wrong_from: int = -1

    def add(self, number: int, found: Differences, wanted: NDArray[np.void]) -> None:
        """Count the differences of `wanted` entries that begin with entry `number`. They come in ascending order."""
        records = wanted["physical_offset"]
        if len(found.missing) and not self.missing:
            self.first_missing = number + int(found.missing[0])
            self.missing_from = int(records[found.missing[0]])
        if len(found.wrong) and not self.wrong:
            self.first_wrong = number + int(found.wrong[0])
            self.wrong_from = int(records[found.wrong[0]])
        self.missing += len(found.missing)
        self.wrong += len(found.wrong)
        for rows in found:
            if len(rows):
                self.lacking_to = max(self.lacking_to, int(records[rows[-1]]))

    def followed_by(self, later: Compared) -> Compared:
        """Return these differences with those of later entries of the queue."""
        first, first_wrong = self if self.missing else later, self if self.wrong else later
        return Compared(
            self.missing + later.missing,
            first.first_missing,
            self.wrong + later.wrong,
            first_wrong.first_wrong,
            first.missing_from,
            max(self.lacking_to, later.lacking_to),
            first_wrong.wrong_from,
        )

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not self.missing and not self.wrong


def rows_of(entries: NDArray[np.uint8], width: int, count: int = 0) -> NDArray[np.uint8]:
    """Return entries as rows, filled up with rows of zeros to `count`."""
    rows = entries[: len(entries) // width * width].reshape(-1, width)
    if len(rows) >= count:
        return rows
    padded = np.zeros((count, width), dtype=np.uint8)
    padded[: len(rows)] = rows
    return padded


def compare(
    wanted: NDArray[np.uint8], present: NDArray[np.uint8], no_entry: NDArray[np.uint8] | None = None
) -> Differences:
    """Compare rows of equal number. A row that is `no_entry` (zeros by default) is missing."""
    if np.array_equal(wanted, present):
        nothing = np.empty(0, dtype=np.int64)
        return Differences(nothing, nothing)
    differ = np.flatnonzero((wanted != present).any(axis=1))
    absent = (present[differ] == (0 if no_entry is None else no_entry)).all(axis=1)
    return Differences(differ[absent], differ[~absent])


def compare_entries(wanted: NDArray[np.uint8], present: NDArray[np.uint8]) -> Differences:
    """Compare the entries of queue files; `present` may be shorter (a short file).

    All blanks are equal: the blank that kept a queue's number may be in a gap once the queue has gone on.
    """
    rows = rows_of(wanted, ENTRY_SIZE)
    there = rows_of(present, ENTRY_SIZE, len(rows))
    missing, wrong = compare(rows, there)
    return Differences(missing, wrong[~(_are_blank(rows[wrong]) & _are_blank(there[wrong]))])


def blanks(entries: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which entries (dtype `ENTRY`) are blanks, of either size."""
    blank: NDArray[np.bool_] = is_blank(entries["physical_offset"], entries["size"])
    return blank


def _are_blank(rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return blanks(rows.reshape(-1).view(ENTRY.dtype))


def runs(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield each run [begin, end) of consecutive numbers; `numbers` ascend."""
    for first, end in consecutive_runs(numbers):
        yield int(numbers[first]), int(numbers[end - 1]) + 1
