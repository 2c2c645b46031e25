"""Reading an open store: pulls, lookups by time and key, spans of queues.

Below the frontier its indexes answer, above it the tail.

Source: `DefaultMessageStore.getMessage`, `getOffsetInQueueByTime`, `queryMessage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import ConfigError
from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, LAST_BLANK_SIZE, PRE_BLANK_SIZE, QueueKey
from reput.formats.hashing import index_key_hash
from reput.formats.index_file import TAG_KEY_PREFIX, capacity
from reput.formats.paths import is_topic_folder_name
from reput.formats.record import CHECK_NONE, Verdict, examine
from reput.index.search import IndexSearch
from reput.kernels import kernels
from reput.kernels.columns import Pull
from reput.log.maps import LogMaps
from reput.queue.batch import BatchQueues
from reput.queue.by_time import Boundary, offset_by_time
from reput.queue.ext import ExtReader
from reput.queue.kinds import QueueKind
from reput.queue.queues import Queues
from reput.store.batch_reader import BatchReader
from reput.store.follower import Follower, IndexPlace
from reput.store.frontier import Frontiers
from reput.store.layout import StoreLayout
from reput.store.message import StoredMessage
from reput.store.results import MAX_PULL_BYTES, GetResult, GetStatus, QueryResult, outside, pull_bytes
from reput.store.settings import StoreSettings
from reput.store.sql_filter import (
    MATCHING_CODES,
    BloomBits,
    SqlFilter,
    marked_entries,
    plain_entries,
    ruled_out_by_bitmap,
)
from reput.store.tag_filter import EVERYTHING, NO_CODES, TagFilter

_END_OF_TIME = (1 << 63) - 1
_MAX_QUEUE_ID = (1 << 31) - 1
_ENTRIES_AT_ONCE = 1 << 16
_BLANK_SIZES = (PRE_BLANK_SIZE, LAST_BLANK_SIZE)
_FOUND = int(Pull.FOUND)


class QueueInfo(NamedTuple):
    """A queue and its span: the first offset whose message is there, and the next one to be given."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class PullLimits(NamedTuple):
    """Bounds on what one pull returns, beside its own; None for no bound.

    RocketMQ's broker has 32 messages and 262,144 bytes (maxTransferCountOnMessageInMemory,
    maxTransferBytesOnMessageInMemory): they keep its network fair, and are off in an embedded store.
    """

    messages: int | None = None
    total_bytes: int | None = None


class _Window(NamedTuple):
    """The entries [begin, end) of one queue file, all in front of the frontier: they do not change any more.

    `is_whole`: the file ends there, too.
    """

    key: QueueKey
    begin: int
    end: int
    entries: NDArray[np.uint8]
    min_offset: int
    max_offset: int
    is_whole: bool


