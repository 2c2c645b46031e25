"""The rules of a sound IndexFile, over its items, slots and header, and over the items that the log gives.

The order of the items determines each item's link, each slot, and the number of slots in use. The items themselves must
be those of records, complete and in log order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.index.index_file import HEADER, ITEM_SIZE, MAX_TIME_DIFF_S, Header
from reput.kernels import kernels
from reput.kernels.layouts.columns import ItemRange, ItemSources


class HeaderFault(NamedTuple):
    """An impossible value in a header: the byte offset of the field, and the fault."""

    offset: int
    detail: str


def header_faults(header: Header, slots: int, items: int) -> list[HeaderFault]:
    """List the values in a header that are impossible in any file."""
    faults = []
    # A file that was made and never flushed has 0; RocketMQ reads it as 1.
    if not 0 <= header.index_count <= items:
        faults.append(HeaderFault(_INDEX_COUNT_AT, f"index_count {header.index_count} is not between 1 and {items}"))
    if not 0 <= header.hash_slot_count <= min(slots, max(header.index_count - 1, 0)):
        detail = f"hash_slot_count {header.hash_slot_count} is more than its items or slots"
        faults.append(HeaderFault(_HASH_SLOT_COUNT_AT, detail))
    if min(header.begin_timestamp, header.end_timestamp) < 0:
        said = f"{header.begin_timestamp} to {header.end_timestamp}"
        faults.append(HeaderFault(header_field_at("begin_timestamp"), f"times below 0: {said}"))
    if min(header.begin_physical_offset, header.end_physical_offset) < 0:
        said = f"{header.begin_physical_offset} to {header.end_physical_offset}"
        faults.append(HeaderFault(_BEGIN_PHYSICAL_OFFSET_AT, f"physical offsets below 0: {said}"))
    elif header.begin_physical_offset > header.end_physical_offset:
        said = f"begins at {header.begin_physical_offset}, after its end at {header.end_physical_offset}"
        faults.append(HeaderFault(_BEGIN_PHYSICAL_OFFSET_AT, said))
    return faults


def empty_header_faults(header: Header, before: Header | None) -> list[HeaderFault]:
    """List the faults in the header of a file without items: it begins and ends where the file `before` it ended.

    The first file of a store begins at 0. If the earlier files are gone (`before` is None), the header still has their
    end.
    """
    faults = []
    if before is not None:
        due = before.end_timestamp, before.end_timestamp, before.end_physical_offset, before.end_physical_offset
        why = "the file before ended at"
    else:
        due = header.begin_timestamp, header.begin_timestamp, header.begin_physical_offset, header.begin_physical_offset
        why = "without items it is the begin's"
    for name, expected in zip(Header._fields, due, strict=False):
        if (said := getattr(header, name)) != expected:
            faults.append(
                HeaderFault(header_field_at(name), f"{name} {said} in a file without items, {why} {expected}")
            )
    if not faults and header.begin_timestamp <= 0 < header.begin_physical_offset:
        detail = f"begin_timestamp {header.begin_timestamp}, where it begins at {header.begin_physical_offset}"
        faults.append(HeaderFault(header_field_at("begin_timestamp"), detail))
    return faults


def header_field_at(name: str) -> int:
    """Return the byte offset of a field in the header."""
    return HEADER.offsets[name]


_INDEX_COUNT_AT = header_field_at("index_count")
_HASH_SLOT_COUNT_AT = header_field_at("hash_slot_count")
_BEGIN_PHYSICAL_OFFSET_AT = header_field_at("begin_physical_offset")


@dataclass(slots=True)
class ChainRule:
    """Follows the items of one file in order, and finds links and slots that do not follow from them."""

    slots: NDArray[np.int32]
    number: int = 1
    used_slots: int = 0
    broken: int = 0
    first_broken: int = 0

    @classmethod
    def for_slots(cls, slots: int) -> ChainRule:
        """Return the rule for a file with this number of slots."""
        return cls(np.zeros(slots, dtype=np.int32))

    def follow(self, items: NDArray[np.void], key_hash: NDArray[np.int32], is_wrong: NDArray[np.bool_]) -> None:
        """Take the next items (`index_file.ITEM.dtype`) of the file.

        `key_hash` has the hashes that they must have; the link of an item that `is_wrong` as a whole is not checked.
        """
        count = len(items)
        # A hash is never negative. Without its sign a damaged one stays within the slots.
        hashes = key_hash & np.int32(0x7FFFFFFF)
        out = np.empty(count * ITEM_SIZE, dtype=np.uint8)
        zeros = np.zeros(count, dtype=np.int64)
        each_its_own = np.arange(count + 1, dtype=np.int32)
        sources = ItemSources(each_its_own, zeros, zeros, hashes)
        fresh, _ = kernels().chain_items(sources, ItemRange(0, 0, count, self.number, 0), self.slots, out)
        links = out.view(items.dtype)["previous_item"]
        broken = np.flatnonzero(((links != items["previous_item"]) | (key_hash < 0)) & ~is_wrong)
        if len(broken) and not self.broken:
            self.first_broken = self.number + int(broken[0])
        self.broken += len(broken)
        self.used_slots += fresh
        self.number += count

    def wrong_slots(self, present: NDArray[np.int32], index_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots that do not follow from the items, and those of them that are only ahead of the header.

        RocketMQ takes a slot that names an item past the header's count for empty: a crash leaves such slots.
        """
        if len(present) != len(self.slots):
            return np.arange(len(self.slots)), np.empty(0, dtype=np.int64)
        wrong = np.flatnonzero(present != self.slots)
        return wrong, wrong[present[wrong] >= index_count]


