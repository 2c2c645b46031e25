"""The walk along the log: from a boundary, record after record, until something ends it.

`RangeWalk` walks one mapped file, `LogWalk` goes from file to file. A walk is in one of five states:

    READY      a record may start at `offset`
    FILE_END   the file has ended, by its blank record or at its last byte
    BROKEN     the bytes at `offset` are no record; `verdict` says what they are: zeros, half a record, damage
    LIMIT      `offset` has reached `end`, where the caller stops the walk
    NO_FILE    no file of the log holds `offset`

    READY    -- decode a piece -->  READY, FILE_END, BROKEN or LIMIT
    BROKEN   -- skip            -->  READY at the next record of the file
    FILE_END -- next file       -->  READY, or NO_FILE; a tolerant walk passes over missing files and broken ends

    walk = LogWalk(log, begin, rules, until)
    for record in walk: ...             one by one, in plain Python: for few records
    for piece in walk.pieces(): ...     as columns, by the kernels: for many
    walk.state, walk.verdict            why it stopped

Callers that go through one file only (a split, a range of a scan, a step of the tail) use `RangeWalk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import CHECK_BODY, Record, Verdict, decode_record, examine
from reput.kernels import SMALL_STEP, expect_work, is_small_work
from reput.kernels.layouts.columns import Columns, StateAt, Stop
from reput.log.read.decode import DecodeSettings, RangeDecoder
from reput.log.read.files import LogFile, LogListing

_PIECE_BYTES = 4 << 20


class WalkState(Enum):
    """The state of a walk; the module's docstring describes them."""

    READY = "ready"
    FILE_END = "file end"
    BROKEN = "broken"
    LIMIT = "limit"
    NO_FILE = "no file"


class Keep(Enum):
    """The part of the columns that stays when the next piece is decoded.

    With `QUEUES` a queue has the same row in all pieces. With `RECORDS` the pieces add up.
    """

    NOTHING = "nothing"
    QUEUES = "queues"
    RECORDS = "records"


class WalkRules(NamedTuple):
    """Rules of a walk: it decodes `piece_bytes` of log at once, and keeps a part of the columns from piece to piece.

    `further`: the walk also reads batches and entries in further queues.
    """

    decode: DecodeSettings
    piece_bytes: int = _PIECE_BYTES
    keep: Keep = Keep.NOTHING
    further: bool = False

    @property
    def step_bytes(self) -> int:
        """Bytes of log that the next step decodes at most."""
        return min(SMALL_STEP, self.piece_bytes) if is_small_work() else self.piece_bytes


def checking(crc_check: int) -> WalkRules:
    """Return rules for reading records: CRCs are checked like this, and tags get no items."""
    return WalkRules(DecodeSettings(crc_check, tag_items=False, delays_ms=()))


MISSING_FILE = "missing log file"
"""The reason of a gap that is a whole file."""


class Gap(NamedTuple):
    """Bytes [begin, end) of the log that are no record; `verdict` describes those at `begin`. A record is at `end`."""

    begin: int
    end: int
    verdict: Verdict


class LogRecord(NamedTuple):
    """A good record: its log offset and its bytes."""

    offset: int
    data: bytes

    def decode(self) -> Record:
        """Return the record's values."""
        return decode_record(self.data)


