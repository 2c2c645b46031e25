"""The kernels in plain Python: the specification that the compiled ones are tested against.

Both twins take the same arguments and fill the same arrays in place. A `buffer` is a contiguous `uint8` array
with the bytes of one log file or a part of it; `base` is the log offset of `buffer[0]`; `begin`, `end` and
`limit` are positions in `buffer`. Nothing at or past `limit`, the end of the file's bytes, is looked at.
`crc_check` is one of `reput.formats.record.CHECK_NONE`, `CHECK_BODY` and `CHECK_PROPERTY`. What a column
means stands at `reput.kernels.columns.Columns`. No kernel raises because of what the bytes say.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats import consume_queue, index_file, properties
from reput.formats.hashing import index_key_hash, java_string_hash_utf8
from reput.formats.record import (
    FLAG_INNER_BATCH,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    SCHEDULE_TOPIC,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Record,
    Verdict,
    decode_record,
    examine,
)
from reput.kernels.columns import HAS_TAG_ITEM, IN_INDEX, IN_QUEUE, INNER_BATCH, MULTI_DISPATCH, State, Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

MAX_TIME_DIFF_S = 0x7FFFFFFF

_MAGIC_SIZE = 4
_MAGIC = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big", signed=True)) for magic in (MAGIC_V1, MAGIC_V2)))
_JAVA_INT = re.compile(rb"[+-]?[0-9]+")


def find_boundary(buffer: Bytes, base: int, begin: int, end: int, limit: int, crc_check: int) -> int:
    """The first position in [begin, end) where a record stands, -1 for none."""
    data = buffer.data
    # No magic behind that place begins a record in front of `end`: the file behind it may be a gigabyte of zeros.
    for match in _MAGIC.finditer(data, begin + MAGIC_AT, min(limit, end + MAGIC_AT + _MAGIC_SIZE - 1)):
        position = match.start() - MAGIC_AT
        if examine(data, position, limit, base + position, crc_check)[0] is Verdict.GOOD:
            return position
    return -1


class QueueArrays(NamedTuple):
    """The arrays of the table of queues, under the names of `Columns`."""

    queue_id: Int32s
    topic_at: Int32s
    topic_size: Int32s
    topic_hash: Int32s
    is_schedule: Bytes
    names: Bytes
    state: Int64s


class _Arrays(NamedTuple):
    """The arrays that `decode_range` fills, under the names of `Columns`."""

    position: Int64s
    size: Int32s
    queue: Int32s
    queue_offset: Int64s
    tags_code: Int64s
    store_timestamp: Int64s
    flags: Bytes
    first_item: Int32s
    item_hash: Int32s
    queues: QueueArrays
    state: Int64s


def decode_range(
    buffer: Bytes, base: int, begin: int, end: int, limit: int, crc_check: int, tag_items: bool,
    delays_ms: Int64s, position_out: Int64s, size_out: Int32s, queue_out: Int32s, queue_offset_out: Int64s,
    tags_code_out: Int64s, store_timestamp_out: Int64s, flags_out: Bytes, first_item_out: Int32s,
    item_hash_out: Int32s, queue_id_out: Int32s, topic_at_out: Int32s, topic_size_out: Int32s,
    topic_hash_out: Int32s, is_schedule_out: Bytes, names: Bytes, queue_table: Int32s, queue_key: UInt64s,
    state: Int64s,
) -> int:  # fmt: skip
    """Decode records from `begin` until one starts at or past `end`; returns why it stopped (`Stop`).

    `tag_items` says whether tags get index items (RocketMQ 5.4.0 and later), `delays_ms[level]` is the delay
    of a level in milliseconds (-1 for an unknown one, place 0 is not used). The records are appended to what
    `state` says is there already, and `state` goes on: a call that stopped full may be repeated from
    `state[POSITION]` after `Columns.grow`. `queue_table` and `queue_key` are the compiled twin's way to find
    a queue's row; here a dict finds it.
    """
    data = buffer.data[:limit]
    arrays = _Arrays(
        position_out, size_out, queue_out, queue_offset_out, tags_code_out, store_timestamp_out, flags_out,
        first_item_out, item_hash_out,
        QueueArrays(queue_id_out, topic_at_out, topic_size_out, topic_hash_out, is_schedule_out, names, state), state,
    )  # fmt: skip
    rows = queue_rows(arrays.queues)
    position, verdict, stop = begin, Verdict.GOOD, Stop.REACHED_END
    while position < end and stop is Stop.REACHED_END:
        verdict, size = examine(data, position, limit, base + position, crc_check)
        if verdict is Verdict.BLANK:
            stop = Stop.FILE_END
        elif verdict is not Verdict.GOOD:
            stop = Stop.NOT_A_RECORD
        else:
            stop = _append(decode_record(data, position), tag_items, delays_ms, rows, arrays)
        if stop in (Stop.REACHED_END, Stop.FILE_END):
            position += size
    state[State.POSITION] = position
    state[State.VERDICT] = verdict
    return int(stop)


def queue_rows(arrays: QueueArrays) -> dict[tuple[bytes, int], int]:
    """The row of each queue, by topic and queue id."""
    rows = {}
    for row in range(int(arrays.state[State.QUEUES])):
        begin = int(arrays.topic_at[row])
        topic = arrays.names[begin : begin + int(arrays.topic_size[row])].tobytes()
        rows[topic, int(arrays.queue_id[row])] = row
    return rows


def _append(
    record: Record, tag_items: bool, delays_ms: Int64s, rows: dict[tuple[bytes, int], int], arrays: _Arrays
) -> Stop:
    """Append a good record to the columns, or say which of them is full."""
    state = arrays.state
    n, items = int(state[State.RECORDS]), int(state[State.ITEMS])
    if n >= len(arrays.position):
        return Stop.RECORDS_FULL
    queue = (record.topic, record.queue_id)
    if queue not in rows and not add_queue(record.topic, record.queue_id, arrays.queues):
        return Stop.QUEUES_FULL
    row = rows.setdefault(queue, len(rows))
    values = properties.decode_properties(record.properties)
    keys = list(_index_keys(values))
    tags = values.get(properties.TAGS)
    transaction = record.sys_flag & TRANSACTION_MASK
    flags, hashes = 0, []
    if transaction != TRANSACTION_ROLLBACK:
        # Room for the most there can be: two bytes a key with its space; the unique key, a last key, the tag.
        if items + len(values.get(properties.KEYS, b"")) // 2 + 3 > len(arrays.item_hash):
            return Stop.ITEMS_FULL
        flags = IN_INDEX if transaction == TRANSACTION_PREPARED else IN_INDEX | IN_QUEUE
        if tag_items and tags:
            flags |= HAS_TAG_ITEM
            keys.append(index_file.TAG_KEY_PREFIX + tags)
        hashes = [index_key_hash(record.topic + b"#" + key) for key in keys]
    flags |= INNER_BATCH if record.sys_flag & FLAG_INNER_BATCH else 0
    flags |= MULTI_DISPATCH if _is_multi_dispatch(values) else 0
    arrays.position[n] = record.physical_offset
    arrays.size[n] = record.size
    arrays.queue[n] = row
    arrays.queue_offset[n] = record.queue_offset
    arrays.tags_code[n] = _tags_code(record, values, delays_ms)
    arrays.store_timestamp[n] = record.store_timestamp
    arrays.flags[n] = flags
    arrays.item_hash[items : items + len(hashes)] = hashes
    arrays.first_item[n + 1] = items + len(hashes)
    state[State.RECORDS], state[State.ITEMS] = n + 1, items + len(hashes)
    _count(record, values, state)
    return Stop.REACHED_END


def add_queue(topic: bytes, queue_id: int, arrays: QueueArrays) -> bool:
    """Add a queue to the table of queues; false where the table or the names' bytes are full."""
    state = arrays.state
    row, begin = int(state[State.QUEUES]), int(state[State.NAMES])
    if row >= len(arrays.queue_id) or begin + len(topic) > len(arrays.names):
        return False
    arrays.queue_id[row] = queue_id
    arrays.topic_at[row] = begin
    arrays.topic_size[row] = len(topic)
    arrays.topic_hash[row] = java_string_hash_utf8(topic + b"#")
    arrays.is_schedule[row] = topic == SCHEDULE_TOPIC
    arrays.names[begin : begin + len(topic)] = np.frombuffer(topic, dtype=np.uint8)
    state[State.QUEUES], state[State.NAMES] = row + 1, begin + len(topic)
    return True


