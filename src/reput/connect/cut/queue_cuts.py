"""Ranges of the queue plan, found by offset and by time, and the places of the key plan.

Queues and indexes are read below the frontier only; above it the log is read (`plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from reput.connect.cut.disk_queue import DiskQueue
from reput.connect.cut.disk_queues import DiskQueues
from reput.connect.cut.snapshot import Snapshot
from reput.connect.options.selection import NumberRange, Selection
from reput.errors import DamagedStoreError
from reput.formats.index.index_database import entry_keys
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import CHECK_NONE
from reput.formats.queue.consume_queue import QueueRange
from reput.formats.stored_text import shown_text, stored_bytes
from reput.index.kinds import IndexQuestion, IndexSizes, OpenIndex
from reput.log.read.reader import CLOCK_SLACK_MS
from reput.log.read.scan import LogWalk, checking
from reput.queue.by_time import Boundary, offset_by_time
from reput.store.disk.queue_types import kind_without_batches

_FIRST_RECORDS = 1000
"""Records in which the first one with keys is searched, at most."""
MOST_QUEUES = 1 << 16
"""Queues that a plan looks at one by one, at most."""


class QueueCut(NamedTuple):
    """A range of a queue that a task reads, and the kind of the queue. `has_batches`: an entry may lead to a batch."""

    range: QueueRange
    kind: str
    has_batches: bool

    @property
    def size(self) -> int:
        """The number of queue offsets."""
        return self.range.end - self.range.first

    @property
    def topic(self) -> str:
        """The topic as a frame shows it."""
        return shown_text(self.range.key.topic)

    @property
    def queue_id(self) -> int:
        """The queue's id."""
        return self.range.key.queue_id


@dataclass
class QueueCuts:
    """Ranges that may be wanted, and the topics that have a queue on disk.

    `too_many`: there are more queues than a plan looks at, and it stopped there. `damage`: a text about a wanted queue
    that is not whole, "" for none; it stopped there as well.
    """

    cuts: list[QueueCut] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    too_many: bool = False
    damage: str = ""

    @property
    def entries(self) -> int:
        """The number of queue offsets."""
        return sum(cut.size for cut in self.cuts)


def other_queues(snapshot: Snapshot) -> str | None:
    """Return a kind of queue that the queue plan does not read, with its place; None if it reads all."""
    alone = kind_without_batches(snapshot.settings.types, snapshot.kinds)
    if alone:
        return f"{snapshot.layout.consume_queue}: topics of batches beside {alone} queues"
    return None


def missing_topics(selection: Selection, topics: set[str]) -> list[str]:
    """Return topics that are asked for by name and have no queue on disk: their index may be missing."""
    names = selection.named_topics
    return sorted(names - topics) if names is not None else []


def meets_batches(snapshot: Snapshot, selection: Selection) -> bool:
    """Return True if messages inside batches may be wanted."""
    names, types = selection.named_topics, snapshot.settings.types
    return bool(types.batch) if names is None else any(stored_bytes(name) in types.batch for name in names)


def wanted_topics(snapshot: Snapshot, queues: DiskQueues, selection: Selection, most: int) -> list[str] | None:
    """Return the names of the topics that are wanted; None if there are more than `most`.

    Known topics without queues on disk are among them: the queues of one topic may be lost.
    """
    if selection.named_topics is not None:
        names = set(selection.named_topics)
        return sorted(names) if len(names) <= most else None
    configured = (shown_text(name) for name in snapshot.store.topics.names)
    names = {name for name in configured if selection.topics.may_want(name)}
    for queue in _wanted(queues, selection):
        if len(names) > most:
            break
        names.add(topic_text(queue))
    return sorted(names) if len(names) <= most else None


def queue_cuts(snapshot: Snapshot, queues: DiskQueues, selection: Selection) -> QueueCuts:
    """Return the entries that may be wanted, queue by queue."""
    found = QueueCuts()
    for number, queue in enumerate(_wanted(queues, selection)):
        if number == MOST_QUEUES:
            found.too_many = True
            break
        found.damage = _damage(snapshot, queue)
        if found.damage:
            break
        found.topics.add(topic_text(queue))
        span = _span(queue, selection)
        if not span.is_empty:
            found.cuts.append(QueueCut(QueueRange(queue.key, span.begin, span.end), queue.kind, queue.has_batches))
    return found


