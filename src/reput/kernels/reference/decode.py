"""The decoding of a range of the log in plain Python: the specification of `reput.kernels.compiled.decode`.

Both twins take the same arguments and fill the same arrays in place. `begin` and `end` are positions in the bytes of
the log. Arrays that belong together come as one named tuple (`reput.kernels.layouts`), and a vector of numbers has a
layout (`State`). No kernel raises because of what the bytes say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.formats.index import index_file
from reput.formats.java.hashing import index_key_hash, java_string_hash_utf8
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MIN
from reput.formats.log import properties
from reput.formats.log.record import (
    FLAG_INNER_BATCH,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Record,
    Verdict,
    decode_record,
    examine,
)
from reput.formats.topics.system_topics import SCHEDULE_TOPIC_UTF8
from reput.kernels.layouts.columns import (
    HAS_TAG_ITEM,
    IN_INDEX,
    IN_QUEUE,
    INNER_BATCH,
    MULTI_DISPATCH,
    ColumnArrays,
    DecodeRules,
    QueueTable,
    StateAt,
    Stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.kernels.layouts.log import LogBytes


Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def decode_range(log: LogBytes, begin: int, end: int, rules: DecodeRules, arrays: ColumnArrays) -> int:
    """Decode records from `begin` until one starts at or past `end`; return why it stopped (`Stop`).

    The records are appended to those that `state` (`State`) counts, and `state` continues: a call that stopped full may
    be repeated from `state[StateAt.position]` after `Columns.grow`. `hash_table` and `hash_key` of the queues lead the
    compiled twin to a queue's row; here a dict finds it.
    """
    (buffer, base, limit), state = log, arrays.state
    data, rows = buffer.data[:limit], queue_rows(arrays.queues, state)
    position, verdict, stop = begin, Verdict.GOOD, Stop.REACHED_END
    while position < end and stop is Stop.REACHED_END:
        verdict, size = examine(data, position, limit, base + position, rules.crc_check)
        if verdict is Verdict.BLANK:
            stop = Stop.FILE_END
        elif verdict is not Verdict.GOOD:
            stop = Stop.NOT_A_RECORD
        else:
            stop = _append(decode_record(data, position), rules, rows, arrays)
        if stop in (Stop.REACHED_END, Stop.FILE_END):
            position += size
    state[StateAt.position] = position
    state[StateAt.verdict] = verdict
    return int(stop)


def queue_rows(queues: QueueTable, state: Int64s) -> dict[tuple[bytes, int], int]:
    """Return the row of each queue, by topic and queue id."""
    count = int(state[StateAt.queues])
    return {(queues.topic(row), int(queues.queue_id[row])): row for row in range(count)}


def _append(
    record: Record,
    rules: DecodeRules,
    rows: dict[tuple[bytes, int], int],
    arrays: ColumnArrays,
) -> Stop:
    """Append a good record to the columns, or say which of them is full."""
    records, queues, state = arrays
    n, items = int(state[StateAt.records]), int(state[StateAt.items])
    if n >= len(records.position):
        return Stop.RECORDS_FULL
    queue = (record.topic, record.queue_id)
    if queue not in rows and not add_queue(record.topic, record.queue_id, queues, state):
        return Stop.QUEUES_FULL
    row = rows.setdefault(queue, len(rows))
    values = properties.decode_properties(record.properties)
    keys = list(_index_keys(values))
    tags = values.get(properties.TAGS)
    transaction = record.sys_flag & TRANSACTION_MASK
    flags, hashes = 0, []
    if transaction != TRANSACTION_ROLLBACK:
        # Space for the most items there can be: two bytes a key with its space; the unique key, a last key, the tag.
        if items + len(values.get(properties.KEYS, b"")) // 2 + 3 > len(records.item_hash):
            return Stop.ITEMS_FULL
        flags = IN_INDEX if transaction == TRANSACTION_PREPARED else IN_INDEX | IN_QUEUE
        if rules.tag_items and tags:
            flags |= HAS_TAG_ITEM
            keys.append(index_file.TAG_KEY_PREFIX + tags)
        hashes = [index_key_hash(record.topic + b"#" + key) for key in keys]
    flags |= INNER_BATCH if record.sys_flag & FLAG_INNER_BATCH else 0
    flags |= MULTI_DISPATCH if _is_multi_dispatch(values) else 0
    records.position[n] = record.physical_offset
    records.size[n] = record.size
    records.queue[n] = row
    records.queue_offset[n] = record.queue_offset
    records.tags_code[n] = _tags_code(record, values, rules.delays_ms)
    records.store_timestamp[n] = record.store_timestamp
    records.flags[n] = flags
    records.item_hash[items : items + len(hashes)] = hashes
    records.first_item[n + 1] = items + len(hashes)
    state[StateAt.records], state[StateAt.items] = n + 1, items + len(hashes)
    _count(record, values, state)
    return Stop.REACHED_END


def add_queue(topic: bytes, queue_id: int, queues: QueueTable, state: Int64s) -> bool:
    """Add a queue to the table of queues; return False if the table or the names' bytes are full."""
    row, begin = int(state[StateAt.queues]), int(state[StateAt.names])
    if row >= len(queues.queue_id) or begin + len(topic) > len(queues.names):
        return False
    queues.queue_id[row] = queue_id
    queues.topic_at[row] = begin
    queues.topic_size[row] = len(topic)
    queues.topic_hash[row] = java_string_hash_utf8(topic + b"#")
    queues.is_schedule[row] = topic == SCHEDULE_TOPIC_UTF8
    queues.names[begin : begin + len(topic)] = np.frombuffer(topic, dtype=np.uint8)
    state[StateAt.queues], state[StateAt.names] = row + 1, begin + len(topic)
    return True