class StoreView:
    """What can be read of a store; safe for threads.

    Args:
        kinds: of queues; the first answers.
        confirmed: tells the log offset up to which readers may look.
    """

    def __init__(
        self,
        layout: StoreLayout,
        settings: StoreSettings,
        kinds: Sequence[QueueKind],
        log: LogMaps,
        frontiers: Frontiers,
        confirmed: Callable[[], int],
        limits: PullLimits | None = None,
        tag_items: bool = True,
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.log = log
        self.confirmed = confirmed
        self.limits = limits or PullLimits()
        self.kinds = kinds
        self.queues_table = Queues(kinds[0].open())
        size = settings.ext_file_size
        self.ext = None if size is None else ExtReader(layout.consume_queue_ext, size)
        self.bloom_bits: Callable[[str, SqlFilter], BloomBits | None] = lambda _topic, _wanted: None
        self.index = IndexSearch(layout.index, settings.index_slots, settings.index_items)
        self.batches = BatchQueues(layout.batch_consume_queue, settings.batch_queue_file_size, self.queues_table.tail)
        begin = max(min(frontiers), log.min_offset)
        self.index.load()
        place = IndexPlace(capacity(settings.index_items), *self.index.place(frontiers.index_offset))
        decode = settings.decoding(tag_items)
        self.follower = Follower(log, self.queues_table, self.batches, settings.types, decode, begin, place)
        self._batch_reader = BatchReader(log, self.batches, self.follower)
        self.frontiers = frontiers
        self.refresh: Callable[[StoreView], None] | None = None
        self._keys: dict[tuple[str, int], QueueKey] = {}
        self._windows: dict[tuple[str, int], _Window] = {}
        self._select = kernels().select_entries
        self.load(frontiers)

    def load(self, frontiers: Frontiers) -> None:
        """Read the indexes' files anew, as far as they are complete below these offsets."""
        with self.follower.lock:
            self.queues_table.load(min(frontiers), self.log.min_offset)
            self.queues_table.tail.trim(min(frontiers))
            self.batches.load(min(frontiers), self.log.min_offset)
            self.batches.advance(min(frontiers))
            if self.ext is not None:
                self.ext.close()
            self.index.load()
            self.frontiers = frontiers
            self._windows = {}

    def advance(self, frontiers: Frontiers) -> None:
        """The indexes are complete up to here now: what the tail held of it goes."""
        self.follower.follow_confirmed(max(frontiers))
        with self.follower.lock:
            self.queues_table.advance(min(frontiers))
            self.batches.advance(min(frontiers))
            if self.ext is not None:
                # A queue that began again has other files.
                self.ext.close()
            self.index.load()
            self.frontiers = frontiers
            self._windows = {}
        self.follower.trim_items(frontiers.index_offset)

    def catch_up(self) -> None:
        """Let the tail follow the log to the confirmed offset.

        Raises:
            DamagedLogError: the log below it is not what it was.
        """
        if self.refresh is not None:
            self.refresh(self)
        confirmed = self.confirmed()
        if self.follower.offset < confirmed:
            self.follower.follow_confirmed(confirmed)

    def key_of(self, topic: str, queue_id: int) -> QueueKey:
        """The key of a queue.

        Raises:
            ConfigError: no queue can have such a name or id.
        """
        key = self._keys.get((topic, queue_id))
        if key is None:
            name = topic.encode("utf-8", "surrogateescape")
            if not is_topic_folder_name(name):
                raise ConfigError(f"topic {topic!r}: no name of a topic")
            if not 0 <= queue_id <= _MAX_QUEUE_ID:
                raise ConfigError(f"topic {topic}, queue {queue_id}: queue ids go from 0 to {_MAX_QUEUE_ID}")
            key = QueueKey(name, queue_id)
            if self.queues_table.knows(key):
                self._keys[topic, queue_id] = key
        return key

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        wanted: TagFilter | SqlFilter = EVERYTHING,
        max_bytes: int = MAX_PULL_BYTES,
    ) -> GetResult:
        """Messages of a queue from an offset on; every status as RocketMQ has it."""
        if self.refresh is not None or self.follower.offset < self.confirmed():
            self.catch_up()
        if topic in self.batches.topics:
            limits, key = self.limits, self.key_of(topic, queue_id)
            return self._batch_reader.pull(
                key, offset, max_messages, wanted, max_bytes, limits.messages, limits.total_bytes
            )
        # Without a filter no more is looked at than is given, but for a few gaps.
        count = self.queues_table.durable.pull_entries(max_messages, wanted is not EVERYTHING)
        window = self._windows.get((topic, queue_id))
        tail = self.queues_table.tail.queues.get(window.key) if window is not None else None
        if (
            window is not None
            and window.begin <= offset < window.end
            # Where the file goes on in the tail, a pull must not end at the frontier.
            and (offset + count <= window.end or window.is_whole)
            and not (tail is not None and tail.restarted)
        ):
            at = (offset - window.begin) * ENTRY_SIZE
            entries = window.entries[at : at + count * ENTRY_SIZE]
            key, first, end = window.key, window.min_offset, window.max_offset if tail is None else tail.next
        else:
            key = self.key_of(topic, queue_id)
            with self.follower.lock:
                table = self.queues_table
                first, end = table.min_offset(key), table.max_offset(key)
                if not first <= offset < end:
                    return outside(table.knows(key), offset, first, end)
                entries = table.entries(key, offset, offset + count)
                self._open_window(topic, key, offset)
            if not len(entries):
                behind = table.durable.block_end(offset)
                return GetResult(GetStatus.OFFSET_FOUND_NULL, behind, first, end)
        codes = NO_CODES
        if wanted is not EVERYTHING:
            entries, codes = self._filtered(entries, topic, key, wanted, max_messages)
        return self._pull(entries, offset, first, end, max_messages, codes, max_bytes)

    def _filtered(
        self, entries: NDArray[np.uint8], topic: str, key: QueueKey, wanted: TagFilter | SqlFilter, most: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The entries as the kernel is to choose among them, and the tags codes that it takes (none: all)."""
        if isinstance(wanted, TagFilter):
            if self.ext is not None and len(wanted.codes):
                entries = plain_entries(entries, key, self.ext)
            return entries, wanted.codes
        bloom = self.bloom_bits(topic, wanted) if self.ext is not None else None
        ruled_out = ruled_out_by_bitmap(entries, key, self.ext, bloom) if self.ext is not None and bloom else None
        marked = marked_entries(entries, wanted.compiled, self.log, self.follower.offset, most, ruled_out)
        return marked, MATCHING_CODES

    def _open_window(self, topic: str, key: QueueKey, offset: int) -> None:
        """Let the next pulls from this queue file find its entries without a search."""
        found = self.queues_table.block(key, offset)
        if found is not None:
            begin, entries = found
            end, table = begin + len(entries) // ENTRY_SIZE, self.queues_table
            first = max(begin, table.min_offset(key))
            if len(self._windows) >= self.queues_table.durable.most_blocks:
                self._windows.clear()
            self._windows[topic, key.queue_id] = _Window(
                key,
                first,
                end,
                entries[(first - begin) * ENTRY_SIZE :],
                table.min_offset(key),
                table.max_offset(key),
                end == table.durable.block_end(begin),
            )

    def _pull(
        self,
        entries: NDArray[np.uint8],
        offset: int,
        first: int,
        end: int,
        max_messages: int,
        codes: NDArray[np.int64],
        max_bytes: int,
    ) -> GetResult:
        """Choose among the entries from `offset` on, of a queue that spans [first, end)."""
        limits, log = self.limits, self.log
        stop_bytes = pull_bytes(max_bytes)
        most = max_messages if limits.messages is None else min(max_messages, limits.messages)
        room = max(1, min(most, len(entries) // ENTRY_SIZE))
        physical_offsets, sizes = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
        taken, passed, pull, begin, last = self._select(
            entries,
            log.min_offset,
            self.follower.offset,
            log.file_size,
            codes,
            room,
            stop_bytes if limits.total_bytes is None else min(stop_bytes, limits.total_bytes),
            stop_bytes,
            physical_offsets,
            sizes,
        )
        if pull != _FOUND:
            status = GetStatus.NO_MATCHED_MESSAGE if pull == Pull.NOTHING else GetStatus.MESSAGE_WAS_REMOVING
            return GetResult(status, offset + passed, first, end)
        if taken < room:
            physical_offsets, sizes = physical_offsets[:taken], sizes[:taken]
        return GetResult(
            GetStatus.FOUND, offset + passed, first, end, physical_offsets, sizes, self._maps_of(begin, last)
        )

    def _maps_of(self, first: int, last: int) -> Sequence[tuple[int, NDArray[np.uint8]]]:
        size = self.log.file_size
        begin = first // size * size
        if last < begin + size:
            return ((begin, self.log.array(begin)),)
        return [(start, self.log.array(start)) for start in self.log.starts if begin <= start <= last]

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The queue offset for a time; see `reput.queue.by_time`. 0 for a queue that is not there."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        if topic in self.batches.topics:
            return self._batch_reader.offset_by_time(key, timestamp_ms, boundary)
        with self.follower.lock:
            first, end = self.queues_table.min_offset(key), self.queues_table.max_offset(key)
        return offset_by_time(self._times_of(key, topic), first, end, timestamp_ms, boundary)

    def _times_of(self, key: QueueKey, topic: str) -> Callable[[int], int]:
        """What tells the store time of a queue's offsets; one file's entries are kept for the next question."""
        told = self.queues_table.durable.store_times(key)
        if told is not None:
            return self._times_by_kind(key, told)
        log_time, place = self.log.store_time, ENTRY.struct.unpack_from
        begin = end = 0
        data: bytes | memoryview = b""

        def store_time(offset: int) -> int:
            nonlocal begin, end, data
            if not begin <= offset < end:
                with self.follower.lock:
                    self._open_window(topic, key, offset)
                window = self._windows.get((topic, key.queue_id))
                if window is None or not window.begin <= offset < window.end:
                    return self._store_time(key, offset)
                begin, end, data = window.begin, window.end, window.entries.data
            physical_offset, size, _ = place(data, (offset - begin) * ENTRY_SIZE)
            return -1 if physical_offset == 0 and size in _BLANK_SIZES else log_time(physical_offset)

        return store_time

    def _times_by_kind(self, key: QueueKey, told: Callable[[int], int]) -> Callable[[int], int]:
        """What tells the store times where the durable entries themselves do, and the log tells those of the tail."""
        tail, stored = self.queues_table.tail.queues.get(key), self.queues_table.durable.find(key)
        durable_to = 0 if stored is None or (tail is not None and tail.restarted) else stored.end

        def store_time(offset: int) -> int:
            if offset >= durable_to:
                return self._store_time(key, offset)
            with self.follower.lock:
                return told(offset)

        return store_time

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time (ms) of a queue's message; -1 where there is none."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        if topic in self.batches.topics:
            return self._batch_reader.store_time(key, offset)
        return self._store_time(key, offset)

    def _store_time(self, key: QueueKey, offset: int) -> int:
        with self.follower.lock:
            if not self.queues_table.min_offset(key) <= offset < self.queues_table.max_offset(key):
                return -1
            entry = self.queues_table.entries(key, offset, offset + 1)
        if not len(entry):
            return -1
        physical_offset, size, _ = ENTRY.struct.unpack(entry.data)
        return self.log.store_time(physical_offset) if self.log.record(physical_offset, size) is not None else -1

    def estimate(self, topic: str, queue_id: int, begin: int, end: int, tags: TagFilter = EVERYTHING) -> int:
        """How many messages of a queue with offsets [begin, end) match, counted exactly by their tags' hashes."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        if topic in self.batches.topics:
            return self._batch_reader.estimate(key, begin, end, tags)
        count, position = 0, max(begin, self.min_offset(topic, queue_id))
        end = min(end, self.max_offset(topic, queue_id))
        while position < end:
            with self.follower.lock:
                entries = self.queues_table.entries(key, position, min(end, position + _ENTRIES_AT_ONCE))
            read = len(entries) // ENTRY_SIZE
            if not read:
                position = self.queues_table.durable.block_end(position)
                continue
            rows = np.frombuffer(entries, dtype=ENTRY.dtype)
            real = rows["physical_offset"] >= self.log.min_offset
            real &= (rows["physical_offset"] != 0) | ~np.isin(rows["size"], _BLANK_SIZES)
            if len(tags.codes):
                entries = entries if self.ext is None else plain_entries(entries, key, self.ext)
                hashes = entries.view(ENTRY.dtype)["tags_code"].astype(np.int64).astype(np.int32)
                real &= np.isin(hashes, tags.codes)
            count += int(np.count_nonzero(real))
            position += read
        return count

    def query_message(
        self,
        topic: str,
        key: str,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        before: int | None = None,
        by_tag: bool = False,
        exact: bool = True,
    ) -> QueryResult:
        """The newest messages with a key, stored in [begin_ms, end_ms], in log order; see `MessageStore`."""
        name = self.key_of(topic, 0).topic
        wanted = key.encode("utf-8", "surrogateescape")
        key_hash = index_key_hash(name + b"#" + (TAG_KEY_PREFIX if by_tag else b"") + wanted)
        end_ms = _END_OF_TIME if end_ms is None else end_ms
        self.catch_up()
        found: list[StoredMessage] = []
        seen: set[int] = set()
        for offset in self._with_key(key_hash, begin_ms, end_ms):
            if (before is not None and offset >= before) or (exact and offset in seen):
                continue
            message = self.message_at(offset)
            if message is None or (exact and not _has_key(message, name, key, by_tag)):
                continue
            if len(found) == max_messages:
                return QueryResult(_in_log_order(found), more=True)
            seen.add(offset)
            found.append(message)
        return QueryResult(_in_log_order(found), more=False)

    def _with_key(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        with self.follower.lock:
            pieces, frontier = list(self.follower.items), self.frontiers.index_offset
        for piece in reversed(pieces):
            for offset, time in piece.find(key_hash):
                if offset >= frontier and begin_ms <= time <= end_ms:
                    yield offset
        for offset, _ in self.index.find(key_hash, begin_ms, end_ms, frontier):
            yield offset

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record starts at a log offset; None where none does, or where it has expired."""
        self.catch_up()
        start = self.log.file_at(physical_offset) if physical_offset >= 0 else None
        if start is None or physical_offset >= self.follower.offset:
            return None
        data = self.log.array(start).data
        position = physical_offset - start
        verdict, size = examine(data, position, len(data), physical_offset, CHECK_NONE)
        return StoredMessage(data[position : position + size]) if verdict is Verdict.GOOD else None

    def queues(self, topic: str | None = None) -> list[QueueInfo]:
        """All queues, or those of a topic, by topic and id."""
        self.catch_up()
        with self.follower.lock:
            return sorted(
                QueueInfo(name, key.queue_id, first, end)
                for table in (self.queues_table, self.batches)
                for key, first, end in table.spans()
                if (name := key.topic.decode("utf-8", "surrogateescape")) == topic or topic is None
                if table is self.batches or name not in self.batches.topics
            )

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset whose message is there, 0 for no queue."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        with self.follower.lock:
            return (self.batches if topic in self.batches.topics else self.queues_table).min_offset(key)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next queue offset, 0 for no queue."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        with self.follower.lock:
            return (self.batches if topic in self.batches.topics else self.queues_table).max_offset(key)

    def close(self) -> None:
        """Let go of the files; results that are kept stay valid."""
        self.log.close()
        self.queues_table.close()
        self.batches.close()
        if self.ext is not None:
            self.ext.close()
        self.index.close()


def _has_key(message: StoredMessage, topic: bytes, key: str, by_tag: bool) -> bool:
    if message.record.topic != topic:
        return False
    if by_tag:
        return message.tags == key
    return key in message.keys or key == message.unique_key


def _in_log_order(messages: list[StoredMessage]) -> list[StoredMessage]:
    return sorted(messages, key=lambda message: message.physical_offset)
