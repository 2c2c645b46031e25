"""The check of ConsumeQueueExt: each address leads to a unit that agrees with the log.

Units follow one another. A unit between them, or after the last one, belongs to no entry: RocketMQ leaves such units
when it dispatches messages again after a crash, and they do no harm.

Bitmaps are compared with the filters in consumerFilter.json, by the rules by which a pull trusts them. A bitmap of the
Bloom filter's size, of a message stored after a filter was registered, must have the filter's bits if the message
matches: otherwise the group never gets it. Extra bits cost one read. Their group may have been
removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.bitmaps import FilterBits
from reput.dispatch.sql import CompiledFilter
from reput.dispatch.sql.columns import RecordProperties
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.log.record import MIN_RECORD_SIZE
from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey, is_blank
from reput.formats.queue.consume_queue_ext import END_ROOM, MAX_ADDRESS, MIN_ADDRESS, UNIT_SIZE
from reput.formats.topics.lite_topics import is_light
from reput.log.read.maps import LogMaps
from reput.pipeline.build.queues.ext import are_of_topic, store_times
from reput.pipeline.check.ext_missing import EntriesWithoutUnit
from reput.pipeline.check.queue_finding import QueueFinding
from reput.pipeline.split.ext_job import ExtJob
from reput.pipeline.split.job import Job
from reput.pipeline.split.sink import queue_path
from reput.queue.ext import ExtReader, list_ext_files
from reput.store.read.sql_filter import plain_entries
from reput.store.recover.ext_end import end_of_units

_MISSING, _WITHOUT_UNIT = "ext-missing", "ext-without-unit"
_MISSING_BITS, _STRAY_BITS = "ext-bitmap-missing", "ext-bitmap-stray"
_ORPHANS = "ext-orphans"
_ENTRIES_AT_ONCE = 1 << 16
_BITS_IN_WORDS = {
    _MISSING_BITS: "bitmaps without the bits of a registered filter that matches: its group does not get the message",
    _STRAY_BITS: "bitmaps with bits that no registered filter gives: an earlier filter, or damage",
}


def plain(job: Job, key: QueueKey, entries: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return entries as without ext: an address without a unit stays, and so is found wrong."""
    if job.ext is None or not len(entries):
        return entries
    return plain_entries(entries, key, _reader(job, job.ext.file_size))


def unit_findings(job: Job, key: QueueKey, first: int, end: int) -> list[QueueFinding]:
    """Find faults in the units of a queue whose records have queue offsets [first, end)."""
    if job.ext is None:
        return []
    reader = _reader(job, job.ext.file_size)
    found = [
        QueueFinding("ext-file-size", str(file.path), None, 1, -1, f"{file.size} bytes instead of {job.ext.file_size}")
        for file in list_ext_files(reader.folder, key)
        if file.size != job.ext.file_size and job.judged_to is None
    ]
    with job.ext.log_maps() as log:
        return found or _UnitWalk(job, job.ext, key, reader, log).findings(first, end)


def _reader(job: Job, file_size: int) -> ExtReader:
    return ExtReader(Path(job.checked) / "consumequeue_ext", file_size)


class _BornFilter(NamedTuple):
    """A compiled filter, its bits as a bitmap (uint8), and the time (ms) from which bitmaps have them."""

    filter: CompiledFilter
    bits: NDArray[np.uint8]
    born_ms: int


