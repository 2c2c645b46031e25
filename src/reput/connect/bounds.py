"""Offsets and times that were asked for, held against what the store has: nothing gone is passed over in silence."""

from __future__ import annotations

from typing import NamedTuple

from reput.connect.edges import EARLIEST, LATEST, Edge, Kind, QueueId
from reput.connect.options import ReadOptions, Strategy
from reput.connect.snapshot import Snapshot
from reput.errors import DataLossError
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.log.maps import LogMaps
from reput.queue.files import QueueFolder, list_queue_files
from reput.queue.reader import queue_span

_REMEDY = "Give offsets within it, or failOnDataLoss=false to read what is there"


class WholeSpan(NamedTuple):
    """A queue with its tail: queue offsets [begin, end), and the store time of its last message (ms, -1 for none)."""

    begin: int
    end: int
    last_stored_ms: int


def whole_span(snapshot: Snapshot, queue: QueueId, maps: LogMaps) -> WholeSpan | None:
    """What there is of a queue, files and tail; None for no such queue."""
    name = queue[0].encode("utf-8", "surrogateescape")
    if not paths.is_topic_folder_name(name):
        return None
    tail = snapshot.tails.get(QueueKey(name, queue[1]))
    folder = snapshot.layout.consume_queue / queue[0] / str(queue[1])
    files = list_queue_files(folder)
    if not files:
        return WholeSpan(*tail) if tail else None
    found = QueueFolder(queue[0], queue[1], folder, files)
    span = queue_span(found, snapshot.begin, snapshot.frontiers.queue_offset)
    stored = maps.store_time(span.last.physical_offset) if span.last else -1
    if tail is None:
        return WholeSpan(span.min_offset, span.max_offset, stored)
    begin = span.min_offset if span.max_offset > span.min_offset else tail.begin
    return WholeSpan(begin, max(span.max_offset, tail.end), tail.last_stored_ms)


def refuse_what_is_gone(options: ReadOptions, snapshot: Snapshot) -> None:
    """Hold the edges against the queues; with failOnDataLoss=false nothing is refused.

    Raises:
        DataLossError: an offset lies outside its queue, a named queue is not there, or, with the strategy error, a
            queue has no message from its starting time on.
    """
    if not options.fail_on_data_loss:
        return
    maps = LogMaps(snapshot.layout.commit_log, snapshot.log.file_size)
    try:
        for edge in (options.starting, options.ending):
            for queue, value in edge.queues.items():
                _refuse(edge, queue, value, whole_span(snapshot, queue, maps), options.strategy)
    finally:
        maps.close()


def _refuse(edge: Edge, queue: QueueId, value: int, span: WholeSpan | None, strategy: Strategy) -> None:
    where = f"{edge.option}: {queue[0]}, queue {queue[1]}"
    if span is None:
        raise DataLossError(f"{where}: there is no such queue. Leave it out, or give failOnDataLoss=false")
    if edge.kind is Kind.TIMESTAMPS:
        if strategy is Strategy.ERROR and edge.option.startswith("starting") and span.last_stored_ms < value:
            raise DataLossError(
                f"{where}: no message was stored at {value} or later. Give an earlier time, or "
                "startingOffsetsByTimestampStrategy=latest"
            )
    elif value not in (EARLIEST, LATEST) and not span.begin <= value <= span.end:
        raise DataLossError(f"{where}: offset {value} lies outside the queue, {span.begin} to {span.end}. {_REMEDY}")
