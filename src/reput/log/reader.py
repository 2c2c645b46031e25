"""Reading a log record by record, or many at once: for looking at a store, not for rebuilding one.

walk = LogWalk(log, next_boundary(log, offset))
for found in walk: ...
walk.end()                  why it stopped, and whether records follow
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.record import CHECK_BODY, CHECK_NONE, Record, Verdict, decode_record, examine
from reput.kernels import SMALL_STEP, expect_work, is_small_work, kernels
from reput.kernels.columns import Columns, State, Stop
from reput.log.decode import DecodeSettings, RangeDecoder
from reput.log.files import LogFile, LogFiles, written_end
from reput.log.maps import LogMaps

# A body may imitate records in their very place. Whoever begins to read this far in front has left such a body behind
# when it arrives: RocketMQ's largest message is 4 MiB unless configured otherwise.
_RUN_UP_BYTES = 8 << 20
_USUAL_RECORD_BYTES = 512
_STRETCH_BYTES = 4 << 20
CLOCK_SLACK_MS = 60_000
"""Store times follow the broker's clock, and a clock may be set back: a search by time looks this much further."""


class LogRecord(NamedTuple):
    """A good record: its log offset and its bytes."""

    offset: int
    data: bytes

    def decode(self) -> Record:
        """The record's values."""
        return decode_record(self.data)


class WalkEnd(NamedTuple):
    """Why a walk ended at log offset `offset`: `verdict` says what stands there.

    `written` bytes from there to the last one that is not zero, and the next good record, None where no more follow:
    the log then just ends here, with a torn record if anything is written.
    """

    offset: int
    verdict: Verdict
    written: int
    next_record: int | None

    @property
    def is_damage(self) -> bool:
        """Whether good records follow behind bytes that are none."""
        return self.next_record is not None

    @property
    def is_torn(self) -> bool:
        """Whether the log ends with bytes that are no whole record."""
        return self.next_record is None and self.written > 0


class RecordStretch(NamedTuple):
    """Consecutive good records of one file; all arrays are gone with the next stretch.

    `buffer[0]` is at log offset `base`. `columns` has the records, row by row, and the table of their queues.
    """

    buffer: NDArray[np.uint8]
    base: int
    columns: Columns

    @property
    def position(self) -> NDArray[np.int64]:
        """Log offsets of the records."""
        return self.columns.position[: self.columns.records]

    @property
    def size(self) -> NDArray[np.int32]:
        """Bytes of each record."""
        return self.columns.size[: self.columns.records]


class LogWalk:
    """The records from log offset `begin` (a boundary) on, until the log ends or breaks, or up to the boundary `until`.

    `offset` is where the next record is expected, `verdict` what stopped the walk (GOOD while it may go on).
    """

    def __init__(self, log: LogFiles, begin: int, crc_check: int = CHECK_BODY, until: int | None = None) -> None:
        self.log = log
        self.until = log.end_offset if until is None else until
        self.offset = begin
        self.crc_check = crc_check
        self.verdict = Verdict.GOOD

    def __iter__(self) -> Iterator[LogRecord]:
        for file, array in self._files():
            yield from self._records_of(file, array)

    def stretches(self) -> Iterator[RecordStretch]:
        """The same records, many at once."""
        columns = Columns.for_range(_STRETCH_BYTES)
        for file, array in self._files():
            yield from self._stretches_of(file, array, columns)

    def _files(self) -> Iterator[tuple[LogFile, NDArray[np.uint8]]]:
        """The files to walk, mapped, up to the one in which the walk stops."""
        for file in self.log.files:
            if file.end <= self.offset:
                continue
            if self.offset >= self.until:
                return
            if self.offset < file.start:
                # Files are missing here.
                self.verdict = Verdict.ZERO
                return
            if file.data_end <= self.offset:
                self.verdict = Verdict.ZERO
                return
            with fs.mapped(file.path, 0, file.size) as array:
                yield file, array
            if self.verdict is not Verdict.GOOD:
                return
        self.verdict = Verdict.ZERO

    def _records_of(self, file: LogFile, array: NDArray[np.uint8]) -> Iterator[LogRecord]:
        data, end = array.data, min(file.end, self.until)
        while self.offset < end:
            position = self.offset - file.start
            verdict, size = examine(data, position, file.size, self.offset, self.crc_check)
            if verdict not in (Verdict.GOOD, Verdict.BLANK):
                self.verdict = verdict
                return
            begin, self.offset = self.offset, self.offset + size
            if verdict is Verdict.GOOD:
                yield LogRecord(begin, bytes(data[position : position + size]))

    def _stretches_of(self, file: LogFile, array: NDArray[np.uint8], columns: Columns) -> Iterator[RecordStretch]:
        decoder = RangeDecoder(array, file.start, DecodeSettings(self.crc_check, False, ()), columns)
        end, stop = min(file.end, self.until), Stop.REACHED_END
        while self.offset < end and stop is Stop.REACHED_END:
            columns.clear()
            step = SMALL_STEP if is_small_work() else _STRETCH_BYTES
            begin = self.offset - file.start
            stop = decoder.decode(begin, min(begin + step, end - file.start))
            expect_work(step)
            self.offset = file.start + int(columns.state[State.POSITION])
            verdict = Verdict(int(columns.state[State.VERDICT]))
            if columns.records:
                yield RecordStretch(array, file.start, columns)
            if stop is Stop.NOT_A_RECORD:
                self.verdict = verdict

    def end(self, search_bytes: int | None = None) -> WalkEnd:
        """What stands where the walk stopped; records behind are looked for in `search_bytes`, by default in all."""
        following = find_record(self.log, self.offset + 1, self.crc_check, search_bytes)
        return WalkEnd(self.offset, self.verdict, written_bytes(self.log, self.offset), following)

    def goes_on(self, end: WalkEnd) -> bool:
        """Whether a writer has filled the place at which the walk stopped while `end` looked behind it.

        The walk then goes on, up to the record that `end` found: all in front of that one is written by now.
        """
        if end.next_record is None:
            return False
        stands = record_at(self.log, self.offset, self.crc_check)
        if not isinstance(stands, LogRecord) and stands is not Verdict.BLANK:
            return False
        self.verdict, self.until = Verdict.GOOD, end.next_record
        return True


