"""The parts of a decoded range: native-endian columns, a small table of queues and a state vector.

Both twins of the decode kernel fill the same arrays in place, so a caller can size them, grow them and use them again
for the next range. Place `i` of a column holds record `i` in log order.
"""

from __future__ import annotations

import threading
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import Field, Layout
from reput.formats.log.record import MIN_RECORD_SIZE
from reput.formats.queue.consume_queue import QueueKey
from reput.kernels.layouts.vectors import address_of, vector_of

IN_QUEUE = 1
IN_INDEX = 2
HAS_TAG_ITEM = 4
INNER_BATCH = 8
MULTI_DISPATCH = 16
"""Bits of the `flags` column: gets a ConsumeQueue entry, gets index items, its last item is the tag's, is a batch of
messages (sysFlag 0x80), has the properties of a message for further queues."""

MAX_NAME_SIZE = 256


class Stop(IntEnum):
    """The reason why a decode call returned."""

    REACHED_END = 0
    FILE_END = 1
    NOT_A_RECORD = 2
    RECORDS_FULL = 3
    ITEMS_FULL = 4
    QUEUES_FULL = 5


STATE_LAYOUT = Layout(
    "The state of a decoding: counters that go on from call to call, and the place where the last call stopped",
    "reput",
    [
        Field("records", "q", "records in the columns"),
        Field("items", "q", "index items in the columns"),
        Field("queues", "q", "rows in the table of queues"),
        Field("names", "q", "bytes of the topics in that table"),
        Field("position", "q", "the place in the buffer where the last call stopped"),
        Field("verdict", "q", "the `Verdict` on what is there"),
        Field("prepared", "q", "prepared messages of transactions"),
        Field("rolled_back", "q", "rolled-back messages of transactions"),
        Field("inner_batches", "q", "records that hold a batch of messages"),
        Field("first_inner_batch", "q", "log offset of the first of them, -1: none"),
        Field("multi_dispatches", "q", "records with the properties of a message for further queues"),
        Field("first_multi_dispatch", "q", "log offset of the first of them, -1: none"),
        Field("time_regressions", "q", "records whose store time is below that of the record before"),
        Field("first_time_regression", "q", "log offset of the first of them, -1: none"),
        Field("last_store_timestamp", "q", "store time (ms) of the last record, -1: none"),
        Field("first_store_timestamp", "q", "store time (ms) of the first record, -1: none"),
        Field("max_store_timestamp", "q", "the highest store time (ms), -1: none"),
        Field("further", "q", "entries in further queues"),
    ],
    "=",
)
StateAt = STATE_LAYOUT.words


class Pull(IntEnum):
    """The outcome of a pull: nothing that matches, messages, or only messages whose records have expired."""

    NOTHING = 0
    FOUND = 1
    REMOVED = 2


class DecodeRules(NamedTuple):
    """The rules for decoding records.

    `crc_check`: one of `reput.formats.log.record.CHECK_NONE`, `CHECK_BODY` and `CHECK_PROPERTY`. `tag_items`: tags get
    index items (RocketMQ 5.4.0 and later). `delays_ms[level]`: the delay of a level, -1 for an unknown one; place 0 is
    not used.
    """

    crc_check: int
    tag_items: bool
    delays_ms: NDArray[np.int64]


class PullRules(NamedTuple):
    """The rules for choosing the entries of a pull.

    An entry is passed over if its record does not lie in [log_begin, log_end), or if its tags code, cut to 32 bits, is
    not in `codes` (int64; empty: all match). The pull ends before an entry that would exceed `max_messages` or
    `max_bytes`, but takes at least one; and it ends once it has `stop_bytes`.
    """

    log_begin: int
    log_end: int
    log_file_size: int
    codes: NDArray[np.int64]
    max_messages: int
    max_bytes: int
    stop_bytes: int


class Choice(NamedTuple):
    """The entries that a pull has chosen: their number, and the number of entries that it passed over or took.

    `outcome` is a `Pull`. `first` and `last` are the lowest and the highest log offset of the records; -1: none.
    `damaged` is the number of the first entry whose record would be empty, or would end after the log; -1: none.
    `unordered` is that of the first one taken whose record does not lie after that of the one taken before.
    """

    taken: int
    passed: int
    outcome: int
    first: int
    last: int
    damaged: int
    unordered: int


