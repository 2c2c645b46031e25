"""The answers that need both families of a RocksDB of ConsumeQueues: the spans of queues, and their entries.

A queue's `max` and `min` are used only as far as its log can have brought them. An answer costs a few seeks, however
far they are from the entries.

Source: `RocksDBConsumeQueueTable`, `RocksDBConsumeQueueOffsetTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.files.database import Family
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import queue_offset_bound
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import ENTRY_SIZE, Entry, OffsetRange, QueueKey
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.halving import first_where_found


def no_bound() -> int:
    """Return the log's end for a caller without a log: every number is allowed."""
    return INT64_MAX


class EntryTable:
    """The answers that need both families. `log_end` returns the end of the log, when it is needed."""

    def __init__(self, families: dict[str, Family], log_end: Callable[[], int] = no_bound) -> None:
        self.entries = families[fmt.ENTRY_FAMILY]
        self.offsets = families[fmt.OFFSET_FAMILY]
        self._log_end = log_end
        self._bound = queue_offset_bound(0)

    def restart_offset(self) -> int | None:
        """Return the log offset up to which every record has its entry; None if the database does not say it."""
        value = self.offsets.get(fmt.RESTART_KEY)
        if value is None:
            return None
        if len(value) != fmt.RESTART_VALUE.size:
            raise self._damaged(f"the restart point has {len(value)} bytes, {fmt.RESTART_VALUE.size} expected")
        return int(fmt.RESTART_VALUE.struct.unpack(value)[0])

    def offset(self, key: QueueKey, kind: bytes) -> OffsetValue | None:
        """Return a queue's `max` or `min`."""
        value = self.offsets.get(fmt.offset_key(key, kind))
        return None if value is None else self._offset_value(value)

    def ends(self, of_topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetValue, OffsetValue | None]]:
        """Yield every queue, or those of a topic, with its `max`, and its `min` if there is one."""
        # The max keys of a topic come before its min keys, so memory holds one topic.
        topic, found, mins = b"", dict[int, OffsetValue](), dict[int, OffsetValue]()
        bounds = (None, None) if of_topic is None else fmt.topic_bounds(of_topic)
        for raw, value in self.offsets.walk(*bounds):
            key = fmt.decode_offset_key(raw)
            if key is None or raw == fmt.RESTART_KEY:
                continue
            if key.queue.topic != topic:
                yield from self._of_topic(topic, found, mins)
                topic, found, mins = key.queue.topic, {}, {}
            (found if key.kind == fmt.MAX else mins)[key.queue.queue_id] = self._offset_value(value)
        yield from self._of_topic(topic, found, mins)

    def queues_of(self, topic: bytes) -> list[QueueKey]:
        """Return the queues of a topic that have entries or ends, also if they lack the other."""
        begin, end = fmt.topic_bounds(topic)
        ends = (fmt.decode_offset_key(raw) for raw, _ in self.offsets.walk(begin, end) if raw != fmt.RESTART_KEY)
        found = {key.queue for key in ends if key is not None}
        while (entries := self.entries.some(begin, 1)) and (raw := entries[0][0]) < end:
            place = fmt.decode_entry_key(raw)
            begin = raw + b"\0" if place is None else fmt.queue_bounds(place[0])[1]
            if place is not None:
                found.add(place[0])
        return sorted(found)

    def _of_topic(
        self, topic: bytes, found: dict[int, OffsetValue], mins: dict[int, OffsetValue]
    ) -> Iterator[tuple[QueueKey, OffsetValue, OffsetValue | None]]:
        for queue_id, last in found.items():
            yield QueueKey(topic, queue_id), last, mins.get(queue_id)

    def _offset_value(self, value: bytes) -> OffsetValue:
        if len(value) != fmt.OFFSET_VALUE_SIZE:
            raise self._damaged(f"a queue's end has {len(value)} bytes, {fmt.OFFSET_VALUE_SIZE} expected")
        return fmt.decode_offset_value(value)

    def entry(self, key: QueueKey, offset: int) -> tuple[Entry, int] | None:
        """Return one entry and its record's store time."""
        value = self.entries.get(fmt.entry_key(key, offset))
        if value is None:
            return None
        if len(value) != fmt.VALUE_SIZE:
            raise self._damaged(f"{key}, queue offset {offset}: {len(value)} bytes, {fmt.VALUE_SIZE} expected")
        return fmt.decode_value(value)

    def store_time(self, key: QueueKey, offset: int) -> int:
        """Return the store time (ms) of an entry; in a gap -n if the next n queue offsets have no message."""
        found = self.entry(key, offset)
        if found is not None and not found[0].is_pre_blank:
            return max(-1, found[1])
        following = next(self.messages(key, offset + 1), None)
        return offset - (INT64_MAX if following is None else following[0])

    def messages(self, key: QueueKey, begin: int, end: int = INT64_MAX) -> Iterator[tuple[int, Entry]]:
        """Yield the entries in [begin, end) that exist and are no pre-blanks, each with its queue offset."""
        if begin < end:
            bounds = fmt.entry_key(key, begin), fmt.entry_key(key, end)
            yield from self._messages(key, self.entries.walk(*bounds))

    def last_message(self, key: QueueKey, begin: int, end: int) -> tuple[int, Entry] | None:
        """Return the last of those entries, with its queue offset."""
        if begin >= end:
            return None
        bounds = fmt.entry_key(key, begin), fmt.entry_key(key, end)
        return next(self._messages(key, self.entries.walk_back(*bounds)), None)

    def _messages(self, key: QueueKey, found: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[int, Entry]]:
        for raw, value in found:
            offset = self._offset_of(key, raw, value)
            entry = fmt.decode_value(value)[0]
            if not entry.is_pre_blank:
                yield offset, entry

    def _offset_of(self, key: QueueKey, raw: bytes, value: bytes) -> int:
        place = fmt.decode_entry_key(raw)
        if place is None or len(value) != fmt.VALUE_SIZE:
            raise self._damaged(f"{key}: {raw.hex()} is not a key of an entry, or its value has {len(value)} bytes")
        return place[1]

    def packed(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end) of a queue as files have them, 20 bytes each (uint8). Raises as `values`."""
        return entries_in(self.values(key, begin, end))

    def values(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the values [begin, end) of a queue as rows of 28 bytes (uint8), with pre-blanks for missing ones.

        Raises:
            DamagedStoreError: a block is damaged, or a value has a wrong length.
        """
        count = end - begin
        if count <= 0:
            return np.empty((0, fmt.VALUE_SIZE), dtype=np.uint8)
        found = self.entries.some(fmt.entry_key(key, begin), count)
        # Keys ascend: the right number of keys with the right last key means that none is missing.
        if len(found) == count and found[-1][0] == fmt.entry_key(key, end - 1):
            data = b"".join([value for _, value in found])
            if len(data) == count * fmt.VALUE_SIZE:
                return np.frombuffer(data, dtype=np.uint8).reshape(count, fmt.VALUE_SIZE)
        return self._with_gaps(key, begin, end)

    def _with_gaps(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        rows = np.empty((end - begin, fmt.VALUE_SIZE), dtype=np.uint8)
        rows[:] = np.frombuffer(fmt.blank_value(), dtype=np.uint8)
        for raw, value in self.entries.walk(fmt.entry_key(key, begin), fmt.entry_key(key, end)):
            rows[self._offset_of(key, raw, value) - begin] = np.frombuffer(value, dtype=np.uint8)
        return rows

    def first_key(self, key: QueueKey) -> int | None:
        """Return the first queue offset that has an entry."""
        begin, end = fmt.queue_bounds(key)
        found = self.entries.some(begin, 1)
        place = fmt.decode_entry_key(found[0][0]) if found and found[0][0] < end else None
        return place[1] if place else None

    def first(self, key: QueueKey, low: int, high: int, holds: Callable[[Entry], bool]) -> int:
        """Return the first queue offset in [low, high) whose entry `holds`, otherwise `high`.

        Once one holds, all later must.
        """

        def next_message(begin: int, end: int) -> tuple[int, Entry] | None:
            found = self.entry(key, begin)
            if found is None or found[0].is_pre_blank:
                return next(self.messages(key, begin + 1, end), None)
            return begin, found[0]

        return first_where_found(low, high, next_message, holds)

    def end(self, key: QueueKey, last: OffsetValue) -> int:
        """Return the queue offset after a queue's `max`; after its last entry if no log can have brought that `max`."""
        if last.queue_offset > self._bound:
            self._bound = max(self._bound, queue_offset_bound(self._log_end()))
        if last.queue_offset <= self._bound:
            return max(0, last.queue_offset + 1)
        bounds = fmt.queue_bounds(key)[0], fmt.entry_key(key, self._bound + 1)
        found = next(self.entries.walk_back(*bounds), None)
        return max(0, self._offset_of(key, *found) + 1) if found is not None else 0

    def stored(
        self,
        key: QueueKey,
        last: OffsetValue,
        first: OffsetValue | None,
        log_min_offset: int,
        frontier_offset: int,
    ) -> OffsetRange:
        """Return the span of a queue by its `max` and `min`; `min` may be out of date."""
        end = self.end(key, last)
        lowest = first.queue_offset if first is not None else self.first_key(key)
        lowest = end if lowest is None else min(max(0, lowest), end)
        if last.physical_offset >= frontier_offset:
            end = self.first(key, lowest, end, lambda entry: entry.physical_offset >= frontier_offset)
        if first is None or first.physical_offset < log_min_offset:
            lowest = self.first(key, lowest, end, lambda entry: entry.physical_offset >= log_min_offset)
        return OffsetRange(min(lowest, end), end)

    def _damaged(self, what: str) -> DamagedStoreError:
        return DamagedStoreError(
            f"{self.entries.place}: {what}. `reput rebuild --only queue` builds the queues again from the log"
        )


def entries_in(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the entries in rows of values, one after the other."""
    return np.ascontiguousarray(values[:, :ENTRY_SIZE]).reshape(-1)