class _Bitmaps:
    """The bits that a topic's registered filters require; `any_bits`: those of filters that cannot be compiled."""

    def __init__(self, ext: ExtJob, topic: bytes) -> None:
        self.size = ext.bitmap_size
        self.any_bits = np.zeros(self.size, dtype=np.uint8)
        self.filters: list[_BornFilter] = []
        for (text, positions), born_ms in zip(ext.filters.get(topic, ()), ext.born_ms.get(topic, ()), strict=True):
            one, bits = FilterBits.of(text, positions), np.zeros(self.size, dtype=np.uint8)
            for position in positions:
                bits[position // 8] |= np.uint8(1 << position % 8)
            if one.compiled is None:
                self.any_bits |= bits
            else:
                self.filters.append(_BornFilter(one.compiled, bits, born_ms))

    def judge(
        self, bitmaps: NDArray[np.uint8], times: NDArray[np.int64], records: RecordProperties
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks of the bitmaps (uint8, one row a message) that lack required bits, and that have other bits."""
        missing: NDArray[np.bool_] = np.zeros(len(bitmaps), dtype=np.bool_)
        known = np.repeat(self.any_bits[None, :], len(bitmaps), axis=0)
        for one in self.filters:
            matched = one.filter.select(records)
            lacking: NDArray[np.bool_] = np.any((bitmaps & one.bits) != one.bits, axis=1)
            missing |= matched & (times > one.born_ms) & lacking
            known[matched] |= one.bits
        stray: NDArray[np.bool_] = np.any((bitmaps & ~known) != 0, axis=1)
        return missing, stray


class _UnitWalk:
    """Walks a queue's entries and units in order; `expected`: the offset of the next unit (-1: any)."""

    def __init__(self, job: Job, ext: ExtJob, key: QueueKey, reader: ExtReader, log: LogMaps) -> None:
        self.job, self.key, self.reader, self.log = job, key, reader, log
        self.folder = queue_path(f"{job.checked}/consumequeue", key)
        self.bitmaps = _Bitmaps(ext, key.topic) if ext.filters.get(key.topic) else None
        self.expected = -1
        self.wrong: dict[str, tuple[int, int, str]] = {}
        self.wrong_bits: dict[str, tuple[int, int]] = {}

    def findings(self, first: int, end: int) -> list[QueueFinding]:
        """Find faults in the entries [first, end) and after them, one for each rule."""
        self.bare = EntriesWithoutUnit(self.key, self.reader, self._units_begin(first))
        in_file, position = self.job.queue_file_size // ENTRY_SIZE, first
        while position < end:
            count = min(_ENTRIES_AT_ONCE, end - position, in_file - position % in_file)
            self._piece(position, count)
            position += count
        self._note_bare()
        found = []
        for rule, (times, place, detail) in self.wrong.items():
            at = place * ENTRY_SIZE % self.job.queue_file_size
            path = f"{self.folder}/{offset_name(place * ENTRY_SIZE - at)}"
            found.append(QueueFinding(rule, path, at, times, -1, detail))
        for rule, (times, address) in self.wrong_bits.items():
            start = address // self.reader.file_size * self.reader.file_size
            path = f"{queue_path(str(self.reader.folder), self.key)}/{offset_name(start)}"
            found.append(QueueFinding(rule, path, address - start, times, -1, _BITS_IN_WORDS[rule]))
        is_whole = first < end and not self.wrong.keys() - {_WITHOUT_UNIT}
        return [*found, *self._after_last()] if is_whole and self.job.judged_to is None else found

    def _piece(self, first: int, count: int) -> None:
        start = first * ENTRY_SIZE // self.job.queue_file_size * self.job.queue_file_size
        path = f"{self.folder}/{offset_name(start)}"
        data = fs.read_bytes(path, count * ENTRY_SIZE, first * ENTRY_SIZE - start) or b""
        entries = np.frombuffer(data, dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)
        begin, size = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
        codes = entries["tags_code"].astype(np.int64)
        is_message = (size > 0) & ~is_blank(begin, size)
        rows = np.flatnonzero(is_message & (codes <= MAX_ADDRESS))
        bare = np.flatnonzero(is_message & (codes > MAX_ADDRESS))
        bare = bare[self._should_have_units(begin[bare])]
        self.bare.add(first, bare, np.where(is_message, codes, 0), self._times(begin[bare]))
        if not len(rows):
            return
        units = self.reader.units(self.key, codes[rows])
        self._note("ext-address", first, rows[~units.found], "addresses that lead to no unit, first at queue offset")
        rows, sizes = rows[units.found], units.size[units.found]
        times = self._times(begin[rows])
        other = (times >= 0) & (times != units.store_timestamp[units.found])
        self._note("ext-store-time", first, rows[other], "units with another store time than the record, first at")
        self._judge_bitmaps(
            codes[rows], begin[rows], units.size[units.found], times == units.store_timestamp[units.found]
        )
        back, ahead = self._out_of_order(codes[rows] - np.int64(MIN_ADDRESS), sizes)
        self._note("ext-order", first, rows[back], "units that begin before the end of the unit before, first at")
        self._note(_ORPHANS, first, rows[ahead], "places between units that no entry leads to, first before")

    def _judge_bitmaps(
        self,
        addresses: NDArray[np.int64],
        positions: NDArray[np.int64],
        sizes: NDArray[np.int64],
        is_right: NDArray[np.bool_],
    ) -> None:
        """Look at the bitmaps of units that are their records' (`is_right`)."""
        if self.bitmaps is None:
            return
        chosen = np.flatnonzero(is_right & (sizes == UNIT_SIZE + self.bitmaps.size))
        for array, rows, start in self.log.by_file(positions[chosen], strict=True):
            mine = chosen[rows]
            inside = positions[mine] - start
            bitmaps = self.reader.bitmaps(self.key, addresses[mine], self.bitmaps.size)
            judged = self.bitmaps.judge(bitmaps, store_times(array, inside), RecordProperties(array, inside))
            for rule, wrong in zip((_MISSING_BITS, _STRAY_BITS), judged, strict=True):
                if wrong.any():
                    first = int((addresses[mine[wrong]] - np.int64(MIN_ADDRESS))[0])
                    times, place = self.wrong_bits.get(rule, (0, first))
                    self.wrong_bits[rule] = times + int(np.count_nonzero(wrong)), place

    def _units_begin(self, first: int) -> int:
        """Return the begin of the units of entries from queue offset `first` on; -1 if unknown."""
        try:
            return end_of_units(Path(self.folder), self.reader, self.key, first)
        except DamagedStoreError:
            return -1

    def _should_have_units(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the log offsets that have a record of the queue's topic."""
        own = np.zeros(len(positions), dtype=np.bool_)
        if is_light(self.key.topic):
            return own
        for array, rows, start in self.log.by_file(positions):
            mine = rows[positions[rows] - start + MIN_RECORD_SIZE <= len(array)]
            own[mine] = are_of_topic(array, positions[mine] - start, self.key.topic)
        return own

    def _note_bare(self) -> None:
        self.bare.end()
        if self.bare.count:
            rule, what = _WITHOUT_UNIT, "entries without an address, and without a unit"
            if self.bare.has_lost:
                rule, what = _MISSING, "entries without an address, although their units exist"
            self.wrong[rule] = self.bare.count, self.bare.first, f"{what}, first at queue offset {self.bare.first}"

    def _times(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the store times of the records; -1 without a record, which another rule reports."""
        times = np.full(len(positions), -1, dtype=np.int64)
        for array, rows, start in self.log.by_file(positions):
            mine = rows[positions[rows] - start + MIN_RECORD_SIZE <= len(array)]
            times[mine] = store_times(array, positions[mine] - start)
        return times

    def _out_of_order(
        self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks of the units that begin before the expected offset, and after it."""
        if not len(offsets):
            return np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.bool_)
        expected = np.concatenate([np.array([self.expected], dtype=np.int64), (offsets + sizes)[:-1]])
        self.expected = int(offsets[-1] + sizes[-1])
        size = self.reader.file_size
        # A unit that does not fit in a file is the first of the next one.
        rolled = (expected // size * size + size == offsets) & (expected % size + sizes > size - END_ROOM)
        known = ~rolled & (expected >= 0)
        return known & (offsets < expected), known & (offsets > expected)

    def _note(self, rule: str, first: int, rows: NDArray[np.int64], what: str) -> None:
        if len(rows):
            times, place, detail = self.wrong.get(rule, (0, first + int(rows[0]), f"{what} {first + int(rows[0])}"))
            self.wrong[rule] = times + len(rows), place, detail

    def _after_last(self) -> list[QueueFinding]:
        """Find bytes after the last unit."""
        for file in list_ext_files(self.reader.folder, self.key):
            # Without any address in the queue every byte counts.
            begin = max(0, self.expected - file.start)
            written = fs.end_of_data(file.path, file.size)
            data = fs.read_bytes(file.path, max(0, written - begin), begin) or b""
            if data.strip(b"\0"):
                detail = "units after that of the queue's last entry: the next ones overwrite them"
                if self.expected < 0:
                    detail = "units of a queue whose entries lead to none"
                return [QueueFinding(_ORPHANS, str(file.path), begin, 1, -1, detail)]
        return []
