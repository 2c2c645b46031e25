"""Reading queues of batches: pulls, look-ups by time, counts.

A pull returns whole batches. The first one holds the offset asked for. Limits count the messages inside.

Source: `DefaultMessageStore.getMessage`, `BatchConsumeQueue.getOffsetInQueueByTime`, `estimateMessageCount`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.log.read.maps import LogMaps
from reput.queue.batch import BatchQueues
from reput.queue.by_time import Boundary
from reput.store.read.damaged_entries import DamagedEntries, EntryDamage
from reput.store.read.queue_answers import PullLimits, PullQuestion
from reput.store.read.results import GetResult, GetStatus, outside, pull_bytes
from reput.store.read.sql_filter import SqlFilter, matching_records
from reput.store.read.tag_filter import TagFilter
from reput.store.read.tail_follower import TailFollower

_FILTER_BYTES = 16_000
"""A pull reads at most this number of bytes of entries (maxFilterMessageSize), as if each message had an entry."""
_ENTRIES_AT_ONCE = 1 << 12


class BatchReader:
    """Answers about queues of batches; safe for threads."""

    has_batches = True

    def __init__(
        self, batches: BatchQueues, follower: TailFollower, limits: PullLimits, damaged: DamagedEntries
    ) -> None:
        self.queues = batches
        self.own_topics = batches.topics
        self.follower = follower
        self.log: LogMaps = follower.log
        self.limits = limits
        self.damaged = damaged

    def topics(self) -> set[str]:
        """Return the topics that have such queues."""
        return self.queues.topics

    def pull(self, key: QueueKey, asked: PullQuestion) -> GetResult:
        """Return the batches from the one that holds the offset asked for on."""
        offset, max_messages, wanted = asked.offset, asked.max_messages, asked.wanted
        reach = max(_FILTER_BYTES, max_messages * BATCH_ENTRY_SIZE)
        with self.follower.lock:
            span = OffsetRange(self.queues.min_offset(key), self.queues.max_offset(key))
            if not span.min_offset <= offset < span.max_offset:
                return outside(self.queues.knows(key), offset, span)
            number = self.queues.number_of(key, "base_offset", offset)
            # Each batch holds at least one message, so there are no more entries than messages within reach.
            entries = self.queues.entries_from(key, number, -(-reach // BATCH_ENTRY_SIZE) + 1)
        if not len(entries):
            if not self.log.has_lost_files():
                self.damaged.met(key, offset, EntryDamage.NO_FILE)
            return GetResult.nothing(GetStatus.OFFSET_FOUND_NULL, 0, span)
        pull = _EntriesTaken(self.log, self.follower.offset, max_messages, pull_bytes(asked.max_bytes), self.limits)
        matching = None
        if isinstance(wanted, SqlFilter):
            entries = entries[: wanted.most_entries]
            matching = self._matching(entries, wanted)
        following = pull.choose(entries, offset, reach, wanted, matching)
        if pull.damaged >= 0:
            self.damaged.met(key, pull.damaged, EntryDamage.NO_RECORD)
        if pull.unordered >= 0:
            self.damaged.met(key, pull.unordered, EntryDamage.NO_ORDER)
        if not pull.sizes:
            return GetResult.nothing(pull.status, following, span)
        places = np.array([pull.physical_offsets, pull.sizes], dtype=np.int64).T.ravel()
        maps = self.log.arrays(min(pull.physical_offsets), max(pull.physical_offsets))
        return GetResult.of(GetStatus.FOUND, following, span, key, places, len(pull.sizes), maps)

    def offset_by_time(self, key: QueueKey, timestamp_ms: int, boundary: Boundary) -> int:
        """Return the queue offset of a batch's first message, for a time; 0 for an empty queue.

        LOWER finds the first batch stored at or after the time; if there is none, the last batch. UPPER finds the last
        batch stored at or before the time; if there is none, the first batch.

        RocketMQ searches in one file: the last one whose first batch was stored at or before the time. Of several
        batches stored at the time it may find one in the middle. With UPPER in a gap it finds the batch after the gap,
        or none, which becomes the queue's minimum.
        """
        with self.follower.lock:
            batches, (first, end) = self.queues, self.queues.span(key)
            if boundary is Boundary.UPPER:
                number = batches.number_of(key, "store_timestamp", timestamp_ms)
            else:
                number = batches.number_of(key, "store_timestamp", timestamp_ms - 1) + 1
            found = batches.entries_from(key, max(first, min(number, end - 1)), 1)
            if not len(found):
                return batches.min_offset(key)
            return max(int(found[0]["base_offset"]), batches.min_offset(key))

    def store_time(self, key: QueueKey, offset: int) -> int:
        """Return the store time (ms) of the batch that holds an offset; -1 if there is none."""
        with self.follower.lock:
            if not self.queues.min_offset(key) <= offset < self.queues.max_offset(key):
                return -1
            found = self.queues.entries_from(key, self.queues.number_of(key, "base_offset", offset), 1)
        if not len(found) or offset >= int(found[0]["base_offset"]) + int(found[0]["messages"]):
            return -1
        return self.log.store_time(int(found[0]["physical_offset"]))

    def estimate(self, key: QueueKey, begin: int, end: int, wanted: TagFilter | SqlFilter) -> int:
        """Count the messages with offsets [begin, end) in batches that match; the count is exact."""
        count = 0
        with self.follower.lock:
            begin = max(begin, self.queues.min_offset(key))
            number = self.queues.number_of(key, "base_offset", begin)
            last = self.queues.span(key)[1]
        number = max(number, 0)
        while begin < end and number < last:
            with self.follower.lock:
                rows = self.queues.entries_from(key, number, _ENTRIES_AT_ONCE)
            if not len(rows):
                # A file is missing; the next one may be there.
                number = (number // self.queues.entries_per_file + 1) * self.queues.entries_per_file
                continue
            base = rows["base_offset"].astype(np.int64)
            inside = np.minimum(base + rows["messages"], end) - np.maximum(base, begin)
            inside[~self._matching(rows, wanted)] = 0
            count += int(np.maximum(inside, 0).sum())
            if int(base[-1]) >= end:
                break
            number += len(rows)
        return count

    def have_matches(self, key: QueueKey, begin: int, end: int, wanted: Sequence[TagFilter | SqlFilter]) -> list[bool]:
        """Return for each filter whether `estimate` finds a message."""
        return [self.estimate(key, begin, end, one) > 0 for one in wanted]

    def _matching(self, rows: NDArray[np.void], wanted: TagFilter | SqlFilter) -> NDArray[np.bool_]:
        """Return which batches match and are in the log."""
        place, size = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
        there = self.log.holds(place, size, self.follower.offset)
        if isinstance(wanted, SqlFilter):
            return matching_records(place, there, wanted.compiled, self.log)
        if len(wanted.codes):
            there &= np.isin(rows["tags_code"].astype(np.int64).astype(np.int32), wanted.codes)
        return there


class _EntriesTaken:
    """The entries of a queue that a pull takes; `status` is the result of a pull that takes none."""

    def __init__(
        self,
        log: LogMaps,
        log_end: int,
        max_messages: int,
        stop_bytes: int,
        limits: PullLimits,
    ) -> None:
        self.physical_offsets: list[int] = []
        self.sizes: list[int] = []
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.damaged = -1
        """The first queue offset of the first batch that is not in the log; -1: none."""
        self.unordered = -1
        """The first queue offset of the first batch that does not lie after the one before; -1: none."""
        self._log, self._log_end = log, log_end
        self._max_messages, self._stop_bytes = max_messages, stop_bytes
        self._most_messages = limits.messages
        self._max_bytes = stop_bytes if limits.total_bytes is None else min(stop_bytes, limits.total_bytes)
        self._messages = self._bytes = 0

    def choose(
        self,
        entries: NDArray[np.void],
        offset: int,
        reach: int,
        wanted: TagFilter | SqlFilter,
        matching: NDArray[np.bool_] | None,
    ) -> int:
        """Choose from the entries, the first of which holds `offset`; return the next pull's offset.

        `matching`: those that pass a SqlFilter by their own properties. Those of the messages inside are not read.
        """
        following, skip_below = offset, -1
        log_begin, file_size = self._log.min_offset, self._log.file_size
        codes = set(wanted.codes.tolist()) if isinstance(wanted, TagFilter) else set()
        for number, (physical_offset, size, tags_code, _, base, messages, _, _) in enumerate(entries.tolist()):
            if (base - offset) * BATCH_ENTRY_SIZE >= reach or self._is_full(size, messages):
                break
            following = base + messages
            if physical_offset < skip_below:
                continue
            if codes and ((tags_code + 0x80000000) & 0xFFFFFFFF) - 0x80000000 not in codes:
                self._say(GetStatus.NO_MATCHED_MESSAGE)
                continue
            if size <= 0 or physical_offset > self._log_end - size:
                self._say(GetStatus.MESSAGE_WAS_REMOVING)
                self.damaged = base if self.damaged < 0 else self.damaged
                continue
            if physical_offset < log_begin:
                self._say(GetStatus.MESSAGE_WAS_REMOVING)
                skip_below = (physical_offset // file_size + 1) * file_size
                continue
            if matching is not None and not matching[number]:
                self._say(GetStatus.NO_MATCHED_MESSAGE)
                continue
            if self.physical_offsets and physical_offset <= self.physical_offsets[-1] and self.unordered < 0:
                self.unordered = base
            self.physical_offsets.append(physical_offset)
            self.sizes.append(size)
            self._messages += messages
            self._bytes += size
            skip_below = -1
        return following

    def _is_full(self, size: int, messages: int) -> bool:
        """Return True if the next batch is too much; the first batch never is."""
        if not self.sizes:
            return False
        if self._messages + messages > self._max_messages or self._bytes + size > self._max_bytes:
            return True
        if self._bytes >= self._stop_bytes:
            return True
        return self._most_messages is not None and self._messages >= self._most_messages

    def _say(self, status: GetStatus) -> None:
        if not self.sizes:
            self.status = status
