"""The items of one IndexFile, compared with those that the log gives, a block at a time.

Each item is compared alone, so a damaged one does not affect later ones. A run of damaged items takes the place of the
items that are missing between its neighbours, if the number is the same: they count as present, and links are followed
as if the run were whole. So a damaged item is one finding, not one and a missing item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.pipeline.split import parts
from reput.pipeline.split.job import Job
from reput.store.compare.index_rules import (
    EXPIRED,
    PAST_END,
    WRONG,
    ExpectedItems,
    covered_ranges,
    match_items,
    runs_of,
)

_PARTS_KEPT = 2
# This number of items shows whether a file has items for tags; with fewer, the earlier items count too.
_ENOUGH = 32


class IndexPart(NamedTuple):
    """The number of items of one split, and the physical offsets [begin, end) of its records."""

    split: int
    items: int
    begin: int
    end: int


def load_expected(job: Job, part: IndexPart) -> ExpectedItems:
    """Load the items that a split's records give."""
    columns = parts.load_items(job, part.split)
    tagged = columns.has_tag.astype(np.bool_)
    counts = np.diff(columns.first_item)
    is_tag = np.zeros(part.items, dtype=np.bool_)
    is_tag[columns.first_item[1:][tagged] - 1] = True
    return ExpectedItems(
        np.repeat(columns.position, counts),
        np.repeat(columns.store_timestamp, counts),
        columns.item_hash,
        is_tag,
    )


