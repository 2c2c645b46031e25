"""Reads beside a writer in another process: the end of its log for readers, and the progress of its indexes.

A reput writer publishes both in the watermarks. A live RocketMQ broker publishes neither: the log is whole up to the
last record in its queues. If nobody writes, the log is read to its end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from reput.log.read.maps import LogMaps
from reput.queue.kinds import AnyKind
from reput.store.disk.frontier import Frontiers, read_frontier
from reput.store.disk.layout import StoreLayout
from reput.store.open.swaps import SwapCount
from reput.store.read.lookup import Watched
from reput.store.read.view import StoreView

_BROKER_LOOK_S = 0.5
_GONE_LOOK_S = 0.2


class Referenced(NamedTuple):
    """The last record that a queue refers to: the log offsets where it begins and ends."""

    begin: int
    end: int


def last_referenced(kinds: Sequence[AnyKind], log: LogMaps) -> Referenced:
    """Find the last record that a queue refers to: a live broker's log is whole up to its end.

    An entry that names no record is passed over: a broker may be writing it now.
    """
    found = Referenced(log.min_offset, log.min_offset)

    def look_at(begin: int, size: int) -> None:
        nonlocal found
        if begin + size > found.end and log.record(begin, size) is not None:
            found = Referenced(begin, begin + size)

    for kind in kinds:
        complete = kind.complete_to()
        if complete is not None:
            found = max(found, Referenced(complete, complete), key=lambda one: one.end)
            continue
        for queue in kind.queues():
            last = queue.span().last
            if last is not None:
                look_at(last.physical_offset, last.size)
    return found


class GoneFiles:
    """Notices that a writer has deleted the first files of the log, at the latest a fifth of a second later."""

    def __init__(self) -> None:
        self._looked = time.monotonic()

    def leave_out(self, view: StoreView) -> None:
        """Load the indexes again if the log has lost files: its queues begin with the messages that are left."""
        now, log = time.monotonic(), view.log
        if now - self._looked >= _GONE_LOOK_S:
            self._looked = now
            if log.has_lost_files():
                log.refresh()
        # A look for new files at the log's end may have found out, too.
        if log.min_offset != view.log_begin:
            view.load()


class ReputWriter:
    """Follows a reput writer's watermarks for a read-only view. Make it before the store's files are looked at."""

    def __init__(self, layout: StoreLayout, swaps: SwapCount) -> None:
        self.layout = layout
        self._swaps = swaps
        self._gone = GoneFiles()
        self.watermarks = swaps.watermarks
        self._generation = self.watermarks["generation"]
        self.frontier = self.watermarks["frontier_offset"]
        """The log offset below which the indexes were complete when this was made; 0: nothing is known."""

    def confirmed(self) -> int:
        """Return the log offset up to which readers may look."""
        return self.watermarks["confirmed_offset"]

    @property
    def watched(self) -> Watched:
        """The memory in which look-ups see the watermarks."""
        marks = self.watermarks
        confirmed, frontier = marks.address("confirmed_offset"), marks.address("frontier_offset")
        return Watched(confirmed, frontier, marks.address("generation"), self._generation, marks.memory)

    def begin(self, view: StoreView) -> None:
        """Keep a view up to date from now on."""
        view.refresh = self.refresh
        if not self.frontier:
            view.outgrown = self.has_begun

    def has_begun(self, view: StoreView) -> bool:
        """Return True once a store has a log or indexes that it did not have when its view was opened."""
        marks = self.watermarks
        return marks["frontier_offset"] > 0 or (not view.log.starts and marks["confirmed_offset"] > 0)

    def refresh(self, view: StoreView) -> None:
        """Load the indexes that the writer has extended, or removed queues from, since the last look.

        After a swap another view reads the new indexes.
        """
        generation, frontier = self.watermarks["generation"], self.watermarks["frontier_offset"]
        if self._swaps.has_risen:
            return
        if generation != self._generation:
            view.kept_ends.clear()
            view.load(Frontiers.of(read_frontier(self.layout)))
            # Not earlier: if that fails, the next look tries again.
            self._generation = generation
            view.lookups.watched = self.watched
        elif frontier > view.frontiers.both and view.outgrown is None:
            view.advance(Frontiers.at(frontier))
        self._gone.leave_out(view)


class BrokerWriter:
    """Follows a live broker's queues.

    Its indexes say nowhere how far they are complete, so the tail only grows, and the store is opened again at times.
    """

    def __init__(self, kinds: Sequence[AnyKind], log: LogMaps) -> None:
        self.kinds = kinds
        self.log = log
        self._end = last_referenced(kinds, log).end
        self._looked = time.monotonic()
        self._gone = GoneFiles()
        self._most_entries = 0

    def begin(self, view: StoreView) -> None:
        """Keep a view up to date from now on."""
        view.refresh = self.refresh
        begun, most = view.queues_table.tail.entries, view.follower.most_entries or 0
        # To open it takes seconds, and may help little: the last IndexFile is read again from its begin.
        self._most_entries = min(max(most // 2, begun + most // 8), most)
        view.outgrown = self.has_much

    def has_much(self, view: StoreView) -> bool:
        """Return True once the tail of a view holds so much that a new view begins with less."""
        return view.queues_table.tail.entries > self._most_entries

    def refresh(self, view: StoreView) -> None:
        """Leave out what the broker has deleted."""
        self._gone.leave_out(view)

    def confirmed(self) -> int:
        """Return the end of the last record in the broker's queues; they are read every half second at most."""
        if time.monotonic() - self._looked > _BROKER_LOOK_S:
            self._end = max(self._end, last_referenced(self.kinds, self.log).end)
            self._looked = time.monotonic()
        return self._end