@dataclass(frozen=True, slots=True)
class ExpectedItems:
    """The index items of a range of the log, in order.

    Per item: `physical_offset`, `store_timestamp` (int64), `key_hash` (int32), `is_tag` (bool: written since 5.4.0
    only).
    """

    physical_offset: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    key_hash: NDArray[np.int32]
    is_tag: NDArray[np.bool_]


WRONG, REPEATED, EXPIRED, PAST_END = -1, -2, -3, -4
"""Used instead of an item's number in the log: no record gives it; it repeats another item; its record has expired; it
points past the log's end."""


def match_items(items: NDArray[np.void], expected: ExpectedItems) -> NDArray[np.int64]:
    """Return the place of each item among those expected, all of one range of the log: WRONG or REPEATED for none."""
    if not len(items):
        return np.empty(0, dtype=np.int64)
    physical = items["physical_offset"].astype(np.int64)
    places = _aligned(items, physical, expected)
    return _searched(items, physical, expected) if places is None else places


def runs_of(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the runs [begin, end) of equal values."""
    if not len(values):
        return []
    edges = np.flatnonzero(np.diff(values.astype(np.int64))) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True))


def covered_ranges(places: NDArray[np.int64], is_tag: NDArray[np.bool_]) -> tuple[list[tuple[int, int]], int]:
    """Return the ranges of expected items that a file has, and the number of tags in them without an item.

    `places`: ascending, each once. Tags alone between two items of a file do not end a range, since brokers before
    5.4.0 wrote no items for tags.
    """
    steps = np.diff(places)
    tags_before = np.concatenate(([0], np.cumsum(is_tag)))
    tags_between = tags_before[places[1:]] - tags_before[places[:-1] + 1]
    continues = tags_between == steps - 1
    lasts = np.flatnonzero(~continues)
    begins = places[np.concatenate(([0], lasts + 1))]
    ends = places[np.concatenate((lasts, [len(places) - 1]))] + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True)), int(tags_between[continues].sum())


def wrong_times(
    time_diff_s: NDArray[Any], store_timestamp: NDArray[np.int64], begin_timestamp: int
) -> NDArray[np.int64]:
    """Return the numbers of the items whose time does not fit their records' store times (ms)."""
    if begin_timestamp <= 0:
        return np.flatnonzero(time_diff_s != 0)
    return np.flatnonzero(np.clip((store_timestamp - begin_timestamp) // 1000, 0, MAX_TIME_DIFF_S) != time_diff_s)


def _aligned(items: NDArray[np.void], physical: NDArray[np.int64], expected: ExpectedItems) -> NDArray[np.int64] | None:
    """Return the places of items in the expected order, with or without those of tags; None if the order differs."""
    for kept in (np.arange(len(expected.key_hash)), np.flatnonzero(~expected.is_tag)):
        begin = int(np.searchsorted(expected.physical_offset[kept], physical[0]))
        for start in range(begin, min(begin + 64, len(kept))):
            run = kept[start : start + len(items)]
            if (
                len(run) == len(items)
                and np.array_equal(expected.key_hash[run], items["key_hash"])
                and np.array_equal(expected.physical_offset[run], physical)
            ):
                return run
    return None


def _searched(items: NDArray[np.void], physical: NDArray[np.int64], expected: ExpectedItems) -> NDArray[np.int64]:
    """Look for the place of each item alone."""
    places = np.empty(len(items), dtype=np.int64)
    taken: set[int] = set()
    begins = np.searchsorted(expected.physical_offset, physical, side="left").tolist()
    ends = np.searchsorted(expected.physical_offset, physical, side="right").tolist()
    hashes = items["key_hash"].tolist()
    expected_hashes = expected.key_hash.tolist()
    for number, key_hash in enumerate(hashes):
        same = [place for place in range(begins[number], ends[number]) if expected_hashes[place] == key_hash]
        free = [place for place in same if place not in taken]
        if free:
            taken.add(free[0])
            places[number] = free[0]
        else:
            # RocketMQ indexes the last message again when it opens a store that was not closed.
            places[number] = REPEATED if same else WRONG
    return places
