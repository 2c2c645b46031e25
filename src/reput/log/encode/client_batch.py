"""A batch of messages as a client has sent it, on its way into the log: no message becomes an object of Python.

A kernel splits the batch's body into columns, and those of `laid_out` write them. (As `Message`s a batch of 100 takes
ten times as long.)
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.layout import WORD_SIZE
from reput.formats.log.record import FLAG_BORN_HOST_V6, FLAG_STORE_HOST_V6
from reput.kernels import client_kernels
from reput.kernels.layouts.batch import BatchAt, TextsAt
from reput.kernels.layouts.client_batch import SPLIT, SPLIT_LAYOUT, SplitAt, most_rows
from reput.kernels.layouts.records import address_of, vector_of
from reput.log.encode.laid_out import CALL_FIELDS, LaidOutBatch
from reput.log.encode.queue_directory import QueueDirectory

if TYPE_CHECKING:
    from reput.formats.log.record import Host

_HOST_BITS = FLAG_BORN_HOST_V6 | FLAG_STORE_HOST_V6


class SentBatch(NamedTuple):
    """A batch for one queue as a client has sent it.

    Attributes:
        topic: The topic.
        queue_id: The queue.
        body: The messages (`reput.formats.log.client_batch`).
        sys_flag: RocketMQ's sysFlag bits of all messages, without those of transactions.
        born_timestamp: Time at which they were created (ms since 1970).
        born_host: Host that created them; its address has four bytes.
    """

    topic: str
    queue_id: int
    body: bytes
    sys_flag: int
    born_timestamp: int
    born_host: Host


class SplitColumns:
    """The columns that a body is split into, in one buffer."""

    def __init__(self, body: bytes) -> None:
        rows = most_rows(len(body))
        self._body = np.frombuffer(body, dtype=np.uint8)
        offsets_size = WORD_SIZE * (rows + 1)
        sizes = (offsets_size, offsets_size, 4 * rows, len(body), len(body))
        self._buffer = np.empty(sum(sizes), dtype=np.uint8)
        places = accumulate((address_of(self._buffer), *sizes))  # np.cumsum takes ten times as long for so few
        self.body_offsets_at, self.property_offsets_at, self.flags_at, self.bodies_at, self.properties_at, _ = places
        self._split = vector_of(
            SPLIT_LAYOUT,
            data_at=address_of(self._body),
            size=len(body),
            rows=0,
            body_offsets_at=self.body_offsets_at,
            bodies_at=self.bodies_at,
            property_offsets_at=self.property_offsets_at,
            properties_at=self.properties_at,
            flags_at=self.flags_at,
        )
        self.are_split = client_kernels().split_batch(address_of(self._split)) == SPLIT
        self.rows = int(self._split[SplitAt.rows])


class ClientBatch(LaidOutBatch):
    """A batch of a client, split into columns."""

    def __init__(self, directory: QueueDirectory, sent: SentBatch, columns: SplitColumns) -> None:
        topic, rows = sent.topic.encode(), columns.rows
        size = len(sent.body)
        self._sent, self._columns = sent, columns
        self._topics = np.frombuffer(topic * rows, dtype=np.uint8)
        self._topic_offsets = np.arange(0, len(topic) * rows + 1, len(topic), dtype=np.int64)
        # The queue ids, and the times.
        self._shared = np.empty((2, rows), dtype=np.int64)
        self._shared[0], self._shared[1] = sent.queue_id, sent.born_timestamp
        self._host = np.frombuffer(sent.born_host.encode(), dtype=np.uint8)
        fields = [0] * CALL_FIELDS
        fields[BatchAt.rows] = rows
        for place, offsets_at, data_at, data_size in (
            (BatchAt.topic, address_of(self._topic_offsets), address_of(self._topics), len(self._topics)),
            (BatchAt.body, columns.body_offsets_at, columns.bodies_at, size),
            (BatchAt.properties, columns.property_offsets_at, columns.properties_at, size),
        ):
            fields[place + TextsAt.offsets_at], fields[place + TextsAt.width] = offsets_at, WORD_SIZE
            fields[place + TextsAt.data_at], fields[place + TextsAt.data_size] = data_at, data_size
        shared_at = address_of(self._shared)
        fields[BatchAt.queue_id_at], fields[BatchAt.queue_id_width] = shared_at, WORD_SIZE
        fields[BatchAt.born_at] = shared_at + WORD_SIZE * rows
        fields[BatchAt.flag_at] = columns.flags_at
        fields[BatchAt.sys_flag] = sent.sys_flag & ~_HOST_BITS | directory.host_bits & FLAG_STORE_HOST_V6
        fields[BatchAt.born_host_at], fields[BatchAt.born_host_size] = address_of(self._host), len(self._host)
        results = np.empty((3, rows), dtype=np.int64)
        super().__init__(directory, fields, results, address_of(results))

    def _queue_of(self, row: int) -> tuple[bytes, int]:  # noqa: ARG002 - all rows have one queue
        return self._sent.topic.encode(), self._sent.queue_id


class ClientBatches:
    """Makes batches of what clients have sent, for the writer of one log."""

    def __init__(self, directory: QueueDirectory) -> None:
        self._directory = directory

    def batch(self, sent: SentBatch) -> ClientBatch | None:
        """Return the batch, checked and measured; None if it must be looked at message by message.

        That is so for a body that does not hold whole messages, and for properties that may change how a message is
        stored.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which.
        """
        columns = SplitColumns(sent.body)
        if not columns.are_split:
            return None
        batch = ClientBatch(self._directory, sent, columns)
        if not batch.lay_out():
            # An empty directory has room for the queue.
            self._directory = self._directory.fresh(1)
            batch = ClientBatch(self._directory, sent, columns)
            batch.lay_out()
        return batch
