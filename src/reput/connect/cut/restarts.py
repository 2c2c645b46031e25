"""Queues that began again at 0, and the test for their older messages that still count.

A topic's queues may be deleted while the log keeps the messages. New messages then begin at 0. RocketMQ no longer
reaches the old ones, since no queue leads to them, and neither does the queue plan. So that every plan gives the same
rows, plans that meet them in the log leave them out: before the record that a queue has at 0, a message counts only if
the queue's entry of its number leads to it. A queue that never began again has no record there, so nothing is looked
up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from reput.connect.cut.disk_queues import DiskQueues, IndexedQueues
from reput.formats.log.record import HEAD, MIN_RECORD_SIZE, decode_record
from reput.formats.queue.consume_queue import QueueKey
from reput.kernels.layouts.columns import Columns
from reput.log.read.maps import LogMaps

Mask = NDArray[np.bool_]
Int64s = NDArray[np.int64]
_SIZE = HEAD.struct_of("total_size")


@dataclass(frozen=True)
class Restarts:
    """Queues that began again: the log offset of their record of queue offset 0, and their entries.

    `begun` has only queues of which that record is not the log's first. The log shows whether they had others before.
    """

    begun: Mapping[QueueKey, int]
    queues: IndexedQueues

    def after(self, offset: int) -> Restarts | None:
        """Return those that matter to records from a log offset on; None for none."""
        begun = {key: place for key, place in self.begun.items() if place > offset}
        return replace(self, begun=begun) if begun else None

    def gone(self, key: QueueKey, position: Int64s, queue_offset: Int64s) -> Mask:
        """Return a mask of a queue's records, given by log offset and number, that no longer count."""
        gone: Mask = np.zeros(len(position), dtype=np.bool_)
        early = np.flatnonzero(position < self.begun.get(key, -1))
        if len(early):
            with self.queues.opened() as queues:
                queue = queues.one(key)
                # The queue is believed only if the log, too, says that it began there.
                if queue is not None and _is_first(queues.maps, self.begun[key], key):
                    numbers = queue_offset[early]
                    gone[early] = (numbers >= queue.end) | (queue.places(numbers) > position[early])
        return gone


class RestartTable:
    """The log offsets where the queues that a decoder has met began again, by its row."""

    def __init__(self, restarts: Restarts) -> None:
        self.restarts = restarts
        self._begun = np.empty(0, dtype=np.int64)

    def leave_out(self, columns: Columns, wanted: Mask) -> None:
        """Clear the mask of wanted records where they no longer count."""
        fresh = range(len(self._begun), columns.queues)
        begun = [self.restarts.begun.get(columns.key(row), -1) for row in fresh]
        self._begun = np.concatenate([self._begun, np.array(begun, dtype=np.int64)])
        count = columns.records
        rows, position = columns.queue[:count], columns.position[:count]
        early = np.flatnonzero(wanted & (position < self._begun[rows]))
        for row in np.unique(rows[early]).tolist():
            here = early[rows[early] == row]
            gone = self.restarts.gone(columns.key(row), position[here], columns.queue_offset[:count][here])
            wanted[here[gone]] = False


def restarts_of(queues: DiskQueues, topics: list[bytes] | None, most: int) -> Restarts | None:
    """Return the queues, of these topics or of all, whose record of queue offset 0 is there and is not the log's first.

    None if there are more than `most` queues to look at.
    """
    every = queues.all() if topics is None else queues.of(topics)
    asked = list(islice(((queue.key, queue.first_place()) for queue in every), most + 1))
    if len(asked) > most:
        return None
    source = queues.source
    return Restarts({key: place for key, place in asked if source.begin < place < source.frontier}, source)


def _is_first(maps: LogMaps, offset: int, key: QueueKey) -> bool:
    """Return True if the record of a queue's message 0 is at a log offset."""
    start = maps.file_at(offset)
    if start is None:
        return False
    (size,) = _SIZE.unpack_from(maps.array(start).data, offset - start)
    data = maps.record(offset, size) if size >= MIN_RECORD_SIZE else None
    if data is None:
        return False
    record = decode_record(data, 0)
    return QueueKey(record.topic, record.queue_id) == key and record.queue_offset == 0