class LogItems:
    """The items of all splits, numbered from the log's begin; the columns of a few splits are in memory at a time."""

    def __init__(self, job: Job, index_parts: Sequence[IndexPart]) -> None:
        self.job = job
        self.parts = index_parts
        self.begins = np.array([part.begin for part in index_parts], dtype=np.int64)
        self.ends = np.array([part.end for part in index_parts], dtype=np.int64)
        self.firsts = np.cumsum([0, *(part.items for part in index_parts)], dtype=np.int64)
        self._kept: dict[int, ExpectedItems] = {}

    @property
    def total(self) -> int:
        """The number of items that the log gives."""
        return int(self.firsts[-1])

    def rows_of(self, physical: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of the split that has each physical offset (-1: none)."""
        rows = np.searchsorted(self.begins, physical, side="right") - 1
        inside = rows >= 0
        inside[inside] = physical[inside] < self.ends[rows[inside]]
        return np.where(inside, rows, -1)

    def expected(self, row: int) -> ExpectedItems:
        """Return the items of one split."""
        found = self._kept.pop(row, None)
        if found is None:
            found = load_expected(self.job, self.parts[row])
            while len(self._kept) >= _PARTS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[row] = found
        return found

    def row_of_item(self, number: int) -> int:
        """Return the row of the split that has item `number` of the log."""
        return int(np.searchsorted(self.firsts, number, side="right")) - 1


class ItemBlock(NamedTuple):
    """A block of a file's items after matching; arrays have one value for each item.

    `places`: the item of the log (or a value below 0 of `index_rules`), also of an item that takes the place of a
    missing one; `own`: without those. `key_hash`, `physical_offset`, `store_timestamp`: the values of the log if it has
    the item, else of the item itself (time: -1). `skipped_tags`: tags of the log between items, without an item.
    """

    places: NDArray[np.int64]
    own: NDArray[np.int64]
    key_hash: NDArray[np.int32]
    physical_offset: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    covered: list[tuple[int, int]]
    skipped_tags: int


class ItemMatcher:
    """Matches the blocks of one file, in order. Items of records below `log_min` have expired, none is at `log_max`."""

    def __init__(self, log_items: LogItems, log_min: int, log_max: int) -> None:
        self.log_items = log_items
        self.log_min = log_min
        self.log_max = log_max
        self.before = -1
        self.with_tags = True

    def match(self, items: NDArray[np.void]) -> ItemBlock:
        """Match the next block."""
        physical = items["physical_offset"].astype(np.int64)
        block = ItemBlock(
            places=np.full(len(items), WRONG, dtype=np.int64),
            own=np.empty(0, dtype=np.int64),
            key_hash=items["key_hash"].astype(np.int32),
            physical_offset=physical.copy(),
            store_timestamp=np.full(len(items), -1, dtype=np.int64),
            covered=[],
            skipped_tags=0,
        )
        block.places[(physical >= 0) & (physical < self.log_min)] = EXPIRED
        block.places[physical >= self.log_max] = PAST_END
        had_tags, self.with_tags = self.with_tags, False
        rows = self.log_items.rows_of(physical)
        for begin, end in runs_of(rows):
            if rows[begin] >= 0:
                self._match_run(items, begin, end, int(rows[begin]), block)
        own = block.places.copy()
        known = np.flatnonzero(own >= 0)
        if len(known) < _ENOUGH:
            self.with_tags |= had_tags
        self._judge_past_end(own, int(known[-1]) + 1 if len(known) else 0)
        block.places[:] = own
        self._put_in_place(block)
        covered, skipped = self._covered(block.places)
        self.before = int(block.places[-1])
        return block._replace(own=own, covered=covered, skipped_tags=skipped)

    def _match_run(self, items: NDArray[np.void], begin: int, end: int, row: int, block: ItemBlock) -> None:
        expected = self.log_items.expected(row)
        places = match_items(items[begin:end], expected)
        fits = places >= 0
        block.store_timestamp[begin:end][fits] = expected.store_timestamp[places[fits]]
        self.with_tags |= bool(expected.is_tag[places[fits]].any())
        block.places[begin:end] = np.where(fits, places + self.log_items.firsts[row], places)

    def _judge_past_end(self, own: NDArray[np.int64], tail: int) -> None:
        """Mark offsets after the log's end as wrong unless they are at the end of the index, from `tail` on.

        A crash leaves such items after those of all the log's records. So if an item of a record is still missing, they
        are wrong.
        """
        early = own[:tail]
        early[early == PAST_END] = WRONG
        left = int(own[tail - 1]) if tail else self.before
        if left >= 0 and self._missing(left, -1, 1):
            late = own[tail:]
            late[late == PAST_END] = WRONG

    def _put_in_place(self, block: ItemBlock) -> None:
        """Give each run of wrong items the places missing between its neighbours, if the number is the same."""
        wrong = block.places == WRONG
        if not wrong.any():
            return
        for begin, end in runs_of(wrong):
            if not wrong[begin]:
                continue
            left = int(block.places[begin - 1]) if begin else self.before
            right = int(block.places[end]) if end < len(wrong) else -1
            for at, place in enumerate(self._missing(left, right, end - begin), begin):
                row = self.log_items.row_of_item(place)
                expected, inside = self.log_items.expected(row), place - int(self.log_items.firsts[row])
                block.places[at] = place
                block.key_hash[at] = expected.key_hash[inside]
                block.physical_offset[at] = expected.physical_offset[inside]
                block.store_timestamp[at] = expected.store_timestamp[inside]

    def _missing(self, left: int, right: int, count: int) -> list[int]:
        """Return the `count` places between two others, or next to one if the other is unknown; empty if it differs."""
        if left >= 0 and right >= 0:
            if right - left - 1 == count:
                return list(range(left + 1, right))
            # Without tags' items there may be as many tags between them as other items, and a run of tags more.
            return self._keys_between(left, right, count)
        if left >= 0:
            step, place = 1, left + 1
        elif right >= 0:
            step, place = -1, right - 1
        else:
            return []
        found: list[int] = []
        while len(found) < count and 0 <= place < self.log_items.total:
            if self.with_tags or not self._is_tag(place):
                found.append(place)
            place += step
        return sorted(found) if len(found) == count else []

    def _keys_between(self, left: int, right: int, count: int) -> list[int]:
        found: list[int] = []
        for place in range(left + 1, right):
            if not self._is_tag(place):
                found.append(place)
                if len(found) > count:
                    return []
        return found if len(found) == count else []

    def _is_tag(self, place: int) -> bool:
        row = self.log_items.row_of_item(place)
        return bool(self.log_items.expected(row).is_tag[place - int(self.log_items.firsts[row])])

    def _covered(self, places: NDArray[np.int64]) -> tuple[list[tuple[int, int]], int]:
        """Return the ranges of the log's items that the block has, and the number of tags in them without an item."""
        numbers = np.unique(places[places >= 0])
        found: list[tuple[int, int]] = []
        skipped = 0
        bounds = np.searchsorted(numbers, self.log_items.firsts)
        for row, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            if begin == end:
                continue
            first = int(self.log_items.firsts[row])
            ranges, tags = covered_ranges(numbers[begin:end] - first, self.log_items.expected(row).is_tag)
            found += [(first + low, first + high) for low, high in ranges]
            skipped += tags
        return found, skipped
