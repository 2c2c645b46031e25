"""The queues that batches of columns have had messages for, one row each, as the kernels look them up."""

from __future__ import annotations

import secrets
from itertools import count
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels import encode_kernels
from reput.kernels.batch_layout import BATCH_LAYOUT, Batch
from reput.kernels.records import address_of
from reput.log.encode import RecordEncoder
from reput.log.topics import TopicState, TopicTable

MOST_QUEUES = 1 << 16
"""Rows. Rows that nobody uses cost no memory."""
_PIECE_BYTES = 512 << 10
"""Records that are encoded at once and then written: they stay in the processor's cache.

In pieces of a quarter a batch costs a fifth more: each write has its own price.
"""
_SCRATCH_ROWS = 1 << 14


class EncodeBuffer(NamedTuple):
    """Memory for encoded records, and its address."""

    memory: memoryview
    address: int


def piece_of(size: int) -> EncodeBuffer:
    """Memory for `size` bytes of records."""
    array = np.zeros(size, dtype=np.uint8)
    return EncodeBuffer(array.data, address_of(array))


class BatchScratch:
    """What a batch of up to `rows` messages needs only until it is stored: to make it costs 5 us."""

    def __init__(self, directory: QueueDirectory, rows: int) -> None:
        self.directory = directory
        self.rows = max(rows, _SCRATCH_ROWS)
        self.record: NDArray[np.int64] = directory.template.copy()
        self.at = address_of(self.record)
        self.queues, self.touched = (np.empty(self.rows, dtype=np.int32) for _ in range(2))
        self.queues_at, self.touched_at = address_of(self.queues), address_of(self.touched)

    def leave(self) -> None:
        """Have it for the next batch, if it is no larger than most of them need."""
        if self.rows == _SCRATCH_ROWS:
            self.directory.free.append(self)


class QueueDirectory:
    """Rows for the queues of one log's writer. Rows are added under a lock and never change; nothing ever moves.

    A directory that is full gives way to `fresh`, an empty one; a batch keeps the directory that it began with.
    """

    def __init__(self, topics: TopicTable, records: RecordEncoder, max_body: int, rows: int = 0) -> None:
        self.topics = topics
        self.host_bits = records.host_bits
        self.queues: list[tuple[TopicState, int]] = []
        self.template = np.zeros(BATCH_LAYOUT.word_count, dtype=np.int64)
        self.piece_bytes = _PIECE_BYTES
        self.piece = piece_of(_PIECE_BYTES)
        self.free: list[BatchScratch] = []
        self._records, self._max_body = records, max_body
        self._rows = rows = max(rows, MOST_QUEUES)
        self._lock = Lock()
        self._names_end = 0
        self._known: dict[tuple[TopicState, int], int] = {}
        self._names = np.zeros(rows * (2 + MAX_TOPIC_BYTES), dtype=np.uint8)
        self._names_at = address_of(self._names)
        self._table = np.zeros(4 << (rows - 1).bit_length(), dtype=np.int32)
        self._hashes = np.zeros(rows, dtype=np.uint64)
        self._ids, self._magics, self._part_sizes = (np.zeros(rows, dtype=np.int32) for _ in range(3))
        self._parts, self.next_offsets, self._stamps = (np.zeros(rows, dtype=np.int64) for _ in range(3))
        self._hosts = born_host, tail = tuple(np.frombuffer(part, dtype=np.uint8) for part in records.host_parts)
        self.stamps = count(1)
        """A number for each batch that no other batch has."""
        template = self.template
        template[Batch.max_body], template[Batch.append_crc] = max_body, records.append_crc
        template[Batch.sys_flag] = records.host_bits
        template[Batch.born_host_at], template[Batch.born_host_size] = address_of(born_host), len(born_host)
        template[Batch.tail_at], template[Batch.tail_size] = address_of(tail), len(tail)
        template[Batch.table_at], template[Batch.mask] = address_of(self._table), len(self._table) - 1
        # So that nobody can choose topics which all meet at one place of the table.
        template[Batch.factor] = secrets.randbits(62) << 1 | 1
        template[Batch.hash_at], template[Batch.id_at] = address_of(self._hashes), address_of(self._ids)
        template[Batch.magic_at], template[Batch.names_at] = address_of(self._magics), self._names_at
        template[Batch.part_size_at], template[Batch.part_at] = address_of(self._part_sizes), address_of(self._parts)
        template[Batch.next_at], template[Batch.stamp_at] = address_of(self.next_offsets), address_of(self._stamps)
        self._at = address_of(template)

    def fresh(self, rows: int) -> QueueDirectory:
        """An empty directory with at least so many rows."""
        return QueueDirectory(self.topics, self._records, self._max_body, rows)

    def scratch(self, rows: int) -> BatchScratch:
        """Scratch buffers that are free; a batch takes them in one step, and gives them back."""
        try:
            scratch = self.free.pop()
        except IndexError:
            return BatchScratch(self, rows)
        return scratch if rows <= scratch.rows else BatchScratch(self, rows)

    def add(self, name: str, queue_id: int) -> bool:
        """Give a queue a row. False where no row is left for it.

        Raises:
            MessageRefusedError: there can be no such topic.
        """
        topic = self.topics.topic(name)
        with self._lock:
            if (topic, queue_id) in self._known:
                return True
            row, begin, end = len(self.queues), self._names_end, self._names_end + len(topic.part)
            if row == self._rows:
                return False
            self._names[begin:end] = np.frombuffer(topic.part, dtype=np.uint8)
            self._ids[row], self._magics[row] = queue_id, topic.magic
            self._parts[row], self._part_sizes[row] = begin, len(topic.part)
            self._names_end = end
            self.queues.append((topic, queue_id))
            name_at = self._names_at + end - len(topic.name)
            encode_kernels().add_queue(self._at, row, name_at, len(topic.name), queue_id)
            self._known[topic, queue_id] = row
            return True