def _index_keys(values: dict[bytes, bytes]) -> Iterator[bytes]:
    """The unique key, then the keys, in the order in which RocketMQ indexes them."""
    if properties.UNIQ_KEY in values:
        yield values[properties.UNIQ_KEY]
    yield from filter(None, values.get(properties.KEYS, b"").split(properties.KEY_SEPARATOR))


def _tags_code(record: Record, values: dict[bytes, bytes], delays_ms: Int64s) -> int:
    """What the ConsumeQueue keeps of a record's tags, or of its delay."""
    level = min(_java_int(values.get(properties.DELAY, b"")), len(delays_ms) - 1)
    if record.topic == SCHEDULE_TOPIC and level > 0:
        return _to_int64(record.store_timestamp + int(delays_ms[level]))
    return java_string_hash_utf8(values.get(properties.TAGS, b""))


def _java_int(text: bytes) -> int:
    """What `Integer.parseInt` makes of ASCII digits; 0, which is no level, where it would throw."""
    value = int(text) if _JAVA_INT.fullmatch(text) else 0
    return value if -(1 << 31) <= value < 1 << 31 else 0


def _to_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _is_multi_dispatch(values: dict[bytes, bytes]) -> bool:
    return properties.INNER_MULTI_DISPATCH in values and properties.INNER_MULTI_QUEUE_OFFSET in values