class RecordColumns(NamedTuple):
    """The arrays of `Columns` with a place for each record or index item."""

    position: NDArray[np.int64]
    size: NDArray[np.int32]
    queue: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    tags_code: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    flags: NDArray[np.uint8]
    first_item: NDArray[np.int32]
    item_hash: NDArray[np.int32]


QUEUE_TABLE_LAYOUT = Layout(
    "The addresses of a table of queues, for a look-up of one queue",
    "reput",
    [
        Field("hash_table_at", "q", "the hash table: int32, row + 1, 0 for a free place"),
        Field("mask", "q", "its places - 1"),
        Field("hash_key_at", "q", "per row the hash, uint64"),
        Field("queue_id_at", "q", "per row the queue id, int32"),
        Field("topic_at_at", "q", "per row where its topic begins in the names, int32"),
        Field("topic_size_at", "q", "per row the topic's bytes, int32"),
        Field("names_at", "q", "the topics' bytes"),
    ],
    "=",
)
QueueTableAt = QUEUE_TABLE_LAYOUT.words


class QueueTable(NamedTuple):
    """The arrays of `Columns` with a row for each queue, and the hash table that leads to the rows."""

    queue_id: NDArray[np.int32]
    topic_at: NDArray[np.int32]
    topic_size: NDArray[np.int32]
    topic_hash: NDArray[np.int32]
    is_schedule: NDArray[np.uint8]
    names: NDArray[np.uint8]
    hash_table: NDArray[np.int32]
    hash_key: NDArray[np.uint64]

    def topic(self, row: int) -> bytes:
        """Return the topic of a row."""
        begin = int(self.topic_at[row])
        return self.names[begin : begin + int(self.topic_size[row])].tobytes()

    def addresses(self) -> NDArray[np.int64]:
        """Return the vector of `QUEUE_TABLE_LAYOUT`; keep the arrays as long as they are in use."""
        return vector_of(
            QUEUE_TABLE_LAYOUT,
            hash_table_at=address_of(self.hash_table),
            mask=len(self.hash_table) - 1,
            hash_key_at=address_of(self.hash_key),
            queue_id_at=address_of(self.queue_id),
            topic_at_at=address_of(self.topic_at),
            topic_size_at=address_of(self.topic_size),
            names_at=address_of(self.names),
        )


class FurtherRecords(NamedTuple):
    """Records that get entries in further queues: their numbers, log offsets, and the ids of their own queues."""

    record: NDArray[np.int32]
    position: NDArray[np.int64]
    queue_id: NDArray[np.int32]


class FurtherEntries(NamedTuple):
    """Entries in further queues: the record that gets it, the queue's row, and the record's number there."""

    record: NDArray[np.int32]
    queue: NDArray[np.int32]
    offset: NDArray[np.int64]


class ColumnArrays(NamedTuple):
    """The arrays of `Columns` that decoding fills: the records, the table of queues, and the state (`StateAt`)."""

    records: RecordColumns
    queues: QueueTable
    state: NDArray[np.int64]


class ItemSources(NamedTuple):
    """The columns of which index items are made, as in `Columns`."""

    first_item: NDArray[np.int32]
    position: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    item_hash: NDArray[np.int32]


class ItemRange(NamedTuple):
    """Items [item, item_end) of `ItemSources`, which a kernel chains.

    `record` is the record of the first one, and `number` its number in its file. `begin_timestamp` is the time (ms)
    that time differences count from: before item 1 the previous file's end, from then on item 1's own time.
    """

    record: int
    item: int
    item_end: int
    number: int
    begin_timestamp: int


def _records_in(size: int) -> int:
    """Return the most records that can begin in `size` bytes of log, and one more."""
    return size // MIN_RECORD_SIZE + 2


