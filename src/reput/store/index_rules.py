"""What a sound IndexFile is: pure rules over its items, slots and header, and over the items that the log gives.

Within a file everything but the items' own values follows from the order of the items: each item's link, each slot, the
count of slots in use. The items themselves must be those of records, complete and in log order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reput.formats.index_file import ITEM_SIZE, Header
from reput.kernels import kernels

_MAX_DIFF_S = 0x7FFFFFFF


def header_faults(header: Header, slots: int, items: int) -> list[str]:
    """What is impossible in a header, as phrases."""
    faults = []
    if not 1 <= header.index_count <= items:
        faults.append(f"index_count {header.index_count} is not between 1 and {items}")
    if not 0 <= header.hash_slot_count <= min(slots, max(header.index_count, 0)):
        faults.append(f"hash_slot_count {header.hash_slot_count} is more than its items or slots")
    if header.index_count == 1 and header.hash_slot_count != 0:
        faults.append(f"hash_slot_count {header.hash_slot_count} in a file without items")
    if min(header.begin_physical_offset, header.end_physical_offset) < 0:
        faults.append(f"a negative physical offset ({header.begin_physical_offset}, {header.end_physical_offset})")
    if min(header.begin_timestamp, header.end_timestamp) < 0:
        faults.append(f"a negative time ({header.begin_timestamp}, {header.end_timestamp})")
    # Until its first item is in, a file holds its predecessor's end, in both fields.
    if header.index_count == 1 and (
        header.begin_physical_offset != header.end_physical_offset or header.begin_timestamp != header.end_timestamp
    ):
        faults.append("a begin and an end that differ, in a file without items")
    if header.begin_physical_offset > header.end_physical_offset:
        faults.append(f"begins at {header.begin_physical_offset}, behind its end at {header.end_physical_offset}")
    return faults


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

    def follow(self, items: NDArray[np.void]) -> None:
        """Take the next items (`index_file.ITEM.dtype`) of the file."""
        count = len(items)
        hashes = items["key_hash"].astype(np.int32)
        # A hash is never negative; take what it would be, so that a damaged one cannot leave the slots.
        hashes &= np.int32(0x7FFFFFFF)
        out = np.empty(count * ITEM_SIZE, dtype=np.uint8)
        zeros = np.zeros(count, dtype=np.int64)
        each_its_own = np.arange(count + 1, dtype=np.int32)
        fresh, _ = kernels().chain_items(
            0, 0, count, each_its_own, zeros, zeros, hashes, self.slots, self.number, 0, out
        )
        links = out.view(items.dtype)["previous_item"]
        broken = np.flatnonzero((links != items["previous_item"]) | (items["key_hash"] < 0))
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


@dataclass(slots=True)
class Matched:
    """How the items of a file fit those expected: `covered` marks expected items, the rest counts what does not fit.

    `first_wrong`, `first_bad_time` are numbers of items in the part looked at (-1: none).
    """

    covered: NDArray[np.bool_]
    wrong: int = 0
    first_wrong: int = -1
    repeated: int = 0
    bad_times: int = 0
    first_bad_time: int = -1
    notes: list[str] = field(default_factory=list)


def match_items(items: NDArray[np.void], expected: ExpectedItems, begin_timestamp: int, first_number: int) -> Matched:
    """Match items of a file, all of one stretch of log, to the expected ones.

    `first_number` is the number of the first of them in its file: item 1's time counts from another file's end.
    """
    matched = Matched(np.zeros(len(expected.key_hash), dtype=np.bool_))
    if not len(items):
        return matched
    physical = items["physical_offset"].astype(np.int64)
    places = _aligned(items, physical, expected)
    if places is None:
        places = _searched(items, physical, expected, matched)
    fits = places >= 0
    matched.covered[places[fits]] = True
    wrong = np.flatnonzero(places == -1)
    matched.wrong = len(wrong)
    matched.first_wrong = int(wrong[0]) if len(wrong) else -1
    _compare_times(items, places, expected, begin_timestamp, first_number, matched)
    return matched


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


def _searched(
    items: NDArray[np.void], physical: NDArray[np.int64], expected: ExpectedItems, matched: Matched
) -> NDArray[np.int64]:
    """The place of each item by itself: -1 where no record gives it, -2 where it repeats one."""
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
            matched.repeated += bool(same)
            places[number] = -2 if same else -1
    return places


def _compare_times(
    items: NDArray[np.void],
    places: NDArray[np.int64],
    expected: ExpectedItems,
    begin_timestamp: int,
    first_number: int,
    matched: Matched,
) -> None:
    fits = np.flatnonzero(places >= 0)
    if first_number == 1:
        fits = fits[fits != 0]
    passed = expected.store_timestamp[places[fits]] - begin_timestamp
    diff = np.clip(passed // 1000, 0, _MAX_DIFF_S) if begin_timestamp > 0 else np.zeros(len(fits), dtype=np.int64)
    bad = fits[diff != items["time_diff_s"][fits]]
    matched.bad_times = len(bad)
    matched.first_bad_time = int(bad[0]) if len(bad) else -1