def find_record(log: LogFiles, offset: int, crc_check: int = CHECK_BODY, search_bytes: int | None = None) -> int | None:
    """The first place at or behind a log offset where a record stands, imitations in bodies included; None for none."""
    left = log.end_offset if search_bytes is None else search_bytes
    for file in log.files:
        begin = max(offset, file.start)
        end = min(file.data_end, begin + left)
        if begin >= end:
            continue
        with fs.mapped(file.path, 0, file.size) as array:
            found = kernels("reference").find_boundary(
                array, file.start, begin - file.start, end - file.start, file.size, crc_check
            )
        if found >= 0:
            return file.start + found
        left -= end - begin
    return None


def next_boundary(log: LogFiles, offset: int) -> int:
    """The first log offset at or behind `offset` where a record or a blank begins; the log's end without one.

    A file's start is a boundary as it stands. Elsewhere a walk takes a run-up, so that a body that imitates a record
    is not taken for one.
    """
    offset = max(offset, log.min_offset)
    file = file_of(log, offset)
    if file is None or offset == file.start:
        return offset
    position = max(file.start, offset - _RUN_UP_BYTES)
    while position < offset:
        walk = LogWalk(log, position, CHECK_NONE)
        for passed in walk:
            if passed.offset >= offset:
                return passed.offset
            if walk.offset >= offset:
                return walk.offset
        found = find_record(log, walk.offset + (walk.offset == position), CHECK_NONE)
        if found is None:
            return max(walk.offset, offset)
        position = found
    return position


def file_by_time(log: LogFiles, timestamp_ms: int) -> int:
    """The start of the last file that begins before a store time, clocks set back allowed for.

    A file that was made ahead and holds only zeros has no time.
    """
    maps = LogMaps(log.folder, log.file_size)
    found = log.min_offset
    try:
        for file in log.files:
            stored = maps.store_time(file.start) if file.data_end > file.start else -1
            if 0 < stored < timestamp_ms - CLOCK_SLACK_MS:
                found = file.start
    finally:
        maps.close()
    return found


def last_records(
    log: LogFiles, count: int, crc_check: int, wanted: Callable[[RecordStretch], NDArray[np.int64]], end: int
) -> int:
    """The log offset of the first of the last `count` wanted records; that of the first record where they are fewer.

    `wanted` gives the numbers of the wanted records of a stretch. The records begin in front of log offset `end`.
    """
    step = max(_RUN_UP_BYTES, count * _USUAL_RECORD_BYTES)
    while True:
        begin = max(log.min_offset, end - step)
        found: deque[int] = deque(maxlen=count)
        position: int | None = next_boundary(log, begin)
        while position is not None and position < end:
            walk = LogWalk(log, position, crc_check, end)
            for stretch in walk.stretches():
                found.extend(stretch.position[wanted(stretch)[-count:]].tolist())
            # What is damaged is passed over: whoever reads on from here meets it.
            position = find_record(log, walk.offset + 1, crc_check)
        if len(found) == count:
            return found[0]
        if begin == log.min_offset:
            return begin
        step *= 4


def record_at(log: LogFiles, offset: int, crc_check: int = CHECK_BODY) -> LogRecord | Verdict:
    """The record at a log offset, or what stands there instead."""
    file = file_of(log, offset)
    if file is None:
        return Verdict.ZERO
    with fs.mapped(file.path, 0, file.size) as array:
        data = array.data
        position = offset - file.start
        verdict, size = examine(data, position, file.size, offset, crc_check)
        return LogRecord(offset, bytes(data[position : position + size])) if verdict is Verdict.GOOD else verdict


def file_of(log: LogFiles, offset: int) -> LogFile | None:
    """The file in which a log offset lies."""
    return next((file for file in log.files if file.start <= offset < file.end), None)


def file_name(log: LogFiles, offset: int) -> str:
    """Name of the file in which a log offset lies, "-" for none."""
    file = file_of(log, offset)
    return file.path.name if file else "-"


def place(log: LogFiles, offset: int) -> str:
    """A log offset as file and position in it, for people."""
    file = file_of(log, offset)
    if file is None:
        return f"{log.folder} outside all files (log offset {offset})"
    return f"{file.path} at {offset - file.start} (log offset {offset})"


def log_end(log: LogFiles) -> int:
    """The log offset behind the last byte that is not zero."""
    return log.min_offset + written_bytes(log, log.min_offset)


def written_bytes(log: LogFiles, begin: int) -> int:
    """Bytes from log offset `begin` to the last one that is not zero."""
    for file in reversed(log.files):
        first = max(file.start, begin)
        if file.data_end > first:
            end = file.start + written_end(file.path, first - file.start, file.size)
            if end > first:
                return end - begin
    return 0
