"""The tasks of `check` that look at IndexFiles: one file a task, against the items that the decode tasks left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.index_file import Header
from reput.index.files import items_at, read_items, read_slots
from reput.pipeline import parts
from reput.pipeline.check_queues import flags_path
from reput.pipeline.job import Job
from reput.store.index_rules import ChainRule, ExpectedItems, header_faults, match_items

_ITEMS_AT_ONCE = 1 << 18


class IndexPart(NamedTuple):
    """The items that one split gives: lengths of its columns, and the physical offsets [begin, end) of its records."""

    split: int
    records: int
    items: int
    begin: int
    end: int


class IndexFileToCheck(NamedTuple):
    """An IndexFile and the log's limits: items below `log_min` have expired, none may stand past `log_max`."""

    path: str
    header: Header
    log_min: int
    log_max: int


class IndexFinding(NamedTuple):
    """Something wrong in an IndexFile; `offset` is a byte of the file."""

    rule: str
    file: str
    offset: int | None
    times: int
    detail: str


class IndexFileChecked(NamedTuple):
    """What a task found in one file: findings, items seen, items repeated, and the expected items that it covers.

    `covered`: (split, begin, end) ranges of a split's items.
    """

    findings: list[IndexFinding]
    items: int
    repeated: int
    covered: list[tuple[int, int, int]]


def check_index_file(job: Job, index_parts: Sequence[IndexPart], file: IndexFileToCheck) -> IndexFileChecked:
    """Check one IndexFile: header, links, slots, and each item against the records."""
    return _FileCheck(job, index_parts, file).run()


class _FileCheck:
    """One file, read once, a block of items at a time."""

    def __init__(self, job: Job, index_parts: Sequence[IndexPart], file: IndexFileToCheck) -> None:
        self.job = job
        self.parts = index_parts
        self.file = file
        self.chain = ChainRule.for_slots(job.index_slots)
        self.findings: list[IndexFinding] = []
        self.covered: list[tuple[int, int, int]] = []
        self.repeated = 0

    def run(self) -> IndexFileChecked:
        """Check the file."""
        header = self.file.header
        faults = header_faults(header, self.job.index_slots, self.job.index_items)
        for fault in faults:
            self._found("index-header", 0, 1, fault)
        count = min(max(header.index_count - 1, 0), self.job.index_items - 1)
        items = None
        for number, part, items in self._stretches(count):
            self._match(number, part, items)
        self._check_chain()
        if items is not None and not faults:
            self._check_header_ends(count)
        return IndexFileChecked(self.findings, count, self.repeated, self.covered)

    def _found(self, rule: str, offset: int | None, count: int, detail: str) -> None:
        self.findings.append(IndexFinding(rule, self.file.path, offset, count, detail))

    def _stretches(self, count: int) -> Iterator[tuple[int, IndexPart | None, NDArray[np.void]]]:
        """The items in runs that fall into one split: number of the first, the split's part (None: no record there)."""
        number, at_part = 1, 0
        while number <= count:
            block = read_items(
                Path(self.file.path), self.job.index_slots, number, min(count - number + 1, _ITEMS_AT_ONCE)
            )
            if not len(block):
                self._found("index-file-short", None, count - number + 1, f"the file ends before item {number}")
                return
            self.chain.follow(block)
            physical = block["physical_offset"].astype(np.int64)
            falls = np.flatnonzero(np.diff(physical) < 0)
            if len(falls):
                place = items_at(self.job.index_slots, number + int(falls[0]) + 1)
                self._found("index-order", place, len(falls), "physical offsets run backwards")
            done = 0
            while done < len(block):
                # A damaged item may point anywhere: the search begins anew where it does not go on.
                if at_part and physical[done] < self.parts[at_part - 1].end:
                    at_part = 0
                while at_part < len(self.parts) and self.parts[at_part].end <= physical[done]:
                    at_part += 1
                part = self.parts[at_part] if at_part < len(self.parts) else None
                if part is None:
                    cut = len(block)
                elif physical[done] < part.begin:
                    cut = done + int(np.searchsorted(physical[done:], part.begin))
                    part = None
                else:
                    cut = done + int(np.searchsorted(physical[done:], part.end))
                cut = max(cut, done + 1)
                yield number + done, part, block[done:cut]
                done = cut
            number += len(block)

    def _match(self, number: int, part: IndexPart | None, items: NDArray[np.void]) -> None:
        place = items_at(self.job.index_slots, number)
        if part is None:
            self._outside(place, items)
            return
        expected = self._expected(part)
        matched = match_items(items, expected, self.file.header.begin_timestamp, number)
        self.repeated += matched.repeated
        for begin, end in _ranges(matched.covered):
            self.covered.append((part.split, begin, end))
        if matched.wrong:
            item = items[matched.first_wrong]
            self._found(
                "index-item-without-record",
                items_at(self.job.index_slots, number + matched.first_wrong),
                matched.wrong,
                f"item {number + matched.first_wrong} (hash {item['key_hash']}, offset {item['physical_offset']}): "
                "no record there gives it",
            )
        if matched.bad_times:
            at = items_at(self.job.index_slots, number + matched.first_bad_time)
            self._found("index-item-time", at, matched.bad_times, "time differences that the records do not give")

    def _outside(self, place: int, items: NDArray[np.void]) -> None:
        physical = items["physical_offset"].astype(np.int64)
        past = int((physical >= self.file.log_max).sum())
        between = int(((physical >= self.file.log_min) & (physical < self.file.log_max)).sum())
        if past:
            self._found("index-item-past-end", place, past, f"items behind the log's end at {self.file.log_max}")
        if between or (physical < 0).any():
            count = between + int((physical < 0).sum())
            self._found("index-item-without-record", place, count, "items that point to no record")

    _cached: tuple[int, ExpectedItems] | None = None

    def _expected(self, part: IndexPart) -> ExpectedItems:
        if self._cached is None or self._cached[0] != part.split:
            self._cached = (part.split, load_expected(self.job, part))
        return self._cached[1]

    def _check_chain(self) -> None:
        chain, header = self.chain, self.file.header
        if chain.broken:
            place = items_at(self.job.index_slots, chain.first_broken)
            self._found("index-chain", place, chain.broken, f"item {chain.first_broken} links to the wrong item")
        present = read_slots(Path(self.file.path), self.job.index_slots)
        wrong, ahead = chain.wrong_slots(present, header.index_count)
        real = np.setdiff1d(wrong, ahead)
        if len(real):
            self._found("index-slot", 40 + 4 * int(real[0]), len(real), "slots that do not name their newest item")
        if len(ahead):
            self._found("index-slot-ahead", 40 + 4 * int(ahead[0]), len(ahead), "slots ahead of the header's count")
        if not len(wrong) and header.hash_slot_count != chain.used_slots:
            detail = f"hash_slot_count {header.hash_slot_count}, {chain.used_slots} slots are in use"
            self._found("index-header", 32, 1, detail)

    def _check_header_ends(self, count: int) -> None:
        path, slots, header = Path(self.file.path), self.job.index_slots, self.file.header
        first, last = read_items(path, slots, 1, 1), read_items(path, slots, count, 1)
        if not len(first) or not len(last):
            return
        ends = int(first["physical_offset"][0]), int(last["physical_offset"][0])
        if ends != (header.begin_physical_offset, header.end_physical_offset):
            said = f"{header.begin_physical_offset} to {header.end_physical_offset}"
            self._found("index-header", 16, 1, f"header says {said}, items {ends[0]} to {ends[1]}")
            return
        times = header.begin_timestamp, header.end_timestamp
        for offset, said_ms, physical in zip((0, 8), times, ends, strict=True):
            stored_ms = self._store_timestamp(physical)
            if stored_ms is not None and stored_ms != said_ms:
                detail = f"header says store time {said_ms}, the record at {physical} has {stored_ms}"
                self._found("index-header", offset, 1, detail)

    def _store_timestamp(self, physical: int) -> int | None:
        """Store time (ms) of the record at a physical offset; None where the log has none with items."""
        part = next((one for one in self.parts if one.begin <= physical < one.end), None)
        if part is None:
            return None
        expected = self._expected(part)
        place = int(np.searchsorted(expected.physical_offset, physical))
        if place == len(expected.physical_offset) or expected.physical_offset[place] != physical:
            return None
        return int(expected.store_timestamp[place])


