"""Look-ups in a log: the record at a place, the next one after it, and what follows the place where a walk stopped.

walk = LogWalk(log, next_boundary(log, offset))
for found in walk: ...
end_of(walk)                why it stopped, and whether records follow
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import CHECK_BODY, CHECK_NONE, Verdict, examine
from reput.kernels import kernels
from reput.kernels.layouts.log import LogBytes
from reput.log.read.files import LogFile, LogFiles, LogListing, written_end
from reput.log.read.maps import LogMaps
from reput.log.read.scan import LogRecord, LogWalk, RangeWalk, checking

# A body may hold a valid copy of a record at the copy's own offset. A walk that begins this far before an offset has
# passed such a body when it arrives: RocketMQ's largest message is 4 MiB unless configured otherwise.
_RUN_UP_BYTES = 8 << 20
USUAL_RECORD_BYTES = 512
"""The size that a record is taken to have before one is seen."""
CLOCK_SLACK_MS = 60_000
"""The time by which a search reads further: store times follow the broker's clock, and a clock may be set back."""


class WalkEnd(NamedTuple):
    """The place `offset` (log offset) where a walk stopped; `verdict` describes the bytes there.

    `written`: bytes from there to the last byte that is not zero. `next_record`: the next good record. If it is None,
    the log ends here, with a torn record if anything is written.
    """

    offset: int
    verdict: Verdict
    written: int
    next_record: int | None

    @property
    def is_damage(self) -> bool:
        """True if good records follow bytes that are no record."""
        return self.next_record is not None

    @property
    def is_torn(self) -> bool:
        """True if the log ends with bytes that are no whole record."""
        return self.next_record is None and self.written > 0


def end_of(walk: LogWalk, search_bytes: int | None = None) -> WalkEnd:
    """Describe the place where a walk stopped; later records are searched for in `search_bytes`, by default in all."""
    following = find_record(walk.log, walk.offset + 1, walk.rules.decode.crc_check, search_bytes)
    return WalkEnd(walk.offset, walk.verdict, written_bytes(walk.log, walk.offset), following)


def resumes(walk: LogWalk, end: WalkEnd) -> bool:
    """Return True if a writer has filled the place where the walk stopped since `end` was looked up.

    The walk then goes on, up to the record that `end` found: the writer has finished all records before that one.
    """
    if end.next_record is None:
        return False
    found = record_at(walk.log, walk.offset, walk.rules.decode.crc_check)
    if not isinstance(found, LogRecord) and found is not Verdict.BLANK:
        return False
    walk.resume(end.next_record)
    return True


def confirmed_damage(offset: int, verdict: Verdict, confirmed: int | None) -> str | None:
    """Say that bytes at a log offset are damage, since a writer has confirmed the log up to `confirmed`; None if not.

    `confirmed` is None if nobody has confirmed anything: an end may then be the torn one of a crash.
    """
    if confirmed is None or offset >= confirmed:
        return None
    return f"{verdict.meaning}, though the log is confirmed up to {confirmed}"


def find_record(
    log: LogListing, offset: int, crc_check: int = CHECK_BODY, search_bytes: int | None = None
) -> int | None:
    """Return the log offset of the first record at or after `offset`, or None; a copy inside a body counts, too."""
    left = log.end_offset if search_bytes is None else search_bytes
    for file in log.files:
        begin = max(offset, file.start)
        end = min(file.data_end, begin + left)
        if begin >= end:
            continue
        with fs.mapped(file.path, 0, file.size) as array:
            found = kernels("reference").find_boundary(
                LogBytes(array, file.start, file.size), begin - file.start, end - file.start, crc_check
            )
        if found >= 0:
            return file.start + found
        left -= end - begin
    return None


def next_boundary(log: LogListing, offset: int) -> int:
    """Return the first log offset from `offset` on where a record or a blank begins; the log's end if there is none.

    A file's start is always a boundary. Elsewhere a walk begins earlier, so that a copy of a record inside a body does
    not count as one.
    """
    offset = max(offset, log.min_offset)
    file = file_of(log, offset)
    if file is None or offset == file.start:
        return offset
    position = max(file.start, offset - _RUN_UP_BYTES)
    while position < offset:
        walk = LogWalk(log, position, checking(CHECK_NONE))
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


