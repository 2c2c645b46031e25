"""Cuts of the log into tasks, at places that are proved to be the beginnings of records.

A body may imitate a record, so looking for a record is no proof. Three places are proved: a file's start, a place that
an entry of a queue below the frontier points to (it was made from the chain of records), and a place that a walk along
the chain has met. Each task also compares its own end with the next task's beginning.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import NamedTuple

from reput.connect.cut.disk_queue import DiskQueue
from reput.connect.cut.disk_queues import DiskQueues
from reput.connect.cut.snapshot import Snapshot
from reput.log.read.reader import record_at

_QUEUES_LOOKED_AT = 64
_QUEUES_ASKED = 4


class LogCut(NamedTuple):
    """A range [begin, end) of one log file (log offsets), both of them boundaries; `path` is the file's."""

    path: str
    file_start: int
    file_size: int
    begin: int
    end: int


def log_cuts(snapshot: Snapshot, queues: DiskQueues, begin: int, end: int, step: int, known: int = -1) -> list[LogCut]:
    """Return the log between two offsets as ranges of about `step` bytes.

    If `begin` is one of the frontiers, or `known` to be a boundary, the first range begins there. Otherwise records
    before it may be among them.
    """
    end, asked = min(end, snapshot.end), _QueueBoundaries(snapshot, queues)
    cuts = []
    for file in snapshot.log.files:
        file_end = min(file.end, snapshot.end)
        if file_end <= begin or file.start >= end or file_end <= file.start:
            continue
        is_boundary = begin > file.start and begin in (*snapshot.frontiers, known)
        first = begin if is_boundary else file.start
        marks = _marks(first, file_end, step, asked, snapshot)
        for low, high in pairwise(marks):
            if high > begin and low < end:
                cuts.append(LogCut(str(file.path), file.start, file.size, low, high))
    return cuts


def _marks(first: int, file_end: int, step: int, asked: _QueueBoundaries, snapshot: Snapshot) -> list[int]:
    marks = [first]
    # A short rest joins the range before it: a task costs more than its bytes.
    while file_end - marks[-1] > step + step // 4:
        target = marks[-1] + step
        found = asked.boundary_from(target)
        if found is None or found >= file_end:
            found = next((place for place in snapshot.boundaries if target <= place < file_end), None)
        if found is None:
            break
        marks.append(found)
    return [*marks, file_end]


def joined_cuts(cuts: list[LogCut], step: int) -> list[LogCut]:
    """Join ranges that follow one another in a file, up to `step` bytes if the parts allow."""
    joined: list[LogCut] = []
    for cut in cuts:
        last = joined[-1] if joined else None
        if last is not None and last.path == cut.path and last.end == cut.begin and cut.end - last.begin <= step:
            joined[-1] = last._replace(end=cut.end)
        else:
            joined.append(cut)
    return joined


class _QueueBoundaries:
    """Beginnings of records that some large queues know."""

    def __init__(self, snapshot: Snapshot, queues: DiskQueues) -> None:
        self.snapshot = snapshot
        self.queues = queues
        self._asked: list[DiskQueue] | None = None

    def boundary_from(self, offset: int) -> int | None:
        """Return the first beginning of a record at or after a log offset that the queues know; None for none."""
        if offset >= self.snapshot.frontiers.queue_offset:
            return None
        if self._asked is None:
            self._asked = self._largest()
        found = [place for queue in self._asked if (place := queue.boundary_from(offset)) is not None]
        place = min(found, default=None)
        if place is None or place >= self.snapshot.frontiers.queue_offset:
            return None
        # If the queue or the log was overwritten, it is no boundary.
        return place if not isinstance(record_at(self.snapshot.log, place), int) else None

    def _largest(self) -> list[DiskQueue]:
        spans = [(queue.end - queue.begin, queue.key) for queue in islice(self.queues.all(), _QUEUES_LOOKED_AT)]
        spans.sort(reverse=True)
        return [queue for _, key in spans[:_QUEUES_ASKED] if (queue := self.queues.one(key)) is not None]