def load_expected(job: Job, part: IndexPart) -> ExpectedItems:
    """The items that a split's records give, with what each is checked against."""
    columns = parts.load_items(parts.items_path(job.parts_folder, part.split), part.records, part.items)
    tagged = fs.load_array(flags_path(job.parts_folder, part.split), "u1", part.records).astype(np.bool_)
    counts = np.diff(columns.first_item)
    is_tag = np.zeros(part.items, dtype=np.bool_)
    is_tag[columns.first_item[1:][tagged] - 1] = True
    return ExpectedItems(
        np.repeat(columns.position, counts),
        np.repeat(columns.store_timestamp, counts),
        columns.item_hash,
        is_tag,
    )


def _ranges(covered: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], covered, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _has_twin(expected: ExpectedItems, covered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Items whose record has a covered item of the same hash: two of its keys hash alike, and either finds it."""
    record = np.cumsum(np.diff(expected.physical_offset, prepend=-1) != 0)
    identity = (record << 32) | expected.key_hash.astype(np.int64)
    return np.isin(identity, identity[covered])


class Uncovered(NamedTuple):
    """Items of one split that no IndexFile has: keys and tags apart, and where the first key's record stands."""

    keys: int
    tags: int
    first_key: int
    last_key: int


def find_uncovered(job: Job, work: tuple[IndexPart, Sequence[tuple[int, int]]]) -> Uncovered:
    """Which items of a split are in none of the ranges that the IndexFiles cover."""
    part, ranges = work
    expected = load_expected(job, part)
    missing = np.ones(part.items, dtype=np.bool_)
    for begin, end in ranges:
        missing[begin:end] = False
    missing &= ~_has_twin(expected, ~missing)
    keys = np.flatnonzero(missing & ~expected.is_tag)
    positions = expected.physical_offset[keys]
    return Uncovered(
        len(keys),
        int((missing & expected.is_tag).sum()),
        int(positions[0]) if len(keys) else -1,
        int(positions[-1]) if len(keys) else -1,
    )
