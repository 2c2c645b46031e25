"""The tasks of `check` for IndexFiles: one file a task, compared with the items of the decode tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.index.index_file import HEADER_SIZE, SLOT_SIZE, Header, items_at
from reput.index.files import read_items, read_slots
from reput.pipeline.check.items import IndexPart, ItemBlock, ItemMatcher, LogItems, load_expected
from reput.pipeline.split.job import Job
from reput.store.compare.index_rules import (
    PAST_END,
    REPEATED,
    WRONG,
    ChainRule,
    ExpectedItems,
    empty_header_faults,
    header_faults,
    header_field_at,
    runs_of,
    wrong_times,
)

_ITEMS_AT_ONCE = 1 << 18


class IndexFileToCheck(NamedTuple):
    """An IndexFile, the header of the file before (None without one to trust), and the log's limits.

    Items below `log_min` have expired, and none may name a record from `log_max` on, which is just after the begin of
    the last record; the log itself goes to `log_end`. If the file `grows`, items of records from `log_max` on, and
    values that depend on them, are not checked.
    """

    path: str
    header: Header
    before: Header | None
    log_min: int
    log_max: int
    log_end: int
    grows: bool = False


class IndexFinding(NamedTuple):
    """A fault in an IndexFile; `offset` is a byte of the file."""

    rule: str
    file: str
    offset: int | None
    times: int
    detail: str


class IndexFileChecked(NamedTuple):
    """The result for one file: findings, items, repeated items, and the items of the log that it covers.

    `covered`: ranges [begin, end) of the log's items, numbered from its begin; `skipped_tags`: tags in these ranges
    without an item.
    """

    findings: list[IndexFinding]
    items: int
    repeated: int
    covered: list[tuple[int, int]]
    skipped_tags: int


class _End(NamedTuple):
    """The record of a file's first or last item: its physical offset and store time (ms; -1: unknown)."""

    physical_offset: int
    store_timestamp: int


def check_index_file(job: Job, index_parts: Sequence[IndexPart], file: IndexFileToCheck) -> IndexFileChecked:
    """Check one IndexFile: header, links, slots, and each item against the records."""
    return _IndexFileRead(job, index_parts, file).run()


