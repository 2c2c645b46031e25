"""The queues that plain batches have had messages for, one row each, as the kernels look them up."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import count
from threading import Lock
from typing import NamedTuple

import numpy as np

from reput.files.maps import address_of
from reput.kernels import plain_kernels
from reput.kernels.batch_words import WORDS, Batch
from reput.log.encode import RecordEncoder
from reput.log.topics import Topic, TopicTable

MOST_QUEUES = 1 << 16
"""Rows; batches with messages for further queues go the general way. Rows that nobody uses cost no memory."""
_NAMES_SIZE = MOST_QUEUES * 64
_PIECE_BYTES = 512 << 10
"""Records that are encoded at once and then written: they stay in the processor's cache.

In pieces of a quarter a batch costs a fifth more: each write has its own price.
"""


class Piece(NamedTuple):
    """Memory for encoded records, and its address."""

    memory: memoryview
    address: int


def piece_of(size: int) -> Piece:
    """Memory for `size` bytes of records."""
    array = np.zeros(size, dtype=np.uint8)
    return Piece(array.data, address_of(array))


class QueueDirectory:
    """Rows for the queues of one log's writer. Rows are added under a lock and never change; nothing ever moves."""

    def __init__(self, topics: TopicTable, records: RecordEncoder, max_body: int) -> None:
        self.topics = topics
        self.queues: list[tuple[Topic, int]] = []
        self.template = np.zeros(WORDS, dtype=np.int64)
        self.piece_bytes = _PIECE_BYTES
        self.piece = piece_of(_PIECE_BYTES)
        self._lock = Lock()
        self._names_end = 0
        self._known: dict[tuple[Topic, int], int] = {}
        self._names = np.zeros(_NAMES_SIZE, dtype=np.uint8)
        self._names_at = address_of(self._names)
        self._table = np.zeros(4 * MOST_QUEUES, dtype=np.int32)
        self._hashes = np.zeros(MOST_QUEUES, dtype=np.uint64)
        self._ids, self._magics, self._part_sizes = (np.zeros(MOST_QUEUES, dtype=np.int32) for _ in range(3))
        self._parts, self.next_offsets, self._stamps = (np.zeros(MOST_QUEUES, dtype=np.int64) for _ in range(3))
        born_host, tail = (np.frombuffer(part, dtype=np.uint8) for part in records.host_parts)
        self._frame = born_host, tail
        self._add_queue: Callable[[int, int, int, int, int], int] = plain_kernels().add_queue
        self.stamps = count(1)
        """A number for each batch that no other batch has."""
        words = {
            Batch.MAX_BODY: max_body,
            Batch.SYS_FLAG: records.host_bits,
            Batch.BORN_HOST_AT: address_of(born_host),
            Batch.BORN_HOST_SIZE: len(born_host),
            Batch.TAIL_AT: address_of(tail),
            Batch.TAIL_SIZE: len(tail),
            Batch.TABLE_AT: address_of(self._table),
            Batch.MASK: len(self._table) - 1,
            # So that nobody can choose topics which all meet at one place of the table.
            Batch.FACTOR: secrets.randbits(62) << 1 | 1,
            Batch.HASH_AT: address_of(self._hashes),
            Batch.ID_AT: address_of(self._ids),
            Batch.MAGIC_AT: address_of(self._magics),
            Batch.PART_SIZE_AT: address_of(self._part_sizes),
            Batch.PART_AT: address_of(self._parts),
            Batch.NAMES_AT: self._names_at,
            Batch.NEXT_AT: address_of(self.next_offsets),
            Batch.STAMP_AT: address_of(self._stamps),
        }
        for word, value in words.items():
            self.template[word] = value
        self.template_at = address_of(self.template)

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
            if row == MOST_QUEUES or end > _NAMES_SIZE:
                return False
            self._names[begin:end] = np.frombuffer(topic.part, dtype=np.uint8)
            self._ids[row], self._magics[row] = queue_id, topic.magic
            self._parts[row], self._part_sizes[row] = begin, len(topic.part)
            self._names_end = end
            self.queues.append((topic, queue_id))
            self._add_queue(self.template_at, row, self._names_at + end - len(topic.name), len(topic.name), queue_id)
            self._known[topic, queue_id] = row
            return True