def _index_keys(values: dict[bytes, bytes]) -> Iterator[bytes]:
    """Yield the unique key, then the keys, in the order in which RocketMQ indexes them."""
    if properties.UNIQUE_KEY in values:
        yield values[properties.UNIQUE_KEY]
    yield from properties.keys_of(values.get(properties.KEYS, b""))


def _tags_code(record: Record, values: dict[bytes, bytes], delays_ms: Int64s) -> int:
    """Return the tags code of a record: the hash of its tags, or the time of its delivery."""
    # A text that is no number is no level, as 0 is.
    level = min(parse_whole(values.get(properties.DELAY, b""), 32) or 0, len(delays_ms) - 1)
    if record.topic == SCHEDULE_TOPIC_UTF8 and level > 0:
        return _to_int64(record.store_timestamp + int(delays_ms[level]))
    return java_string_hash_utf8(values.get(properties.TAGS, b""))


def _to_int64(value: int) -> int:
    return (value - INT64_MIN) % (1 << 64) + INT64_MIN


def _is_multi_dispatch(values: dict[bytes, bytes]) -> bool:
    return properties.INNER_MULTI_DISPATCH in values and properties.INNER_MULTI_QUEUE_OFFSET in values


def _count(record: Record, values: dict[bytes, bytes], state: Int64s) -> None:
    """Enter a record into the counters of the state vector."""
    transaction, position = record.sys_flag & TRANSACTION_MASK, record.physical_offset
    state[StateAt.prepared] += transaction == TRANSACTION_PREPARED
    state[StateAt.rolled_back] += transaction == TRANSACTION_ROLLBACK
    if record.sys_flag & FLAG_INNER_BATCH:
        _count_first(state, StateAt.inner_batches, StateAt.first_inner_batch, position)
    if _is_multi_dispatch(values):
        _count_first(state, StateAt.multi_dispatches, StateAt.first_multi_dispatch, position)
    if state[StateAt.records] == 1:
        state[StateAt.first_store_timestamp] = record.store_timestamp
    elif record.store_timestamp < state[StateAt.last_store_timestamp]:
        _count_first(state, StateAt.time_regressions, StateAt.first_time_regression, position)
    state[StateAt.last_store_timestamp] = record.store_timestamp
    state[StateAt.max_store_timestamp] = max(int(state[StateAt.max_store_timestamp]), record.store_timestamp)


def _count_first(state: Int64s, counter: int, first: int, position: int) -> None:
    if state[counter] == 0:
        state[first] = position
    state[counter] += 1