class _IndexFileRead:
    """One file, read once, a block of items at a time."""

    def __init__(self, job: Job, index_parts: Sequence[IndexPart], file: IndexFileToCheck) -> None:
        self.job = job
        self.file = file
        self.path = Path(file.path)
        self.log_items = LogItems(job, index_parts)
        self.matcher = ItemMatcher(self.log_items, file.log_min, file.log_max)
        self.chain = ChainRule.for_slots(job.index_slots)
        self.findings: dict[tuple[str, str], IndexFinding] = {}
        self.covered: list[tuple[int, int]] = []
        self.repeated = self.skipped_tags = 0
        self.first: _End | None = None
        self.last: _End | None = None
        self.newest_physical = -1
        self.past: list[int] = []
        self.is_cut = False

    def run(self) -> IndexFileChecked:
        """Check the file."""
        header = self.file.header
        faults = header_faults(header, self.job.index_slots, self.job.index_items)
        for fault in faults:
            self._found("index-header", fault.offset, 1, fault.detail)
        count = min(max(header.index_count - 1, 0), self.job.index_items - 1)
        whole = self._check_items(count)
        self._check_chain({fault.offset for fault in faults})
        if count and whole and not faults:
            self._check_header_ends()
        elif not count and not faults:
            self._check_empty_header()
        if self.is_cut:
            count = self.chain.number - 1
        return IndexFileChecked(list(self.findings.values()), count, self.repeated, self.covered, self.skipped_tags)

    def _found(self, rule: str, offset: int | None, times: int, detail: str, kind: str = "") -> None:
        """Add a finding; each rule and kind has one, with the first place and the count."""
        kind = kind or detail
        before = self.findings.get((rule, kind))
        if before is not None:
            self.findings[rule, kind] = before._replace(times=before.times + times)
        else:
            self.findings[rule, kind] = IndexFinding(rule, self.file.path, offset, times, detail)

    def _check_items(self, count: int) -> bool:
        """Check all items; returns True if the file has them all."""
        number = 1
        while number <= count:
            items = read_items(self.path, self.job.index_slots, number, min(count - number + 1, _ITEMS_AT_ONCE))
            if not len(items):
                self._found("index-file-short", None, count - number + 1, f"the file ends before item {number}")
                return False
            if self.file.grows and (late := items["physical_offset"] >= self.file.log_max).any():
                self.is_cut, items = True, items[: int(np.argmax(late))]
                if not len(items):
                    break
            block = self.matcher.match(items)
            self.chain.follow(items, block.key_hash, block.own == WRONG)
            self._check_block(number, items, block)
            number += len(items)
            if self.is_cut:
                break
        if self.past:
            first, times = self.past[0], len(self.past)
            detail = f"items after the log's end at {self.file.log_end}"
            self._found("index-item-past-end", self._at(first), times, detail)
        return True

    def _at(self, number: int) -> int:
        return items_at(self.job.index_slots, number)

    def _check_block(self, number: int, items: NDArray[np.void], block: ItemBlock) -> None:
        wrong = block.own == WRONG
        if (block.own >= 0).any():
            # The file continues after what looked like its end, so these offsets are wrong.
            for early in self.past:
                self._found("index-item-without-record", self._at(early), 1, f"item {early}: {_NO_RECORD}", "wrong")
            self.past = []
        if wrong.any():
            at = int(np.argmax(wrong))
            said = f"hash {items['key_hash'][at]}, offset {items['physical_offset'][at]}"
            detail = f"item {number + at} ({said}): {_NO_RECORD}"
            self._found("index-item-without-record", self._at(number + at), int(wrong.sum()), detail, "wrong")
        self.past += (np.flatnonzero(block.own == PAST_END) + number).tolist()
        self.repeated += int((block.own == REPEATED).sum())
        self._cover(block)
        self._check_order(number, block)
        if self.first is None:
            self.first = _end_of(block, 0)
        self.last = _end_of(block, -1)
        self._check_times(number, items, block)

    def _cover(self, block: ItemBlock) -> None:
        for begin, end in block.covered:
            if self.covered and self.covered[-1][1] == begin:
                self.covered[-1] = (self.covered[-1][0], end)
            else:
                self.covered.append((begin, end))
        self.skipped_tags += block.skipped_tags

    def _check_order(self, number: int, block: ItemBlock) -> None:
        known = np.flatnonzero((block.places != WRONG) & (block.places != PAST_END))
        if not len(known):
            return
        physical = block.physical_offset[known]
        falls = known[np.flatnonzero(np.diff(physical, prepend=max(self.newest_physical, 0)) < 0)]
        if len(falls):
            detail = "physical offsets run backwards"
            self._found("index-order", self._at(number + int(falls[0])), len(falls), detail)
        self.newest_physical = int(physical[-1])

    def _check_times(self, number: int, items: NDArray[np.void], block: ItemBlock) -> None:
        fits = np.flatnonzero(block.own >= 0)
        # Item 1 was written when the header still held the end of the file before.
        fits = fits[fits > 0] if number == 1 else fits
        begin = self.first.store_timestamp if self.first and self.first.store_timestamp >= 0 else -1
        begin = begin if begin >= 0 else self.file.header.begin_timestamp
        bad = fits[wrong_times(items["time_diff_s"][fits], block.store_timestamp[fits], begin)]
        if len(bad):
            detail = "time differences that the records do not give"
            self._found("index-item-time", self._at(number + int(bad[0])), len(bad), detail)

    def _check_chain(self, said: Collection[int]) -> None:
        chain, header = self.chain, self.file.header
        if chain.broken:
            detail = f"item {chain.first_broken} links to the wrong item"
            self._found("index-chain", self._at(chain.first_broken), chain.broken, detail)
        present = read_slots(self.path, self.job.index_slots)
        wrong, ahead = chain.wrong_slots(present, max(header.index_count, 1))
        if self.file.grows and len(present) == len(chain.slots):
            # A slot that names a later item was right before that came.
            wrong, ahead = wrong[present[wrong] < chain.number], ahead[:0]
        real = np.setdiff1d(wrong, ahead)
        if len(real):
            at = HEADER_SIZE + SLOT_SIZE * int(real[0])
            self._found("index-slot", at, len(real), "slots that do not name their newest item")
        if len(ahead):
            at = HEADER_SIZE + SLOT_SIZE * int(ahead[0])
            self._found("index-slot-ahead", at, len(ahead), "slots ahead of the header's count")
        at = header_field_at("hash_slot_count")
        if not self.is_cut and not len(wrong) and header.hash_slot_count != chain.used_slots and at not in said:
            detail = f"hash_slot_count {header.hash_slot_count}, {chain.used_slots} slots are in use"
            self._found("index-header", at, 1, detail)

    def _check_header_ends(self) -> None:
        header = self.file.header
        for end, offset_name, time_name in (
            (self.first, "begin_physical_offset", "begin_timestamp"),
            (self.last, "end_physical_offset", "end_timestamp"),
        ):
            if end is None or (self.is_cut and end is self.last):
                continue
            said_offset, said_ms = getattr(header, offset_name), getattr(header, time_name)
            if said_offset != end.physical_offset:
                detail = f"{offset_name} {said_offset}, the item there says {end.physical_offset}"
                self._found("index-header", header_field_at(offset_name), 1, detail)
            elif end.store_timestamp >= 0 and said_ms != end.store_timestamp:
                detail = f"{time_name} {said_ms}, the record at {end.physical_offset} has {end.store_timestamp}"
                self._found("index-header", header_field_at(time_name), 1, detail)

    def _check_empty_header(self) -> None:
        header = self.file.header
        faults = empty_header_faults(header, self.file.before)
        for fault in faults:
            self._found("index-header", fault.offset, 1, fault.detail)
        if faults or self.file.before is not None or not header.begin_physical_offset:
            return
        # Only the log shows where the earlier files ended.
        physical = header.begin_physical_offset
        stored_ms = self._store_timestamp(physical)
        if stored_ms is not None and stored_ms != header.begin_timestamp:
            detail = f"begin_timestamp {header.begin_timestamp}, the record at {physical} has {stored_ms}"
            self._found("index-header", header_field_at("begin_timestamp"), 1, detail)
        elif stored_ms is None and physical >= self.file.log_min:
            detail = f"begin_physical_offset {physical}, where there is no record with keys"
            self._found("index-header", header_field_at("begin_physical_offset"), 1, detail)

    def _store_timestamp(self, physical: int) -> int | None:
        """Return the store time (ms) of the record at a physical offset; None if the log has none with items there."""
        (row,) = self.log_items.rows_of(np.array([physical], dtype=np.int64)).tolist()
        if row < 0:
            return None
        expected = self.log_items.expected(row)
        place = int(np.searchsorted(expected.physical_offset, physical))
        if place == len(expected.physical_offset) or expected.physical_offset[place] != physical:
            return None
        return int(expected.store_timestamp[place])


