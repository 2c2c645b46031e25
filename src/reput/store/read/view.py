"""The view of an open store: its log, its indexes below the frontier, the tail above it, and how they advance.

`reader_of` gives what answers about the queues of a topic (`queue_answers`); `keys` looks for keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import NamedTuple, SupportsIndex

from reput.errors import ConfigError, DamagedStoreError, ReputError
from reput.formats.index.index_file import capacity
from reput.formats.log.record import CHECK_NONE, Verdict, queue_offset_bound
from reput.formats.paths import MAX_QUEUE_ID, is_topic_folder_name
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_bytes, stored_text
from reput.index.kinds import IndexSizes
from reput.kernels.layouts.lookup import ASK
from reput.log.read.maps import LogMaps
from reput.queue.by_time import Boundary
from reput.queue.ext import ExtReader
from reput.queue.kinds import QueueKind
from reput.store.disk.frontier import Frontiers
from reput.store.disk.purpose import Purpose
from reput.store.disk.queue_refusals import damaged_queue
from reput.store.disk.store import StoreOnDisk
from reput.store.metadata.topics import Topics
from reput.store.owner.deletion import left_out
from reput.store.read.again import between_swaps
from reput.store.read.damaged_entries import DamagedEntries
from reput.store.read.entry_reader import EntryReader
from reput.store.read.foreign import foreign_end
from reput.store.read.kept_ends import KeptEnds
from reput.store.read.kinds import OpenKinds
from reput.store.read.lookup import Known, Lookups, Watched
from reput.store.read.message import StoredMessage
from reput.store.read.queue_answers import PullLimits, PullQuestion, QueueAnswers
from reput.store.read.results import MAX_PULL_BYTES, GetResult
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter
from reput.store.read.tail_follower import IndexPlace, TailFollower


class StoreQueue(NamedTuple):
    """A queue and its span: the first offset whose message is there, and the next one to be given."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class StoreView:
    """The readable parts of a store; safe for threads.

    Args:
        confirmed: returns the log offset up to which readers may read.
    """

    def __init__(
        self,
        store: StoreOnDisk,
        log: LogMaps,
        frontiers: Frontiers,
        confirmed: Callable[[], int],
        limits: PullLimits | None = None,
    ) -> None:
        layout, settings = store.layout, store.settings
        self.layout = layout
        self.config = store.config
        self.settings = settings
        self.log = log
        self.confirmed = confirmed
        self.limits = limits or PullLimits()
        self.damaged = DamagedEntries(layout.root)
        self.kinds, self._message_kinds, self._holds = store.kinds, store.message_kinds, store.placement.holds
        self.open_kinds = OpenKinds(store)
        self.queues_table = self.open_kinds.plain
        self._why_unreadable = store.why_unreadable
        size = settings.ext_file_size
        self.ext = None if size is None else ExtReader(layout.consume_queue_ext, size)
        sizes = IndexSizes(settings.index_slots, settings.index_items)
        self.indexes = tuple(store.indexes.values())
        self.index = store.indexes[settings.indexes.read].open(sizes)
        """The index that answers."""
        self.lookups = Lookups(self.queues_table, log, self.index, self.limits, MAX_PULL_BYTES)
        begin = max(frontiers.both, log.min_offset)
        place = IndexPlace(capacity(settings.index_items), *self.index.place(frontiers.index_offset))
        decode = settings.decoding(store.tag_items is not False)
        self.follower = TailFollower(
            log, self.queues_table, self.open_kinds.batches, settings.types, decode, begin, place, self.lookups.clear
        )
        self.entry_reader = EntryReader(
            self.queues_table, self.follower, self.lookups, self.limits, self.ext, self.damaged, lambda: self.known
        )
        self.readers_beside = self.open_kinds.readers_beside(self.follower, self.limits, self.damaged)
        self.frontiers = frontiers
        self.outgrown: Callable[[StoreView], bool] | None = None
        """True once a reader should open the store again: one without indexes or log has some, and its first files may
        have any sizes; or the tail beside a broker has become long. This view goes on as it is."""
        self.was_closed = False
        """True if the store was closed before this view was opened: its last program has left no file unfinished."""
        self.refresh: Callable[[StoreView], None] | None = None
        self.newer: Callable[[], StoreView] | None = None
        """A reader's: the view of the files that are there now, this one itself if none were replaced."""
        self.kept_ends = KeptEnds(layout, log, lambda: self.follower.offset)
        self._keys: dict[tuple[str, int], QueueKey] = {}
        self.follower.deleted = left_out(layout, log.min_offset)
        self._load_queues()

    def load(self, frontiers: Frontiers | None = None) -> None:
        """Read the indexes' files again, up to these offsets or those known, and the list of deleted queues.

        Another thread may know higher offsets by now. Its tail no longer has the entries below them.

        Raises:
            DamagedStoreError: the file with the deleted queues is damaged.
        """
        deleted = left_out(self.layout, self.log.min_offset)
        with self.follower.lock:
            before = self.follower.deleted, self.frontiers
            self.follower.deleted = deleted
            if frontiers is not None:
                self.frontiers = Frontiers(*map(max, frontiers, self.frontiers))
            try:
                self._load_queues()
            except BaseException:
                # The queues of before go on.
                self.follower.deleted, self.frontiers = before
                raise
            if self.ext is not None:
                self.ext.close()
            self.index.load()
            self.lookups.clear()

    def _load_queues(self) -> None:
        begin = self.log.min_offset
        for queues in self.open_kinds:
            queues.load(self.frontiers.both, begin)
        self.log_begin = begin
        """The log offset from which on the queues, as they were loaded, have messages."""

    def advance(self, frontiers: Frontiers) -> None:
        """Drop the entries of the tail below these offsets: the indexes are complete up to there now."""
        self.follower.follow_confirmed(max(frontiers), durable=True)
        with self.follower.lock:
            # Another thread may have come further.
            frontiers = Frontiers(*map(max, frontiers, self.frontiers))
            for queues in self.open_kinds:
                queues.advance(frontiers.both)
            if self.ext is not None:
                # A queue that began again has other files.
                self.ext.close()
            self.index.advance()
            self.frontiers = frontiers
            self.lookups.clear()
        self.follower.trim_items(frontiers.index_offset)

    def topics_of_broker(self) -> Topics:
        """Return the topics that the broker has now, with or without a queue."""
        return StoreOnDisk(self.layout, self.config, Purpose.LOOK).topics

    def watch(self, watched: Watched) -> None:
        """Use these watermarks to notice changes."""
        with self.follower.lock:
            self.lookups.clear()
            self.lookups.watched = watched

    @property
    def known(self) -> Known:
        """The log offsets up to which this view has read the log and the indexes."""
        return Known(self.follower.offset, *self.frontiers)

    def catch_up(self) -> None:
        """Let the tail follow the log to the confirmed offset.

        Raises:
            DamagedLogError: the log below it has changed.
        """
        if self.refresh is not None:
            self.refresh(self)
        confirmed = self.confirmed()
        if self.follower.offset < confirmed and (self.outgrown is None or self.log.starts):
            self.follower.follow_confirmed(confirmed)

    def key_of(self, topic: str, queue_id: int) -> QueueKey:
        """Return the key of a queue.

        Raises:
            ConfigError: no queue can have such a name or id.
            DamagedStoreError: the queues of the topic cannot be read.
        """
        try:
            key = self._keys.get((topic, queue_id))
        except TypeError:
            key = None
        if key is None:
            name = bytes_of("topic", topic)
            if not is_topic_folder_name(name):
                raise ConfigError(f"topic {topic!r}: not a valid name of a topic")
            # To ask a protocol takes 20 us.
            if type(queue_id) is not int and not isinstance(queue_id, SupportsIndex):
                raise ConfigError(f"topic {topic}, queue {queue_id!r:.80}: give a number")
            if not 0 <= queue_id <= MAX_QUEUE_ID:
                raise ConfigError(f"topic {topic}, queue {queue_id}: queue ids go from 0 to {MAX_QUEUE_ID}")
            self._refuse_unreadable(name)
            key = QueueKey(name, queue_id)
            self._report_loss(key)
            if self.queues_table.knows(key):
                self._keys[topic, queue_id] = key
        return key

    def _refuse_unreadable(self, topic: bytes) -> None:
        if why := self._why_unreadable(topic):
            raise DamagedStoreError(why)

    def _report_loss(self, key: QueueKey) -> None:
        """Report a queue that ends before the end that the store has kept, or has lost a file. A read needs neither."""
        try:
            if loss := self._emptied(key):
                self.damaged.lost(key, loss)
            if self._loss_of(key):
                # A writer may have deleted the queue, or put and closed, since this view has looked.
                self.kept_ends.clear()
                if loss := self._loss_of(key):
                    self.damaged.lost(key, loss)
        except ReputError as error:
            self.damaged.lost(key, str(error))

    def _emptied(self, key: QueueKey) -> str:
        """Return a sentence on a file of a queue that has lost all its bytes; "" if there is none.

        A task that is killed leaves such a file, too. The records of its entries are in the tail then.
        """
        if not self.was_closed:
            return ""
        with self.follower.lock:
            tail = self.queues_table.tail.queues.get(key)
            if tail is not None and tail.entries:
                return ""
        return next((text for kind in self._message_kinds for text in kind.emptied(key)), "")

    def _loss_of(self, key: QueueKey) -> str:
        """Return a sentence if a queue ends before what the store has kept; "" if not. The log is read last."""
        if key not in self.kept_ends.all():
            return ""
        self.catch_up()
        with self.follower.lock:
            end = self.reader_of(stored_text(key.topic)).queues.max_offset(key)
        return self.goes_on_at(key, end)[1]

    def reader_of(self, topic: str) -> QueueAnswers:
        """Return the reader that answers about the queues of a topic; catch up first."""
        for reader in self.readers_beside:
            if topic in reader.own_topics:
                return reader
        return self.entry_reader

    @between_swaps
    def pull(self, asked: PullQuestion) -> GetResult:
        """Return the answer to a pull."""
        key = self.key_of(asked.topic, asked.queue_id)
        self.catch_up()
        return self.reader_of(asked.topic).pull(key, asked)

    @between_swaps
    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary) -> int:
        """Return the queue offset for a time; 0 if there is no such queue."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        return self.reader_of(topic).offset_by_time(key, timestamp_ms, boundary)

    @between_swaps
    def seek_time(self, topic: str, queue_id: int, timestamp_ms: int, above: bool) -> int:
        """Return the kernel's answer to a question by time, once the files that it needs are mapped; ASK without one.

        `above`: the boundary is UPPER.
        """
        queue = self.lookups.queues.get((topic, queue_id))
        if queue is None:
            return ASK
        found = self.entry_reader.seek_time(self.key_of(topic, queue_id), queue, timestamp_ms, above)
        # The end of the files is no answer if the queue continues in the tail.
        if found < 0 or (found >= queue.file_end and queue.file_end != queue.max_offset):
            return ASK
        return found if not above else max(queue.min_offset, found - 1)

    @between_swaps
    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time (ms) of the message at an offset; -1 if there is none."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        return self.reader_of(topic).store_time(key, offset)

    @between_swaps
    def estimate(self, topic: str, queue_id: int, begin: int, end: int, wanted: TagFilter | SqlFilter) -> int:
        """Count the messages of a queue with offsets [begin, end) that pulls with this filter give."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        return self.reader_of(topic).estimate(key, begin, end, wanted)

    @between_swaps
    def have_matches(
        self, topic: str, queue_id: int, begin: int, end: int, wanted: Sequence[TagFilter | SqlFilter]
    ) -> list[bool]:
        """Return for each filter whether a message of a queue with an offset in [begin, end) passes it."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        return self.reader_of(topic).have_matches(key, begin, end, wanted)

    @between_swaps
    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the message whose record starts at a log offset; None if there is none, or if it has expired."""
        physical_offset = number_of("physical_offset", physical_offset)
        self.catch_up()
        found = self.examined(physical_offset, CHECK_NONE)
        return found if isinstance(found, StoredMessage) else None

    def examined(self, physical_offset: int, crc_check: int) -> StoredMessage | Verdict:
        """Return the message at a log offset, or the verdict on the bytes there; the caller has caught up.

        Bytes that are not in the log, or not followed yet, count as not written.
        """
        if physical_offset >= self.follower.offset:
            return Verdict.ZERO
        found = self.log.examined(physical_offset, crc_check)
        if isinstance(found, Verdict):
            return found
        start = self.log.file_at(physical_offset) or 0
        return StoredMessage(found, start, physical_offset - start)

    @between_swaps
    def queues(self, topic: str | None = None) -> list[StoreQueue]:
        """Return all queues, or those of a topic, by topic and id.

        Raises:
            DamagedStoreError: the queues of the topic cannot be read.
        """
        named = None if topic is None else bytes_of("topic", topic)
        if named is not None:
            self._refuse_unreadable(named)
        self.catch_up()
        with self.follower.lock:
            return sorted(
                StoreQueue(name, key.queue_id, first, end)
                for reader in (self.entry_reader, *self.readers_beside)
                for key, first, end in reader.queues.spans(named)
                if self.reader_of(name := stored_text(key.topic)) is reader
            )

    @between_swaps
    def topics(self) -> list[str]:
        """Return the topics that have queues, sorted; no queue is read."""
        self.catch_up()
        with self.follower.lock:
            return sorted(self.entry_reader.topics().union(*(reader.topics() for reader in self.readers_beside)))

    def stored_next_offset(self, topic: bytes, queue_id: int) -> int:
        """Return the next offset of a queue, as far as the log has been followed, for the first message put to it.

        Raises:
            MessageRefusedError: the queue's files are damaged, or are those of another queue.
        """
        key, reader = QueueKey(topic, queue_id), self.reader_of(stored_text(topic))
        kinds = (kind for kind in self.kinds if kind.has_batches == reader.has_batches)
        damage = damaged_queue(kinds, key, self.settings.queue_file_size)
        with self.follower.lock:
            end = reader.queues.max_offset(key)
        damage = damage or self._emptied(key) or None
        if damage is None and end:
            damage = foreign_end(reader, key, end)
        if damage is not None:
            from reput.log.encode.message import illegal

            raise illegal(damage)
        return end

    def goes_on_at(self, key: QueueKey, end: int) -> tuple[int, str]:
        """Return the offset at which a queue that ends at `end` goes on, by what the store has kept of its numbers.

        With it comes a sentence if the queue has lost files or messages, otherwise "".

        Raises:
            DamagedStoreError: the file of given offsets is damaged.
        """
        kept = self.kept_ends.all().get(key, 0)
        if end >= kept or key.topic in self.settings.types.batch or self.topics_of_broker().was_deleted(key.topic):
            return end, ""
        # Blank entries keep the numbers of lost messages, and the tail does not know of them.
        holders = [kind for kind in self._message_kinds if self._holds(kind.name, key.topic)]
        if holders and all(self._reaches(kind, key, kept) for kind in holders):
            return kept, ""
        return end, (
            f"{self.layout.root}: queue {key}: its files and the log end at queue offset {end}, and offsets up to "
            f"{kept - 1} were given: files of the queue are lost, or the end of the log. Restore them, or run `reput "
            "rebuild`: it brings back what the log has, and the queue goes on after that"
        )

    def _reaches(self, kind: QueueKind, key: QueueKey, end: int) -> bool:
        """Return True if a queue has an entry before this offset that is blank, or leads into the log."""
        with kind.asked() as queue_of:
            queue = queue_of(key)
            if queue is None or (queue.end(queue_offset_bound(self.follower.offset)) or 0) < end:
                return False
            last = next(queue.read(end - 1, end), None)
        return last is not None and (
            last[1].is_pre_blank or last[1].physical_offset + last[1].size <= self.follower.offset
        )

    @between_swaps
    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset whose message is there; 0 if there is no such queue."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        with self.follower.lock:
            return self.reader_of(topic).queues.min_offset(key)

    @between_swaps
    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the next queue offset; 0 if there is no such queue."""
        key = self.key_of(topic, queue_id)
        self.catch_up()
        with self.follower.lock:
            return self.reader_of(topic).queues.max_offset(key)

    def retire(self) -> None:
        """Release the files of the log, since another view answers now; calls under way may map some of them again."""
        with self.follower.lock:
            self.lookups.clear()
            self.lookups.watched = None
        self.log.close()

    def close(self) -> None:
        """Release the files; results that are kept stay valid."""
        self.retire()
        for queues in self.open_kinds:
            queues.close()
        if self.ext is not None:
            self.ext.close()
        self.index.close()


def number_of(what: str, value: object) -> int:
    """Return a whole number.

    Raises:
        ConfigError: the value is no whole number.
    """
    if not isinstance(value, SupportsIndex):
        raise ConfigError(f"{what} {value!r:.80}: give a whole number")
    return index(value)


def bytes_of(what: str, text: str) -> bytes:
    """Return a name as bytes; bytes that are not UTF-8 are as the command line gives them.

    Raises:
        ConfigError: the value is no text, or no text that a message can have.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{what} {text!r:.80}: give a text")
    try:
        return stored_bytes(text)
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{what} {text[:80]!r}: half of a character at {error.start}, which no message can have"
        ) from None