def _damage(snapshot: Snapshot, queue: DiskQueue) -> str:
    """Return a text if a queue lacks entries of records below the frontier; "" else."""
    found = queue.damage(snapshot.settings.queue_file_size)
    tail = snapshot.tails.get(queue.key)
    if not found and tail is not None and tail.min_offset > queue.end:
        found = (
            f"topic {topic_text(queue)}, queue {queue.key.queue_id}: its entries end at queue offset {queue.end}, and "
            f"the log goes on with {tail.min_offset}. Run `reput rebuild --only queue`"
        )
    return found


def topic_text(queue: DiskQueue) -> str:
    """Return the topic as a frame shows it."""
    return shown_text(queue.key.topic)


def _wanted(queues: DiskQueues, selection: Selection) -> Iterator[DiskQueue]:
    names = selection.named_topics
    topics = None if names is None else [stored_bytes(name) for name in sorted(names)]
    for queue in queues.all() if topics is None else queues.of(topics):
        topic, queue_id = topic_text(queue), queue.key.queue_id
        if selection.wants(topic, queue_id) or selection.wants_light(topic, queue_id):
            yield queue


def _span(queue: DiskQueue, selection: Selection) -> NumberRange:
    """Return the queue offsets that may be wanted."""
    of = (topic_text(queue), queue.key.queue_id)
    wanted = selection.entries_of(of).cut(queue.begin, queue.end)
    times = selection.times_of(of)
    begin, end = wanted.begin, wanted.end
    if begin < end and times.begin > CLOCK_SLACK_MS:
        begin = offset_by_time(queue.store_time, begin, end, times.begin - CLOCK_SLACK_MS, Boundary.LOWER)
    if begin < end and times.end < INT64_MAX - CLOCK_SLACK_MS:
        end = offset_by_time(queue.store_time, begin, end, times.end + CLOCK_SLACK_MS, Boundary.LOWER)
    return NumberRange(begin, end)


class KeyPlaces(NamedTuple):
    """The log offsets of the records that may have a searched key, in order; or why no index names them."""

    places: list[int]
    why_not: str = ""


def key_places(snapshot: Snapshot, selection: Selection, topics: list[str]) -> KeyPlaces:
    """Find the records below the frontier that may have one of the searched keys, by the index that answers queries."""
    settings, kind = snapshot.settings, snapshot.store.index_read
    if not settings.index_enabled or not kind.is_present:
        return KeyPlaces([], "the store has no index")
    if kind.damage:
        return KeyPlaces([], kind.damage)
    if selection.key_hints and not kind.has_every_message:
        # Spark applies its filter to what the plan gives: no message may be left out.
        return KeyPlaces([], f"{kind.words} has no message without a unique key, and a filter needs all")
    index = kind.open(IndexSizes(settings.index_slots, settings.index_items))
    try:
        if why := index.lacks() or _begins_late(snapshot, index):
            return KeyPlaces([], why)
        found: set[int] = set()
        for topic in topics:
            for key in selection.searched_keys:
                found.update(index.find(IndexQuestion(stored_bytes(topic), stored_bytes(key), snapshot.frontiers.both)))
    except DamagedStoreError as error:
        return KeyPlaces([], str(error))
    finally:
        index.close()
    position = selection.position
    return KeyPlaces(
        sorted(place for place in found if place >= snapshot.begin and position.begin <= place < position.end)
    )


def _begins_late(snapshot: Snapshot, index: OpenIndex) -> str:
    """Describe an index that was turned on after the log's begin; "" for one that has the first keys of the log."""
    walk = LogWalk(snapshot.log, snapshot.begin, checking(CHECK_NONE))
    records = (found.decode() for found in islice(walk, _FIRST_RECORDS) if found.offset < snapshot.frontiers.both)
    first = next((record for record in records if entry_keys(record)), None)
    if first is None or index.has(first):
        return ""
    return (
        f"{index.words} lacks the keys of the message at log offset {first.physical_offset}, so it was turned on later"
    )
