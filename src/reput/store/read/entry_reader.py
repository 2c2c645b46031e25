"""Reading queues with an entry for each message: pulls, look-ups by time, counts, in all cases.

Entries come from queue files or from a database, from the tail, or from both. Each answer prepares the next question
about its queue, so that a kernel alone can answer it.

Source: `DefaultMessageStore.getMessage`, `getOffsetInQueueByTime`, `estimateMessageCount`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, OffsetRange, QueueKey, is_blank
from reput.formats.stored_text import stored_text
from reput.kernels import kernels, lookup_kernels
from reput.kernels.layouts.columns import Pull, PullRules
from reput.kernels.layouts.lookup import ASK
from reput.log.read.maps import LogMaps
from reput.queue.by_time import Boundary
from reput.queue.by_time import offset_by_time as search
from reput.queue.ext import ExtReader
from reput.queue.queues import Queues
from reput.store.read.damaged_entries import DamagedEntries, EntryDamage
from reput.store.read.few_entries import FEW, few_have_matches
from reput.store.read.lookup import Known, Lookups, QueueLookup
from reput.store.read.queue_answers import PullLimits, PullQuestion
from reput.store.read.results import GetResult, GetStatus, outside, pull_bytes
from reput.store.read.sql_filter import (
    MATCHING_CODES,
    BloomBits,
    SqlFilter,
    marked_entries,
    plain_entries,
    ruled_out_by_bitmap,
)
from reput.store.read.tag_filter import ALL_MESSAGES, NO_CODES, TagFilter
from reput.store.read.tail_follower import TailFollower

_ENTRIES_AT_ONCE = 1 << 16
_MOST_RETRIES = 256
_NO_ENTRIES = np.empty(0, dtype=np.uint8)


class EntryReader:
    """Answers about queues with an entry for each message; safe for threads.

    `bloom_bits` gives the bits of a registered filter. `known` says how far the view has come.
    """

    has_batches = False

    def __init__(
        self,
        queues: Queues,
        follower: TailFollower,
        lookups: Lookups,
        limits: PullLimits,
        ext: ExtReader | None,
        damaged: DamagedEntries,
        known: Callable[[], Known],
    ) -> None:
        self.queues = queues
        self.follower = follower
        self.log: LogMaps = follower.log
        self.lookups = lookups
        self.limits = limits
        self.ext = ext
        self.damaged = damaged
        self.bloom_bits: Callable[[str, SqlFilter], BloomBits | None] = lambda _topic, _wanted: None
        self._known = known

    def topics(self) -> set[str]:
        """Return the topics that have such queues; no queue is read."""
        return {stored_text(name) for name in self.queues.topics()}

    def pull(self, key: QueueKey, asked: PullQuestion) -> GetResult:
        """Return the answer to a pull; prepare the next pull from this queue."""
        topic, queue_id, offset, max_messages, wanted, _ = asked
        # Without a filter no more is read than is given, but for a few gaps.
        count = self.queues.durable.pull_entries(max_messages, wanted is not ALL_MESSAGES)
        if wanted.most_entries is not None:
            count = min(count, wanted.most_entries)
        with self.follower.lock:
            queue, table = self.lookups.queues.get((topic, queue_id)), self.queues
            span: OffsetRange | QueueLookup
            if queue is not None and queue.begin <= offset and (
                offset + count <= queue.end or (queue.is_last and offset < queue.end)
            ):  # fmt: skip
                # If the queue continues in the tail, a pull must not end at the frontier.
                at = (offset - queue.begin) * ENTRY_SIZE
                entries, span = queue.entries[at : at + count * ENTRY_SIZE], queue
            else:
                span = OffsetRange(table.min_offset(key), table.max_offset(key))
                if not span.min_offset <= offset < span.max_offset:
                    return outside(table.knows(key), offset, span)
                entries = table.entries(key, offset, offset + count)
            if span is not queue or wanted is ALL_MESSAGES:
                self.lookups.add_queue(topic, key, offset, max(1, max_messages), self._known())
        if not len(entries):
            if table.durable.file_entries < INT64_MAX and not self.log.has_lost_files():
                self.damaged.met(key, offset, EntryDamage.NO_FILE)
            return GetResult.nothing(GetStatus.OFFSET_FOUND_NULL, table.durable.block_end(key, offset), span)
        codes = NO_CODES
        if wanted is not ALL_MESSAGES:
            entries, codes = self._filtered(entries, key, wanted, max_messages)
        return self._choose(entries, key, asked, span, codes)

    def _filtered(
        self, entries: NDArray[np.uint8], key: QueueKey, wanted: TagFilter | SqlFilter, most: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the entries to choose from, and the tags codes (cut to 32 bits) of those that match; no codes: all.

        With a SqlFilter the entries end once `most` of them match.
        """
        if isinstance(wanted, TagFilter):
            if self.ext is not None and len(wanted.codes):
                entries = plain_entries(entries, key, self.ext)
            return entries, wanted.codes
        ruled_out = None
        if self.ext is not None:
            bloom = self.bloom_bits(stored_text(key.topic), wanted)
            ruled_out = ruled_out_by_bitmap(entries, key, self.ext, bloom) if bloom else None
        marked = marked_entries(entries, wanted.compiled, self.log, self.follower.offset, most, ruled_out)
        return marked, MATCHING_CODES

    def _choose(
        self,
        entries: NDArray[np.uint8],
        key: QueueKey,
        asked: PullQuestion,
        span: OffsetRange | QueueLookup,
        codes: NDArray[np.int64],
    ) -> GetResult:
        """Choose among the entries from the offset asked for on."""
        limits, log, offset = self.limits, self.log, asked.offset
        stop_bytes = pull_bytes(asked.max_bytes)
        most = asked.max_messages if limits.messages is None else min(asked.max_messages, limits.messages)
        most = max(1, min(most, len(entries) // ENTRY_SIZE))
        places = np.empty(2 * most, dtype=np.int64)
        rules = PullRules(
            log_begin=log.min_offset,
            log_end=self.follower.offset,
            log_file_size=log.file_size,
            codes=codes,
            max_messages=most,
            max_bytes=stop_bytes if limits.total_bytes is None else min(stop_bytes, limits.total_bytes),
            stop_bytes=stop_bytes,
        )
        choice = kernels().select_entries(entries, rules, places)
        next_offset = offset + choice.passed
        if choice.damaged >= 0:
            self.damaged.met(key, offset + choice.damaged, EntryDamage.NO_RECORD)
        if choice.unordered >= 0:
            self.damaged.met(key, offset + choice.unordered, EntryDamage.NO_ORDER)
        if choice.outcome != Pull.FOUND:
            status = GetStatus.NO_MATCHED_MESSAGE if choice.outcome == Pull.NOTHING else GetStatus.MESSAGE_WAS_REMOVING
            return GetResult.nothing(status, next_offset, span)
        maps = self.log.arrays(choice.first, choice.last)
        return GetResult.of(GetStatus.FOUND, next_offset, span, key, places, choice.taken, maps)

    def seek_time(self, key: QueueKey, queue: QueueLookup, timestamp_ms: int, above: bool) -> int:
        """Return the answer of the kernel `seek_time` once each file that it needs is mapped; ASK if it needs many."""
        for _ in range(_MOST_RETRIES):
            found = lookup_kernels().seek_time(queue.address, timestamp_ms, above)
            if found >= ASK:
                return found
            with self.follower.lock:
                self.lookups.map_for(found, key, queue)
        return ASK

    def offset_by_time(self, key: QueueKey, timestamp_ms: int, boundary: Boundary) -> int:
        """Return the queue offset for a time (see `reput.queue.by_time`); 0 if there is no such queue.

        Prepares the next question about this queue.
        """
        with self.follower.lock:
            first, end = self.queues.min_offset(key), self.queues.max_offset(key)
            self.prepare_seek(key)
        return search(self._times_of(key), first, end, timestamp_ms, boundary)

    def prepare_seek(self, key: QueueKey, questions: int = 1) -> QueueLookup | None:
        """Let the kernels answer this number of questions by time, or the next ones, if they can.

        The caller holds the view's lock.
        """
        first, end = self.queues.min_offset(key), self.queues.max_offset(key)
        name = stored_text(key.topic), key.queue_id
        if first < end and self.lookups.can_seek and name not in self.lookups.queues:
            self.lookups.add_queue(name[0], key, first, 1, self._known(), questions)
        return self.lookups.queues.get(name)

    def _times_of(self, key: QueueKey) -> Callable[[int], int]:
        """Return the function from a queue offset to its store time; it keeps one file's entries for the next call."""
        of_kind = self.queues.durable.store_times(key)
        if of_kind is not None:
            return self._times_by_kind(key, of_kind)
        log_time, place = self.log.store_time, ENTRY.struct.unpack_from
        begin = end = 0
        data: bytes | memoryview = b""

        def time_of(offset: int) -> int:
            nonlocal begin, end, data
            if not begin <= offset < end:
                with self.follower.lock:
                    found = self.queues.block(key, offset)
                if found is None:
                    return self.store_time(key, offset)
                begin, end, data = found[0], found[0] + len(found[1]) // ENTRY_SIZE, found[1].data
            physical_offset, size, _ = place(data, (offset - begin) * ENTRY_SIZE)
            return -1 if is_blank(physical_offset, size) else log_time(physical_offset)

        return time_of

    def _times_by_kind(self, key: QueueKey, of_kind: Callable[[int], int]) -> Callable[[int], int]:
        """Return that function for durable entries that hold times themselves; the log has the times of the tail."""
        with self.follower.lock:
            tail, stored = self.queues.find_tail(key), self.queues.durable.find(key)
        durable_to = 0 if stored is None or (tail is not None and tail.restarted) else stored.max_offset

        def time_of(offset: int) -> int:
            if offset >= durable_to:
                return self.store_time(key, offset)
            with self.follower.lock:
                # A gap that it reports ends at the tail at the latest.
                return max(of_kind(offset), offset - durable_to)

        return time_of

    def store_time(self, key: QueueKey, offset: int) -> int:
        """Return the store time (ms) of the message at an offset; -1 if there is none."""
        with self.follower.lock:
            if not self.queues.min_offset(key) <= offset < self.queues.max_offset(key):
                return -1
            entry = self.queues.entries(key, offset, offset + 1)
        if not len(entry):
            return -1
        physical_offset, size, _ = ENTRY.struct.unpack(entry.data)
        return self.log.store_time(physical_offset) if self.log.record(physical_offset, size) is not None else -1

    def estimate(self, key: QueueKey, begin: int, end: int, wanted: TagFilter | SqlFilter) -> int:
        """Count the messages with offsets [begin, end) that pulls with this filter give."""
        with self.follower.lock:
            position, end = max(begin, self.queues.min_offset(key)), min(end, self.queues.max_offset(key))
        count = 0
        while position < end:
            with self.follower.lock:
                entries = self.queues.entries(key, position, min(end, position + _ENTRIES_AT_ONCE))
            read = len(entries) // ENTRY_SIZE
            if not read:
                position = self.queues.durable.block_end(key, position)
                continue
            there = self._have_records(entries)
            entries, codes = self._filtered(entries, key, wanted, read)
            if len(codes):
                hashes = entries.view(ENTRY.dtype)["tags_code"].astype(np.int64).astype(np.int32)
                # The entries of a SqlFilter end early only if all of them match.
                there = there[: len(hashes)] & np.isin(hashes, codes)
            count += int(np.count_nonzero(there))
            position += read
        return count

    def have_matches(self, key: QueueKey, begin: int, end: int, wanted: Sequence[TagFilter | SqlFilter]) -> list[bool]:
        """Return for each filter whether `estimate` finds a message; a few messages are read once for all filters."""
        with self.follower.lock:
            begin, end = max(begin, self.queues.min_offset(key)), min(end, self.queues.max_offset(key))
            entries = self.queues.entries(key, begin, min(end, begin + FEW)) if begin < end else _NO_ENTRIES
        if len(entries) != (end - begin) * ENTRY_SIZE:
            # They are many, or there is a gap.
            return [self.estimate(key, begin, end, one) > 0 for one in wanted]
        there = self._have_records(entries)
        plain = entries if self.ext is None else plain_entries(entries, key, self.ext)
        return few_have_matches(plain.view(ENTRY.dtype)[there], wanted, self.log)

    def _have_records(self, entries: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which entries refer to records that the log holds."""
        rows = entries.view(ENTRY.dtype)
        begin, size = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
        return self.log.holds(begin, size, self.follower.offset)
