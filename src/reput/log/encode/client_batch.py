"""A batch of messages as a client has sent it, on its way into the log: no message becomes an object of Python.

A kernel splits the batch's body into columns, and those of `laid_out` write them. (As `Message`s a batch of 100 takes
ten times as long.)
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.layout import WORD_SIZE
from reput.formats.log.record import FLAG_STORE_HOST_V6, FLAGS_V6
from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels import EncodeKernels, client_kernels, encode_kernels, lasting_kind
from reput.kernels.layouts.batch import BatchAt, TextsAt
from reput.kernels.layouts.client_batch import COLUMNS_LAYOUT, column_sizes
from reput.kernels.layouts.vectors import address_of, vector_of
from reput.log.encode.laid_out import CALL_WORDS, LaidOutBatch
from reput.log.encode.queue_directory import QueueDirectory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.log.record import Host
    from reput.log.encode.batch import Write
    from reput.log.encode.message import PutManyResult

_KEPT_SIZE = 64 << 10
"""The longest body for which columns are kept."""


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
    """The columns that a body is split into, in one buffer.

    Args:
        size: the most bytes of a body.
        topic_size: the most bytes of a topic.

    Attributes:
        at: The address of their vector (`COLUMNS_LAYOUT`).
        words: The words of a batch that lead to them; the batch fills in the others.
    """

    def __init__(self, size: int, topic_size: int) -> None:
        self.size, self.topic_size = size, topic_size
        sizes = column_sizes(size, topic_size)
        # They cost no memory until they are filled.
        self._buffer = np.empty(sum(sizes.values()), dtype=np.uint8)
        # np.cumsum takes ten times as long for so few.
        places = dict(zip(sizes, accumulate(sizes.values(), initial=address_of(self._buffer)), strict=False))
        self._vector = vector_of(COLUMNS_LAYOUT, **places)
        self.at = address_of(self._vector)
        self.words = words = [0] * CALL_WORDS
        for place, offsets, data in (
            (BatchAt.topic, "topic_offsets_at", "topics_at"),
            (BatchAt.body, "body_offsets_at", "bodies_at"),
            (BatchAt.properties, "property_offsets_at", "properties_at"),
        ):
            words[place + TextsAt.offsets_at], words[place + TextsAt.width] = places[offsets], WORD_SIZE
            words[place + TextsAt.data_at], words[place + TextsAt.data_size] = places[data], sizes[data]
        words[BatchAt.queue_id_at], words[BatchAt.queue_id_width] = places["queue_ids_at"], WORD_SIZE
        words[BatchAt.born_at], words[BatchAt.flag_at] = places["born_at"], places["flags_at"]


class BornHost(NamedTuple):
    """A host as records hold it, in memory that kernels read."""

    host: Host | None
    memory: NDArray[np.uint8]
    address: int

    @classmethod
    def of(cls, host: Host) -> BornHost:
        """Return a host's."""
        memory = np.frombuffer(host.encode(), dtype=np.uint8)
        return cls(host, memory, address_of(memory))


class ClientBatch(LaidOutBatch):
    """A batch of a client, split into columns.

    Args:
        directory: the queues of the log's writer.
        kernels: the encode kernels.
        sent: the batch.
        columns: its columns, which have `rows` messages.
        host: the host that created them.
        free: gets the columns once the batch is stored.
    """

    def __init__(
        self,
        directory: QueueDirectory,
        kernels: EncodeKernels,
        sent: SentBatch,
        columns: SplitColumns,
        rows: int,
        host: BornHost,
        free: list[SplitColumns],
    ) -> None:
        self._sent, self._columns, self._host, self._free = sent, columns, host, free
        words = columns.words
        words[BatchAt.rows] = rows
        words[BatchAt.sys_flag] = sent.sys_flag & ~FLAGS_V6 | directory.host_bits & FLAG_STORE_HOST_V6
        words[BatchAt.born_host_at], words[BatchAt.born_host_size] = host.address, len(host.memory)
        results = np.empty((3, rows), dtype=np.int64)
        super().__init__(directory, words, results, address_of(results), kernels)

    def _queue_of(self, row: int) -> tuple[bytes, int]:  # noqa: ARG002 - all rows have one queue
        return self._sent.topic.encode(), self._sent.queue_id

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records and number them; see `CheckedBatch`."""
        result = super().encode(write, position, offset, now_ms)
        if self._columns.size == _KEPT_SIZE:
            self._free.append(self._columns)
        return result


class ClientBatches:
    """Makes batches of what clients have sent, for the writer of one log."""

    def __init__(self, directory: QueueDirectory) -> None:
        self._directory = directory
        kind = lasting_kind()
        self._split, self._kernels = client_kernels(kind).split_batch, encode_kernels(kind)
        self._free: list[SplitColumns] = []
        self._last_host = BornHost(None, np.empty(0, dtype=np.uint8), 0)

    def batch(self, sent: SentBatch) -> ClientBatch | None:
        """Return the batch, checked and measured; None if it must be looked at message by message.

        That is so for a body that does not hold whole messages, and for properties that may change how a message is
        stored.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which.
        """
        topic = sent.topic.encode()
        columns = self._columns(len(sent.body), len(topic))
        rows = self._split(columns.at, sent.body, topic, sent.queue_id, sent.born_timestamp)
        if rows <= 0:
            return None
        batch = self._batch(sent, columns, rows)
        if not batch.lay_out():
            # An empty directory has room for the queue.
            self._directory = self._directory.fresh(1)
            batch = self._batch(sent, columns, rows)
            batch.lay_out()
        return batch

    def _columns(self, size: int, topic_size: int) -> SplitColumns:
        """Return columns that no other batch has: kept ones, which are in the processor's cache, if they suffice."""
        if size > _KEPT_SIZE or topic_size > MAX_TOPIC_BYTES:
            return SplitColumns(size, topic_size)
        try:
            return self._free.pop()
        except IndexError:
            return SplitColumns(_KEPT_SIZE, MAX_TOPIC_BYTES)

    def _batch(self, sent: SentBatch, columns: SplitColumns, rows: int) -> ClientBatch:
        # A connection has one host for all its batches. Another thread may put another one in.
        host = self._last_host
        if host.host is not sent.born_host:
            self._last_host = host = BornHost.of(sent.born_host)
        return ClientBatch(self._directory, self._kernels, sent, columns, rows, host, self._free)


def join_message_ids(store_host: bytes, physical_offsets: NDArray[np.int64]) -> str:
    """Return the ids of messages that have one store host (as a record holds it), with commas between."""
    rows, id_size = len(physical_offsets), 2 * (len(store_host) + WORD_SIZE)
    out = np.empty((id_size + 1) * rows, dtype=np.uint8)
    offsets = np.ascontiguousarray(physical_offsets, dtype=np.int64)
    size = client_kernels().join_ids(store_host, address_of(offsets), rows, address_of(out))
    return str(out.data[:size], "ascii")