def first_records(log: LogListing, count: int, below: int = INT64_MAX) -> list[LogRecord]:
    """Return the first `count` records of the newest file that has any and begins below a log offset."""
    for file in reversed(log.files):
        walk = LogWalk(log, file.start, checking(CHECK_NONE))
        if file.start < below and (records := list(islice(walk, count))):
            return records
    return []


def mean_size(records: Sequence[LogRecord]) -> int:
    """Return the mean bytes of some records, at least 1."""
    return max(1, sum(len(record.data) for record in records) // len(records))


def file_by_time(log: LogFiles, timestamp_ms: int) -> int:
    """Return the start of the last file that begins before a store time, less the slack for clocks that are set back.

    A file that was created ahead and holds only zeros has no time.
    """
    found = log.min_offset
    with LogMaps(log.folder, log.file_size) as maps:
        for file in log.files:
            stored = maps.store_time(file.start) if file.data_end > file.start else -1
            if 0 < stored < timestamp_ms - CLOCK_SLACK_MS:
                found = file.start
    return found


def last_records(
    log: LogListing, count: int, crc_check: int, wanted: Callable[[RangeWalk], NDArray[np.int64]], end: int
) -> int:
    """Return the log offset of the first of the last `count` wanted records, or of the first record if they are fewer.

    `wanted` returns the numbers of the wanted records of a piece. The records begin before log offset `end`.
    """
    # No log has more records than bytes.
    count = min(count, end)
    step = max(_RUN_UP_BYTES, count * USUAL_RECORD_BYTES)
    while True:
        begin = max(log.min_offset, end - step)
        found: deque[int] = deque(maxlen=count)
        position: int | None = next_boundary(log, begin)
        while position is not None and position < end:
            walk = LogWalk(log, position, checking(crc_check), end)
            for piece in walk.pieces():
                found.extend(piece.position[wanted(piece)[-count:]].tolist())
            # Damage is passed over here: the caller, which reads on from the result, meets it.
            position = find_record(log, walk.offset + 1, crc_check)
        if len(found) == count:
            return found[0]
        if begin == log.min_offset:
            return begin
        step *= 4


def record_at(log: LogListing, offset: int, crc_check: int = CHECK_BODY) -> LogRecord | Verdict:
    """Return the record at a log offset, or the verdict on the bytes there."""
    file = file_of(log, offset)
    if file is None:
        return Verdict.ZERO
    with fs.mapped(file.path, 0, file.size) as array:
        data = array.data
        position = offset - file.start
        verdict, size = examine(data, position, file.size, offset, crc_check)
        return LogRecord(offset, bytes(data[position : position + size])) if verdict is Verdict.GOOD else verdict


def good_record(log: LogListing, offset: int, size: int | None = None) -> LogRecord | None:
    """Return the record at a log offset; None if there is no good one, or one of another size.

    The CRC of its body is not checked.
    """
    found = record_at(log, offset, CHECK_NONE)
    if isinstance(found, Verdict) or (size is not None and len(found.data) != size):
        return None
    return found


def record_crc(log: LogListing, offset: int) -> int | None:
    """Return the CRC-32 of the bytes of the record at a log offset; None if there is no good one."""
    found = good_record(log, offset)
    return None if found is None else zlib.crc32(found.data)


def file_of(log: LogListing, offset: int) -> LogFile | None:
    """Return the file that holds a log offset."""
    return next((file for file in log.files if file.start <= offset < file.end), None)


def file_name(log: LogListing, offset: int) -> str:
    """Return the name of the file that holds a log offset, "-" for none."""
    file = file_of(log, offset)
    return file.path.name if file else "-"


def place(log: LogListing, offset: int) -> str:
    """Return a log offset as file and position in it, for people."""
    file = file_of(log, offset)
    if file is None:
        return f"{log.folder} outside all files (log offset {offset})"
    return place_in(file.path, file.start, offset)


def place_in(path: Path | str, start: int, offset: int) -> str:
    """Return a log offset in the file that begins at log offset `start`, for people."""
    return f"{path} at {offset - start} (log offset {offset})"


def log_end(log: LogListing) -> int:
    """Return the log offset after the last byte that is not zero."""
    return log.min_offset + written_bytes(log, log.min_offset)


def written_bytes(log: LogListing, begin: int) -> int:
    """Return the number of bytes from log offset `begin` to the last byte that is not zero."""
    for file in reversed(log.files):
        first = max(file.start, begin)
        if file.data_end > first:
            end = file.start + written_end(file.path, first - file.start, file.size)
            if end > first:
                return end - begin
    return 0
