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
from reput.files.maps import address_of
from reput.formats.consume_queue import ENTRY, ENTRY_SIZE, LAST_BLANK_SIZE, PRE_BLANK_SIZE, QueueKey
from reput.formats.hashing import index_key_hash
from reput.formats.index_file import TAG_KEY_PREFIX, capacity
from reput.formats.paths import is_topic_folder_name
from reput.formats.record import CHECK_NONE, Verdict, examine
from reput.index.search import IndexSearch
from reput.kernels import kernels, lookup_kernels
from reput.kernels.columns import Pull
from reput.kernels.lookup_columns import ASK, NEEDS_FILE
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
from reput.store.lookup import IndexLookup, Known, Lookups, QueueLookup, Watched
from reput.store.message import StoredMessage
from reput.store.results import (
    MAX_PULL_BYTES,
    GetResult,
    GetStatus,
    QueryResult,
    Span,
    outside,
    pull_bytes,
    room_for,
    sizes_in,
)
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
_MOST_AT_ONCE = 1 << 12
"""Messages for which a pull makes room before it knows how many there are."""
_MOST_RETRIES = 256
_FOUND, _FOUND_STATUS, _LOWER = int(Pull.FOUND), GetStatus.FOUND, Boundary.LOWER
_INT64 = np.dtype(np.int64)
_MOST_TOPICS = 1 << 16
_ITEM_STEP_MS = 1000
"""An index item knows its record's time to this much."""


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
        self.lookups = Lookups(self.queues_table, log, self.index, self.limits, MAX_PULL_BYTES)
        self.batches = BatchQueues(layout.batch_consume_queue, settings.batch_queue_file_size, self.queues_table.tail)
        begin = max(min(frontiers), log.min_offset)
        self.index.load()
        place = IndexPlace(capacity(settings.index_items), *self.index.place(frontiers.index_offset))
        decode = settings.decoding(tag_items)
        self.follower = Follower(
            log, self.queues_table, self.batches, settings.types, decode, begin, place, self.lookups.clear
        )
        self._batch_reader = BatchReader(log, self.batches, self.follower)
        self.frontiers = frontiers
        self.refresh: Callable[[StoreView], None] | None = None
        self._keys: dict[tuple[str, int], QueueKey] = {}
        self._topics: set[str] = set()
        self._select = kernels().select_entries
        self._pull_entries, self._seek_time, self._find_key = lookup_kernels()
        self.load(frontiers)

    def load(self, frontiers: Frontiers) -> None:
        """Read the indexes' files anew, as far as they are complete below these offsets."""
        with self.follower.lock:
            self.queues_table.load(min(frontiers), self.log.min_offset)
            for _ in self.queues_table.tail.trim(min(frontiers)):
                pass
            self.batches.load(min(frontiers), self.log.min_offset)
            self.batches.advance(min(frontiers))
            if self.ext is not None:
                self.ext.close()
            self.index.load()
            self.frontiers = frontiers
            self.lookups.clear()

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
            self.lookups.clear()
        self.follower.trim_items(frontiers.index_offset)

    def watch(self, watched: Watched) -> None:
        """Take these watermarks for what tells that something has changed."""
        with self.follower.lock:
            self.lookups.clear()
            self.lookups.watched = watched

    @property
    def _known(self) -> Known:
        return Known(self.follower.offset, *self.frontiers)

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
            name = _utf8("topic", topic)
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
        queue = self.lookups.queues.get((topic, queue_id))
        if queue is not None and wanted is EVERYTHING and 0 < max_messages <= _MOST_AT_ONCE:
            found = np.empty(max_messages + (max_messages + 1 >> 1), _INT64)
            try:
                count = self._pull_entries(queue.address, offset, max_messages, max_bytes, found)
            except OverflowError:
                # Such an offset no queue has; the general way says so.
                count = ASK
            if count > 0:
                return GetResult(_FOUND_STATUS, offset + count, queue, found, count, queue.maps)
        return self._get(topic, queue_id, offset, max_messages, wanted, max_bytes)

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        wanted: TagFilter | SqlFilter,
        max_bytes: int,
    ) -> GetResult:
        """The same for all cases; prepares the next pull."""
        if self.refresh is not None or self.follower.offset < self.confirmed():
            self.catch_up()
        if topic in self.batches.topics:
            limits, key = self.limits, self.key_of(topic, queue_id)
            return self._batch_reader.pull(
                key, offset, max_messages, wanted, max_bytes, limits.messages, limits.total_bytes
            )
        # Without a filter no more is looked at than is given, but for a few gaps.
        count = self.queues_table.durable.pull_entries(max_messages, wanted is not EVERYTHING)
        key = self.key_of(topic, queue_id)
        with self.follower.lock:
            queue, table = self.lookups.queues.get((topic, queue_id)), self.queues_table
            span: Span | QueueLookup
            if queue is not None and queue.begin <= offset and (
                offset + count <= queue.behind or (queue.is_last and offset < queue.behind)
            ):  # fmt: skip
                # Where the file goes on in the tail, a pull must not end at the frontier.
                at = (offset - queue.begin) * ENTRY_SIZE
                entries, span = queue.entries[at : at + count * ENTRY_SIZE], queue
            else:
                span = Span(table.min_offset(key), table.max_offset(key))
                if not span.min_offset <= offset < span.max_offset:
                    return outside(table.knows(key), offset, span)
                entries = table.entries(key, offset, offset + count)
            if span is not queue or wanted is EVERYTHING:
                self.lookups.add_queue(topic, key, offset, max(1, max_messages), self._known)
        if not len(entries):
            return GetResult(GetStatus.OFFSET_FOUND_NULL, table.durable.block_end(offset), span)
        codes = NO_CODES
        if wanted is not EVERYTHING:
            entries, codes = self._filtered(entries, topic, key, wanted, max_messages)
        return self._pull(entries, offset, span, max_messages, codes, max_bytes)

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

    def _pull(
        self,
        entries: NDArray[np.uint8],
        offset: int,
        span: Span | QueueLookup,
        max_messages: int,
        codes: NDArray[np.int64],
        max_bytes: int,
    ) -> GetResult:
        """Choose among the entries from `offset` on."""
        limits, log = self.limits, self.log
        stop_bytes = pull_bytes(max_bytes)
        most = max_messages if limits.messages is None else min(max_messages, limits.messages)
        room = max(1, min(most, len(entries) // ENTRY_SIZE))
        found = room_for(room)
        taken, passed, pull, begin, last = self._select(
            entries,
            log.min_offset,
            self.follower.offset,
            log.file_size,
            codes,
            room,
            stop_bytes if limits.total_bytes is None else min(stop_bytes, limits.total_bytes),
            stop_bytes,
            found[:room],
            sizes_in(found),
        )
        if pull != _FOUND:
            status = GetStatus.NO_MATCHED_MESSAGE if pull == Pull.NOTHING else GetStatus.MESSAGE_WAS_REMOVING
            return GetResult(status, offset + passed, span)
        return GetResult(GetStatus.FOUND, offset + passed, span, found, taken, self._maps_of(begin, last))

    def _maps_of(self, first: int, last: int) -> Sequence[tuple[int, NDArray[np.uint8]]]:
        size = self.log.file_size
        begin = first // size * size
        if last < begin + size:
            return ((begin, self.log.array(begin)),)
        return [(start, self.log.array(start)) for start in self.log.starts if begin <= start <= last]

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The queue offset for a time; see `reput.queue.by_time`. 0 for a queue that is not there."""
        queue = self.lookups.queues.get((topic, queue_id))
        if queue is not None and self.lookups.can_seek and -_END_OF_TIME < timestamp_ms < _END_OF_TIME:
            above = boundary is not _LOWER
            found = self._seek_time(queue.address, timestamp_ms, above)
            if found < ASK:
                found = self._seek_with_maps(self.key_of(topic, queue_id), queue, timestamp_ms, above)
            # The end of the files is no answer where the queue goes on in the tail.
            if found >= 0 and (found < queue.file_end or queue.file_end == queue.max_offset):
                return found if not above else max(queue.min_offset, found - 1)
        return self._offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def _seek_with_maps(self, key: QueueKey, queue: QueueLookup, timestamp_ms: int, above: bool) -> int:
        """The seek again, with each file mapped that it asks for."""
        found = NEEDS_FILE
        for _ in range(_MOST_RETRIES):
            found = self._seek_time(queue.address, timestamp_ms, above)
            if found >= ASK:
                return found
            with self.follower.lock:
                self.lookups.map_for(found, key, queue)
        return ASK

    def _offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary) -> int:
        """The same for all cases; prepares the next question."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        if topic in self.batches.topics:
            return self._batch_reader.offset_by_time(key, timestamp_ms, boundary)
        with self.follower.lock:
            first, end = self.queues_table.min_offset(key), self.queues_table.max_offset(key)
            if first < end and self.lookups.can_seek and (topic, queue_id) not in self.lookups.queues:
                self.lookups.add_queue(topic, key, first, 1, self._known)
        return offset_by_time(self._times_of(key), first, end, timestamp_ms, boundary)

    def _times_of(self, key: QueueKey) -> Callable[[int], int]:
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
                    found = self.queues_table.block(key, offset)
                if found is None:
                    return self._store_time(key, offset)
                begin, end, data = found[0], found[0] + len(found[1]) // ENTRY_SIZE, found[1].data
            physical_offset, size, _ = place(data, (offset - begin) * ENTRY_SIZE)
            return -1 if physical_offset == 0 and size in _BLANK_SIZES else log_time(physical_offset)

        return store_time

    def _times_by_kind(self, key: QueueKey, told: Callable[[int], int]) -> Callable[[int], int]:
        """What tells the store times where the durable entries themselves do, and the log tells those of the tail."""
        with self.follower.lock:
            tail, stored = self.queues_table.find_tail(key), self.queues_table.durable.find(key)
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

    def newest_with_key(self, topic: str, key: str, max_messages: int) -> QueryResult | None:
        """The answer to `query_message` without conditions, where one kernel call gives it; else None."""
        index = self.lookups.index
        if index is None or not 0 < max_messages <= _MOST_AT_ONCE:
            return None
        try:
            named = f"{topic}#{key}".encode()
        except UnicodeEncodeError:
            return None
        place = self._find_key(index.address, named, len(topic), max_messages, 0)
        # Only what has been found, or was asked for before, is known to be a topic.
        if place[0] == 1 or (place[0] == 0 and topic in self._topics):
            return QueryResult(place, index)
        return None if place[0] == ASK else self._find_all(index, named, len(topic), max_messages)

    def _find_all(self, index: IndexLookup, named: bytes, topic_size: int, most: int) -> QueryResult | None:
        """The same with all places, and with each file of the log mapped that it asks for; None: ask in general."""
        found = np.empty(2 * most, _INT64)
        for _ in range(_MOST_RETRIES):
            count = self._find_key(index.address, named, topic_size, most, address_of(found))[0]
            if count == ASK:
                return None
            if count >= 0:
                taken = min(count, most)
                places = zip(found[:taken].tolist(), found[most:].tolist(), strict=False)
                return QueryResult(
                    (taken, 0, 0), index, [index.message(*place) for place in sorted(places)], count > taken
                )
            self.lookups.map_log(count, index.log)
        return None

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
        """The newest messages with a key, stored in [begin_ms, end_ms], in log order; see `MessageStore`.

        Prepares what `newest_with_key` needs.
        """
        name = self.key_of(topic, 0).topic
        wanted = _utf8("key", key)
        key_hash = index_key_hash(name + b"#" + (TAG_KEY_PREFIX if by_tag else b"") + wanted)
        end_ms = _END_OF_TIME if end_ms is None else end_ms
        self.catch_up()
        with self.follower.lock:
            if self.lookups.index is None and not self.follower.items:
                self.lookups.add_index(self._known)
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            self._topics.add(topic)
        found: list[StoredMessage] = []
        seen: set[int] = set()
        # An item's time is that of its record or up to a second less.
        least_ms = begin_ms - _ITEM_STEP_MS + 1 if exact else begin_ms
        for offset in self._with_key(key_hash, least_ms, end_ms):
            if (before is not None and offset >= before) or (exact and offset in seen):
                continue
            message = self.message_at(offset)
            if message is None or (exact and not _has_key(message, name, key, by_tag)):
                continue
            if exact and not begin_ms <= message.store_timestamp <= end_ms:
                continue
            if len(found) >= max_messages:
                return QueryResult((len(found), 0, 0), None, _in_log_order(found), more=True)
            seen.add(offset)
            found.append(message)
        return QueryResult((len(found), 0, 0), None, _in_log_order(found))

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
        with self.follower.lock:
            self.lookups.clear()
            self.lookups.watched = None
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


def _utf8(what: str, text: str) -> bytes:
    """A name as bytes; bytes of no UTF-8 come as the command line gives them."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{what} {text[:80]!r}: half a character at {error.start}, which no message can have"
        ) from None


def _in_log_order(messages: list[StoredMessage]) -> list[StoredMessage]:
    return sorted(messages, key=lambda message: message.physical_offset)
