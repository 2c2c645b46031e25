"""The queues of the messages in batches of columns, one row each, as the kernels look them up."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import count
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels import encode_kernels
from reput.kernels.layouts.batch import BATCH_LAYOUT, BatchAt
from reput.kernels.layouts.vectors import address_of
from reput.log.encode.encode import RecordEncoder
from reput.log.encode.topics import TopicState, TopicTable

MOST_QUEUES = 1 << 16
"""Rows of a directory. Unused rows cost no memory."""
_PIECE_BYTES = 512 << 10
"""Bytes of records that are encoded and then written at once: they stay in the processor's cache.

In pieces of a quarter of that, a batch costs a fifth more: each write has its own cost.
"""
_SCRATCH_ROWS = 1 << 14


class EncodeBuffer(NamedTuple):
    """A buffer for encoded records, and its address."""

    memory: memoryview
    address: int


def piece_of(size: int) -> EncodeBuffer:
    """Return a buffer for `size` bytes of records."""
    array = np.zeros(size, dtype=np.uint8)
    return EncodeBuffer(array.data, address_of(array))


class BatchScratch:
    """Scratch buffers of a batch of up to `rows` messages, needed until it is stored: they cost 5 us to make."""

    def __init__(self, directory: QueueDirectory, rows: int) -> None:
        self.directory = directory
        self.rows = max(rows, _SCRATCH_ROWS)
        self.vector: NDArray[np.int64] = directory.template.copy()
        self.at = address_of(self.vector)
        self.queues, self.touched = (np.empty(self.rows, dtype=np.int32) for _ in range(2))
        self.queues_at, self.touched_at = address_of(self.queues), address_of(self.touched)

    def leave(self) -> None:
        """Keep it for the next batch, unless it is larger than most batches need."""
        if self.rows == _SCRATCH_ROWS:
            self.directory.free.append(self)


class QueueDirectory:
    """Rows for the queues of one log's writer. Rows are added under a lock; they never change and never move.

    An empty directory (`fresh`) replaces a full one; a batch keeps the directory with which it began.
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
        """A number for each batch, which no other batch has."""
        template = self.template
        template[BatchAt.max_body], template[BatchAt.append_crc] = max_body, records.append_crc
        template[BatchAt.sys_flag] = records.host_bits
        template[BatchAt.born_host_at], template[BatchAt.born_host_size] = address_of(born_host), len(born_host)
        template[BatchAt.tail_at], template[BatchAt.tail_size] = address_of(tail), len(tail)
        template[BatchAt.table_at], template[BatchAt.mask] = address_of(self._table), len(self._table) - 1
        # Nobody can choose topics that all collide at one place of the table.
        template[BatchAt.factor] = secrets.randbits(62) << 1 | 1
        template[BatchAt.hash_at], template[BatchAt.id_at] = address_of(self._hashes), address_of(self._ids)
        template[BatchAt.magic_at], template[BatchAt.names_at] = address_of(self._magics), self._names_at
        template[BatchAt.part_size_at], template[BatchAt.part_at] = (
            address_of(self._part_sizes),
            address_of(self._parts),
        )
        template[BatchAt.next_at], template[BatchAt.stamp_at] = address_of(self.next_offsets), address_of(self._stamps)
        self._at = address_of(template)

    def fresh(self, rows: int) -> QueueDirectory:
        """Return an empty directory with at least `rows` rows."""
        return QueueDirectory(self.topics, self._records, self._max_body, rows)

    def scratch(self, rows: int) -> BatchScratch:
        """Return free scratch buffers; a batch takes them in one step, and gives them back."""
        try:
            scratch = self.free.pop()
        except IndexError:
            return BatchScratch(self, rows)
        return scratch if rows <= scratch.rows else BatchScratch(self, rows)

    def set_next(self, rows: NDArray[np.int32], offsets: Sequence[int]) -> None:
        """Set the next queue offsets of these rows."""
        if len(rows) == 1:
            # In a twentieth of the time.
            self.next_offsets[rows[0]] = offsets[0]
        else:
            self.next_offsets[rows] = offsets

    def next_of(self, rows: NDArray[np.int32]) -> list[int]:
        """Return the next queue offsets of these rows."""
        return [int(self.next_offsets[rows[0]])] if len(rows) == 1 else self.next_offsets[rows].tolist()

    def add(self, name: str, queue_id: int) -> bool:
        """Give a queue a row; return False if no row is left.

        Raises:
            MessageRefusedError: The topic is invalid.
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
