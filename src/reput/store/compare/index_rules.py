"""What a sound IndexFile is: pure rules over its items, slots and header, and over the items that the log gives.

Within a file everything but the items' own values follows from the order of the items: each item's link, each slot, the
count of slots in use. The items themselves must be those of records, complete and in log order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.index_file import HEADER, ITEM_SIZE, Header
from reput.kernels import kernels
from reput.kernels.columns import ItemSources

_MAX_DIFF_S = 0x7FFFFFFF


class HeaderFault(NamedTuple):
    """Something in a header that cannot be: the byte where the field stands, and what is wrong with it."""

    offset: int
    detail: str


def header_faults(header: Header, slots: int, items: int) -> list[HeaderFault]:
    """What is impossible in a header, whatever the file holds."""
    faults = []
    # 0 stands in a file that was made and never flushed; RocketMQ reads it as 1.
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
        said = f"begins at {header.begin_physical_offset}, behind its end at {header.end_physical_offset}"
        faults.append(HeaderFault(_BEGIN_PHYSICAL_OFFSET_AT, said))
    return faults


def empty_header_faults(header: Header, before: Header | None) -> list[HeaderFault]:
    """What is wrong in the header of a file without items: it begins and ends where the file `before` it ended.

    The first file of a store begins at 0; one whose forerunners are gone (`before` is None) still says where they were.
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
    """The byte of a header where a field stands."""
    return HEADER.offsets[name]


_INDEX_COUNT_AT = header_field_at("index_count")
_HASH_SLOT_COUNT_AT = header_field_at("hash_slot_count")
_BEGIN_PHYSICAL_OFFSET_AT = header_field_at("begin_physical_offset")


@dataclass(slots=True)
class ChainRule:
    """Follows the items of one file in order and says where a link or slot is not what they give."""

    slots: NDArray[np.int32]
    number: int = 1
    used_slots: int = 0
    broken: int = 0
    first_broken: int = 0

    @classmethod
    def for_slots(cls, slots: int) -> ChainRule:
        """The rule for a file with so many slots."""
        return cls(np.zeros(slots, dtype=np.int32))

    def follow(self, items: NDArray[np.void], key_hash: NDArray[np.int32], is_wrong: NDArray[np.bool_]) -> None:
        """Take the next items (`index_file.ITEM.dtype`) of the file.

        `key_hash` is what their hashes ought to be; where an item `is_wrong` as a whole, its link is not asked for.
        """
        count = len(items)
        # A hash is never negative; take what it would be, so that a damaged one cannot leave the slots.
        hashes = key_hash & np.int32(0x7FFFFFFF)
        out = np.empty(count * ITEM_SIZE, dtype=np.uint8)
        zeros = np.zeros(count, dtype=np.int64)
        each_its_own = np.arange(count + 1, dtype=np.int32)
        sources = ItemSources(each_its_own, zeros, zeros, hashes)
        fresh, _ = kernels().chain_items(sources, 0, 0, count, self.slots, self.number, 0, out)
        links = out.view(items.dtype)["previous_item"]
        broken = np.flatnonzero(((links != items["previous_item"]) | (key_hash < 0)) & ~is_wrong)
        if len(broken) and not self.broken:
            self.first_broken = self.number + int(broken[0])
        self.broken += len(broken)
        self.used_slots += fresh
        self.number += count

    def wrong_slots(self, present: NDArray[np.int32], index_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slots that are not what the items give: all of them, and those of them that only run ahead of the header.

        RocketMQ takes a slot that names an item past the header's count for empty: a crash leaves such slots.
        """
        if len(present) != len(self.slots):
            return np.arange(len(self.slots)), np.empty(0, dtype=np.int64)
        wrong = np.flatnonzero(present != self.slots)
        return wrong, wrong[present[wrong] >= index_count]


@dataclass(frozen=True, slots=True)
class ExpectedItems:
    """The index items that a stretch of log gives, in order.

    Per item: `physical_offset`, `store_timestamp` (int64), `key_hash` (int32), `is_tag` (bool: written since 5.4.0
    only).
    """

    physical_offset: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    key_hash: NDArray[np.int32]
    is_tag: NDArray[np.bool_]


WRONG, REPEATED, EXPIRED, PAST_END = -1, -2, -3, -4
"""In the place of an item's number in the log: no record gives it; it says again what another says; its record has
expired; it points behind the log's end."""


def match_items(items: NDArray[np.void], expected: ExpectedItems) -> NDArray[np.int64]:
    """The place of each item of a file, all of one stretch of log, among those expected: WRONG or REPEATED for none."""
    if not len(items):
        return np.empty(0, dtype=np.int64)
    physical = items["physical_offset"].astype(np.int64)
    places = _aligned(items, physical, expected)
    return _searched(items, physical, expected) if places is None else places


def runs_of(values: NDArray[Any]) -> list[tuple[int, int]]:
    """The runs [begin, end) of equal values."""
    if not len(values):
        return []
    edges = np.flatnonzero(np.diff(values.astype(np.int64))) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True))


def covered_ranges(places: NDArray[np.int64], is_tag: NDArray[np.bool_]) -> tuple[list[tuple[int, int]], int]:
    """The ranges of expected items that a file has, and how many tags inside of them it has not.

    `places`: ascending, each once. Tags alone between two items of a file do not end a range: brokers before 5.4.0
    wrote no items for tags.
    """
    steps = np.diff(places)
    tags_before = np.concatenate(([0], np.cumsum(is_tag)))
    tags_between = tags_before[places[1:]] - tags_before[places[:-1] + 1]
    goes_on = tags_between == steps - 1
    ends = np.flatnonzero(~goes_on)
    begins = places[np.concatenate(([0], ends + 1))]
    behind = places[np.concatenate((ends, [len(places) - 1]))] + 1
    return list(zip(begins.tolist(), behind.tolist(), strict=True)), int(tags_between[goes_on].sum())


def wrong_times(
    time_diff_s: NDArray[Any], store_timestamp: NDArray[np.int64], begin_timestamp: int
) -> NDArray[np.int64]:
    """The numbers of the items whose time is not what their records' store times (ms) give."""
    if begin_timestamp <= 0:
        return np.flatnonzero(time_diff_s != 0)
    return np.flatnonzero(np.clip((store_timestamp - begin_timestamp) // 1000, 0, _MAX_DIFF_S) != time_diff_s)


def _aligned(items: NDArray[np.void], physical: NDArray[np.int64], expected: ExpectedItems) -> NDArray[np.int64] | None:
    """The places of items that follow one another as expected, with or without those of tags; None if they do not."""
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
    """The place of each item by itself."""
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