class RangeWalk:
    """A walk through a buffer of one log file; all its offsets are log offsets.

    Args:
        buffer: bytes of the file (uint8), to the file's end.
        base: log offset of the buffer's first byte.
        rules: how to decode.
        begin: the boundary at which the walk begins.
        end: no record that starts here or later is read; by default the buffer's end.
        limit: no byte from here on is looked at; by default the buffer's end.
        columns: take the records; by default the walk makes them.
    """

    def __init__(
        self,
        buffer: NDArray[np.uint8],
        base: int,
        rules: WalkRules,
        begin: int,
        *,
        end: int = INT64_MAX,
        limit: int = INT64_MAX,
        columns: Columns | None = None,
    ) -> None:
        self.buffer = buffer
        self.base = base
        self.rules = rules
        self.limit = min(limit, base + len(buffer))
        self.end = min(end, self.limit)
        self.begin = begin
        """Begin of the last piece."""
        self.offset = begin
        self.state = WalkState.READY
        self.verdict = Verdict.GOOD
        if columns is None:
            columns = Columns.for_range(max(0, min(rules.piece_bytes, self.end - begin)))
        self.columns = columns
        self._decoder = RangeDecoder(buffer, base, rules.decode, columns, self.limit - base)

    @property
    def position(self) -> NDArray[np.int64]:
        """Log offsets of the records of this piece."""
        return self.columns.position[: self.columns.records]

    @property
    def size(self) -> NDArray[np.int32]:
        """Bytes of each record of this piece."""
        return self.columns.size[: self.columns.records]

    def step(self) -> bool:
        """Decode the next piece into the columns; return False if the walk has stopped."""
        if not self._goes_on():
            return False
        columns, rules, base = self.columns, self.rules, self.base
        if rules.keep is not Keep.RECORDS:
            columns.clear(keep_queues=rules.keep is Keep.QUEUES)
        self.begin = begin = self.offset
        stop = self._decoder.decode(begin - base, min(self.end, begin + rules.step_bytes) - base)
        if rules.further:
            self._decoder.read_further()
        self.offset = base + int(columns.state[StateAt.position])
        expect_work(self.offset - begin)
        if stop is Stop.NOT_A_RECORD:
            self.state, self.verdict = WalkState.BROKEN, Verdict(int(columns.state[StateAt.verdict]))
        elif stop is Stop.FILE_END:
            self.state = WalkState.FILE_END
        return True

    def read_further(self) -> None:
        """Read batches and entries in further queues of all records in the columns."""
        self._decoder.read_further()

    def records(self) -> Iterator[tuple[int, int]]:
        """Log offset and size of each record, found in plain Python: no kernel is loaded."""
        data, base = self.buffer.data, self.base
        while self._goes_on():
            begin = self.offset
            verdict, size = examine(data, begin - base, self.limit - base, begin, self.rules.decode.crc_check)
            if verdict not in (Verdict.GOOD, Verdict.BLANK):
                self.state, self.verdict = WalkState.BROKEN, verdict
                return
            self.offset += size
            if verdict is Verdict.BLANK:
                self.state = WalkState.FILE_END
            else:
                yield begin, size

    def starts_well(self) -> bool:
        """Return True if a record or a blank starts at `offset`: a walk that finds nothing new loads no kernel."""
        if not self._goes_on():
            return False
        place = self.offset - self.base
        crc_check = self.rules.decode.crc_check
        verdict, _ = examine(self.buffer.data, place, self.limit - self.base, self.offset, crc_check)
        if verdict not in (Verdict.GOOD, Verdict.BLANK):
            self.state, self.verdict = WalkState.BROKEN, verdict
        return self.state is WalkState.READY

    def seek(self, search_end: int) -> bool:
        """Go to the first record from `offset` on, before `search_end`; return False if there is none."""
        found = self._decoder.boundary(self.offset - self.base, min(search_end, self.limit) - self.base)
        if found >= 0:
            self.offset, self.state = self.base + found, WalkState.READY
        return found >= 0

    def skip(self, search_end: int) -> Gap | None:
        """Pass over the bytes that broke the walk; None if no record follows before `search_end`."""
        broken = self.offset
        self.offset += 1
        if self.seek(search_end):
            return Gap(broken, self.offset, self.verdict)
        self.offset = broken
        return None

    def stop_at(self, offset: int) -> None:
        """End the walk at a boundary that it has reached."""
        self.offset = self.end = offset
        self.state = WalkState.LIMIT

    def _goes_on(self) -> bool:
        if self.state is WalkState.READY and self.offset >= self.end:
            self.state = WalkState.FILE_END if self.end >= self.base + len(self.buffer) else WalkState.LIMIT
        return self.state is WalkState.READY