_NO_RECORD = "no record there gives it"


def _end_of(block: ItemBlock, at: int) -> _End | None:
    """Return the record of a block's first (0) or last (-1) item; None if the item is wrong and has no known record."""
    if block.places[at] in (WRONG, PAST_END):
        return None
    return _End(int(block.physical_offset[at]), int(block.store_timestamp[at]))


def _has_twin(expected: ExpectedItems, covered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the items whose record has a covered item of the same hash: a search for either key finds the record."""
    record = np.cumsum(np.diff(expected.physical_offset, prepend=-1) != 0)
    identity = (record << 32) | expected.key_hash.astype(np.int64)
    return np.isin(identity, identity[covered])


class Uncovered(NamedTuple):
    """Items of one split that no IndexFile has, and the log offset of the first one's record (-1: none).

    `tags`: those among tags alone, which brokers before 5.4.0 left out; `items`: all others.
    """

    items: int
    tags: int
    first: int


def find_uncovered(job: Job, work: tuple[IndexPart, Sequence[tuple[int, int]]]) -> Uncovered:
    """Find the items of a split that are in none of the ranges that the IndexFiles cover."""
    part, ranges = work
    expected = load_expected(job, part)
    missing = np.ones(part.items, dtype=np.bool_)
    for begin, end in ranges:
        missing[begin:end] = False
    missing &= ~_has_twin(expected, ~missing)
    lost = missing.copy()
    for begin, end in runs_of(missing):
        # Tags alone were never written. If keys are missing with them, the tags are lost too.
        if expected.is_tag[begin:end].all():
            lost[begin:end] = False
    places = np.flatnonzero(lost)
    first = int(expected.physical_offset[places[0]]) if len(places) else -1
    return Uncovered(len(places), int((missing & ~lost).sum()), first)