class Columns:
    """The columns of one decoded range, with space for `records` records and `items` index items.

    | array | dtype | per | meaning |
    |---|---|---|---|
    | position | int64 | record | where it starts in the log |
    | size | int32 | record | its length in bytes |
    | queue | int32 | record | its row in the table of queues |
    | queue_offset | int64 | record | its number in its queue |
    | tags_code | int64 | record | as a ConsumeQueue entry holds it |
    | store_timestamp | int64 | record | ms |
    | flags | uint8 | record | IN_QUEUE, IN_INDEX, HAS_TAG_ITEM, INNER_BATCH, MULTI_DISPATCH |
    | first_item | int32 | record + 1 | items of the records before it |
    | item_hash | int32 | item | the IndexFile's hash of topic, "#" and key |
    | queue_id | int32 | queue | its id |
    | topic_at, topic_size | int32 | queue | where its topic begins in `names`, and the topic's length |
    | topic_hash | int32 | queue | Java hash of topic + "#" |
    | is_schedule | uint8 | queue | whether it is one of the delayed messages' queues |
    | names | uint8 | - | the topics' bytes, one after the other |

    Few records say more than their own place in a queue. A second step reads this into further arrays:

    | array | dtype | per | meaning |
    |---|---|---|---|
    | batch_record | int32 | inner batch | its record |
    | batch_base | int64 | inner batch | queue offset of its first message; -1 if its properties do not say it |
    | batch_messages | int16 | inner batch | messages in it; 0 if its properties are not valid |
    | further_record | int32 | further entry | the record that gets it |
    | further_queue | int32 | further entry | the queue's row |
    | further_offset | int64 | further entry | the record's number there |
    """

    def __init__(self, records: int, items: int, queues: int = 1 << 12) -> None:
        self.kind = ""
        """The kind of kernels that began the table of queues; only this kind finds the rows again."""
        self.position: NDArray[np.int64] = np.empty(records, dtype=np.int64)
        self.size: NDArray[np.int32] = np.empty(records, dtype=np.int32)
        self.queue: NDArray[np.int32] = np.empty(records, dtype=np.int32)
        self.queue_offset: NDArray[np.int64] = np.empty(records, dtype=np.int64)
        self.tags_code: NDArray[np.int64] = np.empty(records, dtype=np.int64)
        self.store_timestamp: NDArray[np.int64] = np.empty(records, dtype=np.int64)
        self.flags: NDArray[np.uint8] = np.empty(records, dtype=np.uint8)
        self.first_item: NDArray[np.int32] = np.zeros(records + 1, dtype=np.int32)
        self.item_hash: NDArray[np.int32] = np.empty(items, dtype=np.int32)
        self.forget_second_step()
        self._allocate_queues(queues)
        self.state: NDArray[np.int64] = np.zeros(len(StateAt), dtype=np.int64)
        self.clear()

    def _allocate_queues(self, queues: int) -> None:
        self.queue_id: NDArray[np.int32] = np.empty(queues, dtype=np.int32)
        self.topic_at: NDArray[np.int32] = np.empty(queues, dtype=np.int32)
        self.topic_size: NDArray[np.int32] = np.empty(queues, dtype=np.int32)
        self.topic_hash: NDArray[np.int32] = np.empty(queues, dtype=np.int32)
        self.is_schedule: NDArray[np.uint8] = np.empty(queues, dtype=np.uint8)
        self.names: NDArray[np.uint8] = np.empty(queues * 64 + MAX_NAME_SIZE, dtype=np.uint8)
        # Open addressing, at most a quarter full: the queue's row + 1, and 0 for a free place. A mask finds the places,
        # so their number is a power of two.
        self.hash_table: NDArray[np.int32] = np.zeros(1 << (4 * queues - 1).bit_length(), dtype=np.int32)
        self.hash_key: NDArray[np.uint64] = np.empty(queues, dtype=np.uint64)

    @classmethod
    def for_range(cls, size: int) -> Columns:
        """Make columns with space for all records of `size` bytes of log. Pages that are never used cost nothing."""
        records = _records_in(size)
        return cls(records, 4 * records + 1024)

    def hold_range(self, size: int) -> bool:
        """Return True if they have space for the records of `size` bytes of log."""
        return len(self.position) >= _records_in(size)

    def clear(self, *, keep_queues: bool = False) -> None:
        """Empty the columns, so that they can take another range; `keep_queues` keeps the table of queues."""
        queues, names = self.queues, int(self.state[StateAt.names])
        self.state[:] = 0
        self.state[StateAt.first_inner_batch] = -1
        self.state[StateAt.first_multi_dispatch] = -1
        self.state[StateAt.first_time_regression] = -1
        self.state[StateAt.first_store_timestamp] = -1
        self.state[StateAt.last_store_timestamp] = -1
        self.state[StateAt.max_store_timestamp] = -1
        self.first_item[0] = 0
        if keep_queues:
            self.state[StateAt.queues], self.state[StateAt.names] = queues, names
        else:
            self.hash_table[:] = 0
        if len(self.batch_record) or len(self.further_record):
            self.forget_second_step()

    def forget_second_step(self) -> None:
        """Empty the arrays of the second step."""
        self.batch_record: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.batch_base: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.batch_messages: NDArray[np.int16] = np.empty(0, dtype=np.int16)
        self.further_record: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.further_queue: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.further_offset: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def grow(self, why: Stop) -> None:
        """Add space where the last call found none; the contents stay."""
        if why is Stop.RECORDS_FULL:
            records = 2 * len(self.position) + 16
            for name in (
                "position",
                "size",
                "queue",
                "queue_offset",
                "tags_code",
                "store_timestamp",
                "flags",
            ):
                setattr(self, name, _resized(getattr(self, name), records))
            self.first_item = _resized(self.first_item, records + 1)
        elif why is Stop.ITEMS_FULL:
            self.item_hash = _resized(self.item_hash, 2 * len(self.item_hash) + 65536)
        elif why is Stop.QUEUES_FULL:
            self._grow_queues()

    def _grow_queues(self) -> None:
        names = ("queue_id", "topic_at", "topic_size", "topic_hash", "is_schedule", "names", "hash_key")
        old = {name: getattr(self, name) for name in names}
        self._allocate_queues(2 * len(self.queue_id) + 16)
        for name in names:
            getattr(self, name)[: len(old[name])] = old[name]
        # All rows at once: a row whose place is taken tries the next place in the next round.
        table, rows = self.hash_table, np.arange(self.queues, dtype=np.int64)
        mask = np.uint64(len(table) - 1)
        places = self.hash_key[: len(rows)] & mask
        while len(rows):
            free = table[places] == 0
            table[places[free]] = rows[free] + 1
            left = table[places] != rows + 1
            rows, places = rows[left], places[left] + np.uint64(1) & mask

    @property
    def record_columns(self) -> RecordColumns:
        """The arrays with a place for each record or item, as kernels take them."""
        return RecordColumns(
            self.position,
            self.size,
            self.queue,
            self.queue_offset,
            self.tags_code,
            self.store_timestamp,
            self.flags,
            self.first_item,
            self.item_hash,
        )

    @property
    def queue_table(self) -> QueueTable:
        """The arrays of the table of queues, as kernels take them."""
        return QueueTable(
            self.queue_id,
            self.topic_at,
            self.topic_size,
            self.topic_hash,
            self.is_schedule,
            self.names,
            self.hash_table,
            self.hash_key,
        )

    @property
    def arrays(self) -> ColumnArrays:
        """The arrays that decoding fills, as kernels take them."""
        return ColumnArrays(self.record_columns, self.queue_table, self.state)

    @property
    def item_sources(self) -> ItemSources:
        """The arrays of which index items are made, as kernels take them."""
        return ItemSources(self.first_item, self.position, self.store_timestamp, self.item_hash)

    @property
    def records(self) -> int:
        """Records in the columns."""
        return int(self.state[StateAt.records])

    @property
    def items(self) -> int:
        """Index items in the columns."""
        return int(self.state[StateAt.items])

    @property
    def queues(self) -> int:
        """Rows in the table of queues."""
        return int(self.state[StateAt.queues])

    def topic(self, row: int) -> bytes:
        """Return the topic of a row in the table of queues."""
        return self.queue_table.topic(row)

    def key(self, row: int) -> QueueKey:
        """Return the queue of a row in the table of queues."""
        return QueueKey(self.topic(row), int(self.queue_id[row]))


def _resized(array: np.ndarray, length: int) -> np.ndarray:
    bigger = np.empty(length, dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


class ThreadScratch(threading.local):
    """Columns that a thread uses again and again: new memory for each range would cost page faults."""

    _columns: Columns | None = None

    def for_range(self, size: int) -> Columns:
        """Return columns with space for the records of `size` bytes of log; their last contents are still there."""
        if self._columns is None or not self._columns.hold_range(size):
            self._columns = Columns.for_range(size)
        return self._columns