class LogWalk:
    """A walk from log offset `begin`, a boundary, through the log's files, to the boundary `until` at most.

    `offset` is where the next record is expected, `records_end` where the last one ended. A `tolerant` walk goes on
    after damage and missing files; `verdict` then describes the last damage. `file` is the current file.
    """

    file: LogFile

    def __init__(
        self,
        log: LogListing,
        begin: int,
        rules: WalkRules | None = None,
        until: int | None = None,
        *,
        tolerant: bool = False,
        columns: Columns | None = None,
    ) -> None:
        self.log = log
        self.rules = rules or checking(CHECK_BODY)
        self.until = log.end_offset if until is None else until
        self.tolerant = tolerant
        self.offset = self.records_end = begin
        self.state = WalkState.READY
        self.verdict = Verdict.GOOD
        self._columns = columns
        self._range: RangeWalk | None = None

    def __iter__(self) -> Iterator[LogRecord]:
        for file, walk in self._files(Columns(0, 0, 1)):
            data, base = walk.buffer.data, walk.base
            while walk.state is not WalkState.BROKEN or self._skips(file, walk):
                for begin, size in walk.records():
                    self.offset = self.records_end = walk.offset
                    yield LogRecord(begin, bytes(data[begin - base : begin - base + size]))
                if walk.state is not WalkState.BROKEN:
                    break

    def pieces(self) -> Iterator[RangeWalk]:
        """Yield the walk through the current file after each of its steps: its columns hold the records of the piece.

        The next step overwrites the arrays. The caller may end the walk by `stop_at`.
        """
        columns = self._columns or Columns.for_range(self.rules.piece_bytes)
        columns.clear()
        for file, walk in self._files(columns):
            walk.starts_well()
            while (walk.state is not WalkState.BROKEN or self._skips(file, walk)) and walk.step():
                self.offset = walk.offset
                if columns.records or walk.state is not WalkState.BROKEN:
                    self.records_end = walk.offset
                yield walk

    def stop_at(self, offset: int) -> None:
        """End the walk at a boundary of the current piece."""
        self.offset = self.records_end = self.until = offset
        if self._range is not None:
            self._range.stop_at(offset)

    def resume(self, until: int) -> None:
        """Make a walk that stopped ready again, up to the boundary `until`."""
        self.state, self.verdict, self.until = WalkState.READY, Verdict.GOOD, until

    def _files(self, columns: Columns) -> Iterator[tuple[LogFile, RangeWalk]]:
        """Yield a walk through each file, which the caller takes to its end."""
        for file in self.log.files:
            if file.end <= self.offset:
                continue
            if self.offset >= self.until:
                break
            if file.start > self.offset:
                if not self.tolerant:
                    break
                self.offset = file.start
            self.file, begin = file, self.offset
            with fs.mapped(file.path, begin - file.start, file.end - begin) as buffer:
                walk = self._range = RangeWalk(buffer, begin, self.rules, begin, end=self.until, columns=columns)
                yield file, walk
            self.offset = walk.offset
            if walk.state is WalkState.BROKEN:
                self.verdict = walk.verdict
                if not self.tolerant:
                    self.state = WalkState.BROKEN
                    return
                self.offset = file.end
            elif walk.state is WalkState.LIMIT:
                break
        if self.offset >= self.until:
            self.state = WalkState.LIMIT
        else:
            self.state = WalkState.NO_FILE
            if not self.tolerant:
                self.verdict = Verdict.ZERO

    def _skips(self, file: LogFile, walk: RangeWalk) -> bool:
        """Pass over damage; return False if the walk is not tolerant, or the file has no further record."""
        self.verdict = walk.verdict
        return self.tolerant and walk.skip(min(self.until, file.data_end)) is not None
