"""Offsets and times that were asked for, held against what the store has: nothing gone is passed over in silence."""

from __future__ import annotations

from typing import NamedTuple

from reput.connect.cut.disk_queues import DiskQueues
from reput.connect.cut.queue_cuts import disk_queues
from reput.connect.cut.snapshot import Snapshot
from reput.connect.options.edges import EARLIEST, LATEST, Edge, Kind, QueueId
from reput.connect.options.options import ReadOptions, Strategy
from reput.errors import DataLossError
from reput.formats.consume_queue import QueueKey
from reput.log.maps import LogMaps

_REMEDY = "Give offsets within it, or failOnDataLoss=false to read what is there"


class WholeSpan(NamedTuple):
    """A queue with its tail: queue offsets [begin, end), and the store time of its last message (ms, -1 for none)."""

    begin: int
    end: int
    last_stored_ms: int


def whole_span(snapshot: Snapshot, queues: DiskQueues, queue: QueueId) -> WholeSpan | None:
    """What there is of a queue, on disk and in the tail; None for no such queue."""
    key = QueueKey(queue[0].encode("utf-8", "surrogateescape"), queue[1])
    tail, found = snapshot.tails.get(key), queues.one(key)
    if found is None:
        return WholeSpan(*tail) if tail else None
    if tail is None:
        stored = queues.maps.store_time(found.last_offset) if found.last_offset >= 0 else -1
        return WholeSpan(found.begin, found.end, stored)
    begin = found.begin if found.end > found.begin else tail.begin
    return WholeSpan(begin, max(found.end, tail.end), tail.last_stored_ms)


def refuse_what_is_gone(options: ReadOptions, snapshot: Snapshot) -> None:
    """Hold the edges against the queues; with failOnDataLoss=false nothing is refused.

    Raises:
        DataLossError: an offset lies outside its queue, or, with the strategy error, a queue has no message from its
            starting time on. A queue that is not there counts as an empty one, which a stream may be given: it may
            come later. With failOnMissingTopic=false nothing is said of it.
    """
    if not options.fail_on_data_loss or not (options.starting.queues or options.ending.queues):
        return
    maps = LogMaps(snapshot.layout.commit_log, snapshot.log.file_size)
    try:
        with disk_queues(snapshot, maps) as queues:
            for edge in (options.starting, options.ending):
                for queue, value in edge.queues.items():
                    span = whole_span(snapshot, queues, queue)
                    if span is not None or options.fail_on_missing_topic is not False:
                        _refuse(edge, queue, value, span or WholeSpan(0, 0, -1), options.strategy)
    finally:
        maps.close()


def _refuse(edge: Edge, queue: QueueId, value: int, span: WholeSpan, strategy: Strategy) -> None:
    where = f"{edge.option}: {queue[0]}, queue {queue[1]}"
    if edge.kind is Kind.TIMESTAMPS:
        if strategy is Strategy.ERROR and edge.option.startswith("starting") and span.last_stored_ms < value:
            raise DataLossError(
                f"{where}: no message was stored at {value} or later. Give an earlier time, or "
                "startingOffsetsByTimestampStrategy=latest"
            )
    elif value not in (EARLIEST, LATEST) and not span.begin <= value <= span.end:
        raise DataLossError(f"{where}: offset {value} lies outside the queue, {span.begin} to {span.end}. {_REMEDY}")
