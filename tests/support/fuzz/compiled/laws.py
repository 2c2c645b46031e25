"""The laws of compiled decoders, compiled: the same bytes give the same answer wherever they are, and it adds up.

Each loop tries `inputs` inputs, each at the very end of a room that a guard page follows, and again between random
bytes. It returns the number of inputs that kept the law: fewer than `inputs` means that the next one broke it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from reput.formats.log import client_batch as batch_format
from reput.formats.log import record as fmt
from reput.kernels.compiled.client_batch import split_columns
from reput.kernels.compiled.decode import decode_range
from reput.kernels.compiled.examine import GOOD, find_boundary
from reput.kernels.compiled.tools.memory import address_of
from reput.kernels.layouts.columns import ColumnArrays, DecodeRules, StateAt, Stop
from reput.kernels.layouts.log import LogBytes
from support.fuzz.compiled.change import Pool, change, draw, put_be, take

_PHYSICAL_AT, _SYS_FLAG_AT, _MORE = fmt.PHYSICAL_OFFSET_AT, fmt.SYS_FLAG_AT, fmt.V6_MORE
_BODY_AT, _BORN_V6, _STORE_V6 = fmt.BODY_AT_V4, fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_MIN_SIZE, _MAGIC_AT, _V2_LAST = fmt.MIN_RECORD_SIZE, fmt.MAGIC_AT, fmt.MAGIC_V2 & 0xFF
_BASES = np.array((0, 1 << 20, 1 << 30, 1 << 40), dtype=np.int64)
_CHECKS = np.array((*[fmt.CHECK_NONE] * 5, fmt.CHECK_BODY, fmt.CHECK_PROPERTY, fmt.STRICT_OFFSETS), dtype=np.int64)
_REACHED_END = int(Stop.REACHED_END)
_HEAD, _MESSAGE = batch_format.HEAD_SIZE, batch_format.HEAD_SIZE + batch_format.LENGTH_SIZE
_AROUND = 128
_SEARCHES = 8
"""Of eight inputs one is searched for a record: a search takes longer than to decode."""


class Rooms(NamedTuple):
    """Memory of a loop: an input, a room that ends at a guard page, and one with space around the input."""

    data: Any
    guarded: Any
    around: Any


class Current(NamedTuple):
    """The input that a loop is at: `size[0]` bytes, `how` its base and check; `chance[0]` is the generator."""

    chance: Any
    size: Any
    how: Any


@numba.njit
def _be(data: Any, at: int, size: int) -> int:
    value = np.int64(0)
    for n in range(size):
        value = value << 8 | data[at + n]
    return value


@numba.njit
def _mend(data: Any, begin: int, end: int) -> None:
    """Have the lengths of the record in [begin, end) lead to its end, by the length of its properties."""
    if end - begin < _MIN_SIZE:
        return
    put_be(data, begin, 4, end - begin)
    flag = data[begin + _SYS_FLAG_AT + 3]
    body = begin + _BODY_AT + (_MORE if flag & _BORN_V6 else 0) + (_MORE if flag & _STORE_V6 else 0)
    if body > end:
        return
    wide = 2 if data[begin + _MAGIC_AT + 3] == _V2_LAST else 1
    topic = body + _be(data, body - 4, 4)
    if topic + wide > end:
        return
    properties = topic + wide + _be(data, topic, wide) + 2
    if properties <= end and end - properties < 0x8000:
        put_be(data, properties - 2, 2, end - properties)


@numba.njit
def _place(rooms: Rooms, size: int, chance: Any) -> int:
    """Put the input into both rooms; return where it begins in the second one."""
    guarded, around = rooms.guarded, rooms.around
    guarded[len(guarded) - size :] = rooms.data[:size]
    at = draw(chance, _AROUND)
    around[at : at + size] = rooms.data[:size]
    for n in range(at + size, at + size + _AROUND, 8):
        put_be(around, n, 8, draw(chance, 1 << 30) * 0x40000001)
    return at


@numba.njit
def _mix(value: int, more: int) -> int:
    return (value ^ more) * np.int64(1099511628211) + (value >> 7)


@numba.njit
def _mix_all(value: int, column: Any, count: int) -> int:
    for n in range(count):
        value = _mix(value, np.int64(column[n]))
    return value


@numba.njit
def clear(arrays: ColumnArrays, empty_state: Any) -> None:
    """Empty columns, as `Columns.clear` does."""
    arrays.state[:] = empty_state
    arrays.records.first_item[0] = 0
    arrays.queues.hash_table[:] = 0


@numba.njit
def _decoded(log: LogBytes, rules: DecodeRules, arrays: ColumnArrays, empty_state: Any) -> tuple[int, int]:
    """Decode all; return why it stopped, and a number made of all that was decoded. -1 if the columns do not add up."""
    clear(arrays, empty_state)
    records, queues, state = arrays.records, arrays.queues, arrays.state
    stop = decode_range(log, 0, log.limit, rules, arrays)
    n, rows = state[StateAt.records], state[StateAt.queues]
    place = log.base
    for k in range(n):
        place += records.size[k]
        after = records.position[k] + records.size[k]
        if after != place or records.first_item[k + 1] < records.first_item[k] or records.queue[k] >= rows:
            return -1, 0
    if place > log.base + log.limit or state[StateAt.items] != records.first_item[n]:
        return -1, 0
    value = _mix_all(_mix_all(np.int64(stop), state, len(state)), records.item_hash, state[StateAt.items])
    for column in (records.position, records.queue_offset, records.tags_code, records.store_timestamp):
        value = _mix_all(value, column, n)
    value = _mix_all(_mix_all(_mix_all(value, records.size, n), records.queue, n), records.flags, n)
    value = _mix_all(_mix_all(value, queues.queue_id, rows), queues.topic_hash, rows)
    return stop, _mix_all(value, queues.names, state[StateAt.names])


@numba.njit
def _next_log(pool: Pool, rooms: Rooms, now: Current) -> None:
    """Make the next input: a log of a few changed records, most with lengths and places that hold."""
    chance, data = now.chance, rooms.data
    base, size = _BASES[draw(chance, len(_BASES))], 0
    for _ in range(1 + draw(chance, 3)):
        begin = size
        size = take(pool, chance, data, size)
        for _ in range(max(draw(chance, 5) - 1, 0)):
            size = begin + change(data[begin:], size - begin, chance)
        if draw(chance, 8):
            _mend(data, begin, size)
        if size - begin >= _PHYSICAL_AT + 8 and draw(chance, 16):
            put_be(data, begin + _PHYSICAL_AT, 8, base + begin)
    if not draw(chance, 4):
        size -= draw(chance, size + 1)
    now.size[0], now.how[0], now.how[1] = size, base, _CHECKS[draw(chance, len(_CHECKS))]


@numba.njit
def try_logs(
    inputs: int, pool: Pool, rooms: Rooms, now: Current, rules: Any, arrays: ColumnArrays, empty: Any, ends: Any
) -> int:
    """Try logs: decode records, and search for the next one. `ends` counts stops by verdict, and records."""
    tag_items, delays_ms = rules
    for tried in range(inputs):
        _next_log(pool, rooms, now)
        size, base, check = now.size[0], now.how[0], now.how[1]
        at = _place(rooms, size, now.chance)
        first = LogBytes(rooms.guarded[len(rooms.guarded) - size :], base, size)
        second = LogBytes(rooms.around[at:], base, size)
        by = DecodeRules(check, tag_items, delays_ms)
        stop, value = _decoded(first, by, arrays, empty)
        state = arrays.state
        ends[stop, state[StateAt.verdict]] += 1
        ends[-1, 0] += state[StateAt.records]
        ends[-1, 1] += state[StateAt.items]
        if stop < 0 or (stop, value) != _decoded(second, by, arrays, empty):
            return tried
        if stop == _REACHED_END and size > 0 and state[StateAt.verdict] != GOOD:
            return tried
        if draw(now.chance, _SEARCHES) == 0:
            found = find_boundary(first, min(size, 1), size, check)
            if found != find_boundary(second, min(size, 1), size, check) or found > max(size - _MIN_SIZE, -1):
                return tried
    return inputs


@numba.njit
def _next_batch(pool: Pool, rooms: Rooms, now: Current) -> None:
    """Make the next input: a batch of changed messages, most with lengths that hold."""
    chance, data, size = now.chance, rooms.data, 0
    for _ in range(1 + draw(chance, 3)):
        begin = size
        size = take(pool, chance, data, size)
        for _ in range(draw(chance, 4)):
            size = begin + change(data[begin:], size - begin, chance)
        if size - begin >= _MESSAGE and draw(chance, 8):
            text = begin + _HEAD + _be(data, begin + _HEAD - 4, 4) + 2
            if text <= size and size - text < 0x8000:
                put_be(data, text - 2, 2, size - text)
    if not draw(chance, 8):
        size -= draw(chance, size + 1)
    now.size[0] = size


@numba.njit
def _split(columns: Any, at: int, size: int, topic: Any) -> tuple[int, int]:
    """Split a batch; return the answer, and a number made of all columns. -2 if they do not add up."""
    addresses, bodies, texts = columns[0], columns[1], columns[2]
    rows = split_columns(address_of(addresses), at, at + size, address_of(topic), len(topic), 3, 4)
    if rows <= 0:
        return rows, 0
    value = np.int64(rows)
    for n in range(rows):
        if bodies[n + 1] < bodies[n] or texts[n + 1] < texts[n]:
            return -2, 0
        value = _mix(_mix(_mix(value, bodies[n + 1]), texts[n + 1]), columns[3][n])
    if bodies[rows] + texts[rows] > size:
        return -2, 0
    return rows, _mix_all(_mix_all(value, columns[4], bodies[rows]), columns[5], texts[rows])


@numba.njit
def try_batches(inputs: int, pool: Pool, rooms: Rooms, now: Current, columns: Any, topic: Any, ends: Any) -> int:
    """Try batches of clients. `ends` counts batches that are broken, that are unusual, that are split, and messages."""
    for tried in range(inputs):
        _next_batch(pool, rooms, now)
        size = now.size[0]
        at = _place(rooms, size, now.chance)
        first, second = address_of(rooms.guarded) + len(rooms.guarded) - size, address_of(rooms.around) + at
        rows, value = _split(columns, first, size, topic)
        if rows < -1 or (rows, value) != _split(columns, second, size, topic):
            return tried
        ends[0 if rows == 0 else 1 if rows < 0 else 2] += 1
        ends[3] += max(rows, 0)
    return inputs
