"""Queues that began again at 0: which of their older messages still count.

A topic's queues may be deleted while the log keeps the messages, and new messages then begin at 0. To RocketMQ the old
ones are gone, as no queue leads to them, and the queue plan does not meet them either. So that every plan gives the
same rows, those that meet them in the log leave them out: in front of the record that a queue has at 0 a message counts
only where the queue's entry of its number leads to it. Queues that never began again have nothing there, so that
nothing is looked up for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.connect.cut.disk_queues import BatchQueue, DiskQueue, DiskQueues, PlainQueue
from reput.formats.consume_queue import ENTRY, QueueKey
from reput.formats.record import MIN_RECORD_SIZE, decode_record
from reput.kernels.columns import Columns
from reput.log.maps import LogMaps
from reput.queue.batch_files import BatchFiles
from reput.queue.kinds import QueueKind

Mask = NDArray[np.bool_]
Int64s = NDArray[np.int64]
_BLOCK = 1 << 16
_SIZE_BYTES = 4


@dataclass(frozen=True)
class Restarts:
    """Where queues have their record of queue offset 0, and what is needed to look entries up.

    `begun` has only queues of which that record is not the log's first; whether they had others before, the log tells.
    Of the queues what lies in the log from `begin` up to `frontier` counts.
    """

    begun: Mapping[QueueKey, int]
    kind: QueueKind
    batches: BatchFiles
    commit_log: str
    log_file_size: int
    begin: int
    frontier: int

    def behind(self, offset: int) -> Restarts | None:
        """Those that matter to records from a log offset on; None for none."""
        begun = {key: place for key, place in self.begun.items() if place > offset}
        return replace(self, begun=begun) if begun else None

    def gone(self, key: QueueKey, position: Int64s, queue_offset: Int64s) -> Mask:
        """Which of a queue's records, at these log offsets and with these numbers, no longer count."""
        gone: Mask = np.zeros(len(position), dtype=np.bool_)
        early = np.flatnonzero(position < self.begun.get(key, -1))
        if len(early):
            with self._queues() as queues:
                queue = queues.one(key)
                # The queue is believed only where the log says, too, that it began there.
                if queue is not None and _is_first(queues.maps, self.begun[key], key):
                    numbers = queue_offset[early]
                    gone[early] = (numbers >= queue.end) | (_places(queue, numbers) > position[early])
        return gone

    @contextmanager
    def _queues(self) -> Iterator[DiskQueues]:
        maps = LogMaps(Path(self.commit_log), self.log_file_size)
        try:
            with DiskQueues(self.kind, self.batches, maps, self.begin, self.frontier) as queues:
                yield queues
        finally:
            maps.close()


class RestartTable:
    """Where the queues that a decoder has met begin, by its row."""

    def __init__(self, restarts: Restarts) -> None:
        self.restarts = restarts
        self._begun = np.empty(0, dtype=np.int64)

    def leave_out(self, columns: Columns, wanted: Mask) -> None:
        """Take those that no longer count out of the wanted records."""
        fresh = range(len(self._begun), columns.queues)
        begun = [self.restarts.begun.get(_key(columns, row), -1) for row in fresh]
        self._begun = np.concatenate([self._begun, np.array(begun, dtype=np.int64)])
        count = columns.records
        rows, position = columns.queue[:count], columns.position[:count]
        early = np.flatnonzero(wanted & (position < self._begun[rows]))
        for row in np.unique(rows[early]).tolist():
            here = early[rows[early] == row]
            gone = self.restarts.gone(_key(columns, row), position[here], columns.queue_offset[:count][here])
            wanted[here[gone]] = False


def queues_begun(queues: DiskQueues, topics: list[bytes] | None, most: int) -> dict[QueueKey, int] | None:
    """The queues, of these topics or of all, whose record of queue offset 0 is there and is not the log's first.

    Each with that record's log offset; None where there are more than `most` queues to look at.
    """
    asked = list(islice(queues.firsts(topics), most + 1))
    if len(asked) > most:
        return None
    return {key: place for key, place in asked if queues.begin < place < queues.frontier}


def _key(columns: Columns, row: int) -> QueueKey:
    return QueueKey(columns.topic(row), int(columns.queue_id[row]))


def _is_first(maps: LogMaps, offset: int, key: QueueKey) -> bool:
    """Whether the record of a queue with number 0 stands at a log offset."""
    start = maps.file_at(offset)
    if start is None:
        return False
    size = int.from_bytes(maps.array(start)[offset - start : offset - start + _SIZE_BYTES].tobytes(), "big")
    data = maps.record(offset, size) if size >= MIN_RECORD_SIZE else None
    if data is None:
        return False
    record = decode_record(data, 0)
    return QueueKey(record.topic, record.queue_id) == key and record.queue_offset == 0


def _places(queue: DiskQueue, numbers: Int64s) -> Int64s:
    """The log offsets to which the entries of some queue offsets lead; nothing below 1 where there is none."""
    found = np.zeros(len(numbers), dtype=np.int64)
    if isinstance(queue, BatchQueue):
        for at, number in enumerate(numbers.tolist()):
            first, _ = queue.numbers(number, number + 1)
            entries = queue.entries(first, first + 1)
            found[at] = entries[0]["physical_offset"] if len(entries) else 0
        return found
    assert isinstance(queue, PlainQueue)
    for block in np.unique(numbers // _BLOCK).tolist():
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, queue.end)
        if begin < end:
            places = queue.queue.packed(begin, end).view(ENTRY.dtype)["physical_offset"].astype(np.int64)
            here = np.flatnonzero((numbers >= begin) & (numbers < end))
            found[here] = places[numbers[here] - begin]
    return found
