"""How far a stream may go: from record to record along the log, up to what is whole and what one batch may bring.

The walk is what proves the batch's end, and the borders between its tasks, to be beginnings of records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reput.connect.cut.cuts import LogCut
from reput.connect.cut.snapshot import CUT_BYTES
from reput.connect.options.selection import Selection
from reput.connect.scan.log_scan import WantedQueues
from reput.errors import DamagedLogError, DataLossError
from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.record import Verdict, examine
from reput.kernels.columns import IN_QUEUE, MULTI_DISPATCH, Columns, State, Stop, ThreadScratch
from reput.log.decode import DecodeSettings, RangeDecoder
from reput.log.files import LogFile, LogFiles
from reput.log.reader import place

_PIECE_BYTES = 4 << 20
_scratch = ThreadScratch()
"""A stream walks every moment."""


@dataclass
class Walked:
    """A stretch of log: from a boundary to the boundary `end`, with the cuts between, and what stands there.

    `last`: the log offset of its last record, None without one.
    """

    begin: int
    end: int
    last: int | None = None
    cuts: list[LogCut] = field(default_factory=list)
    verdict: Verdict = Verdict.ZERO


@dataclass(frozen=True)
class Limits:
    """Bounds on a batch: log offset, bytes of log, wanted messages; how far it is told to be whole, None if not."""

    offset: int = INT64_MAX
    bytes: int = INT64_MAX
    messages: int = INT64_MAX
    confirmed: int | None = None


class StreamWalk:
    """Walks along a log. `tolerant`: damaged bytes and missing files are passed over."""

    def __init__(self, log: LogFiles, settings: DecodeSettings, selection: Selection, *, tolerant: bool) -> None:
        self.log = log
        self.settings = settings
        self.selection = selection
        self.tolerant = tolerant

    def run(self, begin: int, limits: Limits) -> Walked:
        """Walk from `begin`, a boundary, as far as the limits allow; at least one record where one is there.

        Raises:
            DataLossError: the log begins behind `begin`: files were deleted.
            DamagedLogError: the log breaks in front of what is told to be whole.
        """
        if begin < self.log.min_offset:
            if not self.tolerant:
                raise DataLossError(
                    f"{self.log.folder}: begins at log offset {self.log.min_offset}, the stream read to {begin}: the "
                    "files between were deleted. failOnDataLoss=false goes on with what is there"
                )
            begin = self.log.min_offset
        self.walked = Walked(begin, begin)
        self.left = limits.messages
        self.stop_at = min(limits.offset, begin + limits.bytes, INT64_MAX)
        self.whole = INT64_MAX if limits.confirmed is None else limits.confirmed
        for file in self.log.files:
            if file.end <= self.walked.end:
                continue
            if self._is_done():
                break
            if file.start > self.walked.end and not self._crosses(file):
                break
            if not self._walk_file(file):
                break
        return self.walked

    def _is_done(self) -> bool:
        return self.left <= 0 or self.walked.end >= min(self.stop_at, self.whole)

    def _crosses(self, file: LogFile) -> bool:
        """Whether the walk may go on in a file that does not begin where it stands."""
        if not self.tolerant:
            return False
        self.walked.end = file.start
        return True

    def _walk_file(self, file: LogFile) -> bool:
        """Walk through one file; whether the next one may go on."""
        begin = self.walked.end
        if begin >= file.data_end:
            return False
        with fs.mapped(file.path, begin - file.start, file.end - begin) as buffer:
            if not self._starts_well(buffer.data):
                return False
            return _FileWalk(self, file, RangeDecoder(buffer, begin, self.settings, self._columns())).run()

    def _columns(self) -> Columns:
        """Empty columns."""
        columns = _scratch.for_range(_PIECE_BYTES)
        columns.clear()
        return columns

    def _starts_well(self, data: memoryview) -> bool:
        """Whether a record stands here: where nothing is new the kernels need not be loaded."""
        offset = self.walked.end
        verdict, _ = examine(data, 0, len(data), offset, self.settings.crc_check)
        if verdict in (Verdict.GOOD, Verdict.BLANK) or self.tolerant:
            return True
        self.refuse(offset, verdict)
        return False

    def refuse(self, offset: int, verdict: Verdict) -> None:
        """Nothing more stands at `offset`: the end of the log, or damage where it is told to be whole.

        Raises:
            DamagedLogError: it is damage.
        """
        self.walked.verdict = verdict
        if self.whole != INT64_MAX and offset < self.whole and not self.tolerant:
            raise DamagedLogError(
                f"{place(self.log, offset)}: {verdict.meaning}, though the log is told to go on to {self.whole}. Look "
                "with `reput check`; failOnDataLoss=false passes over it"
            )


class _FileWalk:
    """The walk through one file."""

    def __init__(self, walk: StreamWalk, file: LogFile, decoder: RangeDecoder) -> None:
        self.walk = walk
        self.file = file
        self.decoder = decoder
        self.columns = decoder.columns
        self.queues = WantedQueues(walk.selection)
        self.cut_from = decoder.base

    def run(self) -> bool:
        """Walk to the file's end, or as far as it may; whether the next file may go on."""
        walk, base = self.walk, self.decoder.base
        offset, end = base, min(self.file.end, walk.whole)
        try:
            while offset < min(end, walk.stop_at) and walk.left > 0:
                self.columns.state[State.RECORDS] = self.columns.state[State.ITEMS] = 0
                stop = self.decoder.decode(offset - base, min(end, offset + _PIECE_BYTES) - base)
                offset = self._admit(base + int(self.columns.state[State.POSITION]))
                if self.cut_from + CUT_BYTES <= offset:
                    self._cut(offset)
                if stop is Stop.FILE_END and offset >= self.file.end:
                    return True
                if stop is Stop.NOT_A_RECORD and walk.left > 0 and offset < walk.stop_at:
                    found = self._behind_damage(offset, end)
                    if found is None:
                        return False
                    self._cut(offset)
                    self.cut_from = offset = found
        finally:
            self._cut(offset)
            walk.walked.end = max(walk.walked.end, offset)
        return offset >= self.file.end

    def _admit(self, offset: int) -> int:
        """Where the batch ends, should it end within the records that were decoded last; else `offset`."""
        walk, count = self.walk, self.columns.records
        if not count:
            return offset
        begins = self.columns.position[:count]
        ends = begins + self.columns.size[:count]
        last = int(np.searchsorted(ends, walk.stop_at, side="right"))
        # At least one record, else a batch of few bytes would stand still before a large one.
        if begins[0] == walk.walked.begin:
            last = max(1, last)
        if walk.left < INT64_MAX:
            self.queues.extend(self.columns)
            wanted = (self.columns.flags[:count] & IN_QUEUE) != 0
            mask = self.queues.mask(self.columns)
            if walk.selection.light_topics:
                # Which light queue gets it is not asked here: the bound is one on about so many messages.
                mask |= (self.columns.flags[:count] & MULTI_DISPATCH) != 0
            wanted &= mask
            taken = np.cumsum(wanted)
            last = min(last, int(np.searchsorted(taken, walk.left)) + 1)
            walk.left -= int(taken[min(last, count) - 1]) if last else 0
        if last:
            walk.walked.last = int(begins[last - 1])
        if last >= count:
            return offset
        walk.stop_at = int(begins[last])
        return int(begins[last])

    def _behind_damage(self, offset: int, end: int) -> int | None:
        """Where the next record stands behind bytes that are none; None at the log's end."""
        walk, base = self.walk, self.decoder.base
        walk.refuse(offset, Verdict(int(self.columns.state[State.VERDICT])))
        if not walk.tolerant:
            return None
        found = self.decoder.boundary(offset + 1 - base, min(end, self.file.data_end) - base)
        return base + found if found >= 0 else None

    def _cut(self, offset: int) -> None:
        if offset > self.cut_from:
            file = self.file
            self.walk.walked.cuts.append(LogCut(str(file.path), file.start, file.size, self.cut_from, offset))
            self.cut_from = offset
