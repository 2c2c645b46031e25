"""Walk of a stream along the log, up to the end of what is whole and to the bounds of one batch.

The walk proves that the batch's end, and the borders between its tasks, are beginnings of records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reput.connect.cut.cuts import LogCut
from reput.connect.cut.snapshot import CUT_BYTES
from reput.connect.options.selection import Selection
from reput.connect.scan.log_scan import WantedQueues
from reput.errors import DamagedLogError, DataLossError
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import Verdict
from reput.kernels.layouts.columns import IN_QUEUE, MULTI_DISPATCH, ThreadScratch
from reput.log.read.decode import DecodeSettings
from reput.log.read.files import LogFile, LogFiles
from reput.log.read.reader import confirmed_damage, place
from reput.log.read.scan import Keep, LogWalk, RangeWalk, WalkRules, WalkState

_scratch = ThreadScratch()
"""Kept, because a stream walks often."""


@dataclass
class Walked:
    """A range of the log from one boundary to another, with the cuts between, and the verdict on the bytes after it.

    `last`: the log offset of its last record, None without one.
    """

    begin: int
    end: int
    last: int | None = None
    cuts: list[LogCut] = field(default_factory=list)
    verdict: Verdict = Verdict.ZERO


@dataclass(frozen=True)
class Limits:
    """Bounds on a batch: log offset, bytes of log, wanted messages; the writer's confirmed offset, None without one."""

    offset: int = INT64_MAX
    bytes: int = INT64_MAX
    messages: int = INT64_MAX
    confirmed: int | None = None


class StreamWalk:
    """Walks along a log. `tolerant`: damaged bytes and missing files are passed over."""

    def __init__(self, log: LogFiles, settings: DecodeSettings, selection: Selection, *, tolerant: bool) -> None:
        self.log = log
        self.rules = WalkRules(settings, keep=Keep.QUEUES)
        self.selection = selection
        self.tolerant = tolerant

    def run(self, begin: int, limits: Limits) -> Walked:
        """Walk from `begin`, a boundary, as far as the limits allow; at least over one record if there is one.

        Raises:
            DataLossError: the log begins after `begin`: files were deleted.
            DamagedLogError: the log breaks before the end of what its writer has confirmed.
        """
        if begin < self.log.min_offset:
            if not self.tolerant:
                raise DataLossError(
                    f"{self.log.folder}: begins at log offset {self.log.min_offset}, the stream read to {begin}: the "
                    "files between were deleted. failOnDataLoss=false continues with the records that are there"
                )
            begin = self.log.min_offset
        walked = Walked(begin, begin)
        batch = _StreamBatch(walked, self.selection, limits)
        if batch.is_full(begin):
            return walked
        columns = _scratch.for_range(self.rules.piece_bytes)
        walk = LogWalk(self.log, begin, self.rules, limits.confirmed, tolerant=self.tolerant, columns=columns)
        for piece in walk.pieces():
            end = batch.admit(piece)
            batch.cut(walk.file, piece.begin, end)
            if end < piece.offset or batch.is_full(end):
                walk.stop_at(end)
        walked.end = walk.records_end
        if walk.state is WalkState.BROKEN:
            walked.verdict = walk.verdict
            if why := confirmed_damage(walk.offset, walk.verdict, limits.confirmed):
                raise DamagedLogError(
                    f"{place(self.log, walk.offset)}: {why}. Look with `reput check`; failOnDataLoss=false skips it"
                )
        return walked


class _StreamBatch:
    """A stream's batch while the walk fills it: `left` is the number of wanted messages that it still takes."""

    def __init__(self, walked: Walked, selection: Selection, limits: Limits) -> None:
        self.walked = walked
        self.selection = selection
        self.queues = WantedQueues(selection)
        self.left = limits.messages
        self.end_limit = min(limits.offset, walked.begin + limits.bytes, INT64_MAX)

    def is_full(self, offset: int) -> bool:
        """Return True if a batch that ends at this log offset takes no further record."""
        return self.left <= 0 or offset >= self.end_limit

    def admit(self, piece: RangeWalk) -> int:
        """Take the records of a piece that the limits allow; return where the batch then ends."""
        columns, count = piece.columns, piece.columns.records
        if not count:
            return piece.offset
        begins = piece.position
        last = int(np.searchsorted(begins + piece.size, self.end_limit, side="right"))
        # At least one record, or a batch of few bytes never gets past a large one.
        if begins[0] == self.walked.begin:
            last = max(1, last)
        if self.left < INT64_MAX:
            self.queues.extend(columns)
            wanted = (columns.flags[:count] & IN_QUEUE) != 0
            mask = self.queues.mask(columns)
            if self.selection.light_topics:
                # The limit is approximate: a message for any light queue counts.
                mask |= (columns.flags[:count] & MULTI_DISPATCH) != 0
            wanted &= mask
            taken = np.cumsum(wanted)
            last = min(last, int(np.searchsorted(taken, self.left)) + 1)
            self.left -= int(taken[min(last, count) - 1]) if last else 0
        if last:
            self.walked.last = int(begins[last - 1])
        return piece.offset if last >= count else int(begins[last])

    def cut(self, file: LogFile, begin: int, end: int) -> None:
        """Add log offsets [begin, end) of a file to the cuts; a cut that is large enough is not extended."""
        cuts = self.walked.cuts
        if begin == end:
            return
        if cuts and (last := cuts[-1]).end == begin > file.start and begin - last.begin < CUT_BYTES:
            cuts[-1] = last._replace(end=end)
        else:
            cuts.append(LogCut(str(file.path), file.start, file.size, begin, end))