def _count(record: Record, values: dict[bytes, bytes], state: Int64s) -> None:
    """Enter a record into the counters of the state vector."""
    transaction, position = record.sys_flag & TRANSACTION_MASK, record.physical_offset
    state[State.PREPARED] += transaction == TRANSACTION_PREPARED
    state[State.ROLLED_BACK] += transaction == TRANSACTION_ROLLBACK
    if record.sys_flag & FLAG_INNER_BATCH:
        _count_first(state, State.INNER_BATCHES, State.FIRST_INNER_BATCH, position)
    if _is_multi_dispatch(values):
        _count_first(state, State.MULTI_DISPATCHES, State.FIRST_MULTI_DISPATCH, position)
    if state[State.RECORDS] == 1:
        state[State.FIRST_STORE_TIMESTAMP] = record.store_timestamp
    elif record.store_timestamp < state[State.LAST_STORE_TIMESTAMP]:
        _count_first(state, State.TIME_REGRESSIONS, State.FIRST_TIME_REGRESSION, position)
    state[State.LAST_STORE_TIMESTAMP] = record.store_timestamp
    state[State.MAX_STORE_TIMESTAMP] = max(int(state[State.MAX_STORE_TIMESTAMP]), record.store_timestamp)


def _count_first(state: Int64s, counter: State, first: State, position: int) -> None:
    if state[counter] == 0:
        state[first] = position
    state[counter] += 1


def pack_entries(
    records: int, queues: int, position: Int64s, size: Int32s, queue: Int32s, queue_offset: Int64s, tags_code:
    Int64s, flags: Bytes, entries: Bytes, start: Int64s, first: Int64s, last: Int64s, steady: Bytes,
) -> int:  # fmt: skip
    """Fill `entries` (uint8) with 20 bytes an entry, queue by queue and in log order within a queue.

    Per queue: `start` (int64, queues + 1) the entries before it, `first` and `last` (int64) the queue offsets
    of its first and last record (-1 without records), `steady` (uint8) whether each is one more than the one
    before. Returns the number of entries; `entries` must hold that many, which the number of records bounds.
    """
    members: list[list[int]] = [[] for _ in range(queues)]
    for n in range(records):
        if flags[n] & IN_QUEUE:
            members[queue[n]].append(n)
    out, written = entries.data, 0
    for row, numbers in enumerate(members):
        start[row] = written
        offsets = [int(queue_offset[n]) for n in numbers]
        first[row], last[row] = (offsets[0], offsets[-1]) if offsets else (-1, -1)
        steady[row] = all(after == before + 1 for before, after in itertools.pairwise(offsets))
        for n in numbers:
            entry = consume_queue.Entry(int(position[n]), int(size[n]), int(tags_code[n]))
            at = written * consume_queue.ENTRY_SIZE
            out[at : at + consume_queue.ENTRY_SIZE] = consume_queue.encode_entry(entry)
            written += 1
    start[queues] = written
    return written


def chain_items(
    record: int, item: int, item_end: int, first_item: Int32s, position: Int64s, store_timestamp: Int64s,
    item_hash: Int32s, slots: Int32s, number: int, begin: int, out: Bytes,
) -> tuple[int, int]:  # fmt: skip
    """Write items [item, item_end) to `out` (uint8, 20 bytes an item) and enter them into `slots` (int32).

    `record` is the record that item `item` belongs to, `number` the first item's number in its file, `begin`
    the time (ms) that time differences count from: before item 1 the previous file's end, from then on item
    1's own time. Returns the slots that were empty before, and the begin time to go on with.
    """
    target, fresh = out.data, 0
    for n in range(item, item_end):
        while first_item[record + 1] <= n:
            record += 1
        key_hash, time = int(item_hash[n]), int(store_timestamp[record])
        slot = key_hash % len(slots)
        previous = int(slots[slot])
        fresh += previous == 0
        slots[slot] = number
        diff_s = (time - begin) // 1000 if 0 < begin < time else 0
        at = (n - item) * index_file.ITEM_SIZE
        target[at : at + index_file.ITEM_SIZE] = index_file.ITEM.struct.pack(
            key_hash, int(position[record]), min(diff_s, MAX_TIME_DIFF_S), previous
        )
        if number == 1:
            begin = time
        number += 1
    return fresh, begin
