"""Topics, queues and offsets that a reader asks for, compared with the store: no typing error reads as an empty frame.

The store has a topic if one of these has it:

1. its queues on disk,
2. the broker's topics (with as many queues as they are configured for),
3. the log after the queues' frontier.

A batch's snapshot has walked the log there anyway, so the answer needs no pass of its own. A stream's start does not
walk it: only if the first two do not have a topic, and the part is not too long, the stream walks it once.

A topic whose queues were lost while others are there, and that the broker does not have, counts as unknown: the error
names the rebuild, and `failOnMissingTopic=false` reads its messages from the log.

An offset outside its queue is an error, too, so that no message that is gone is passed over in silence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from reput.connect.cut.disk_queues import DiskQueues
from reput.connect.cut.queue_cuts import MOST_QUEUES
from reput.connect.cut.snapshot import Snapshot, open_snapshot, walk_log
from reput.connect.options.edges import EARLIEST, LATEST, Edge, Kind, QueueId
from reput.connect.options.options import ReadOptions, Strategy
from reput.errors import ConfigError, DataLossError
from reput.formats import paths
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.formats.stored_text import shown_text, stored_bytes
from reput.formats.topics.lite_topics import is_light
from reput.nearest import near_it, quoted, some
from reput.store.owner.deletion import how_to_bring_back, named, still_deleted

OPTION = "failOnMissingTopic"
_SHOWN = 6
_SAID = 3
_QUEUES_NAMED = 1 << 10
_NO_QUEUE = OffsetRange(0, 0), -1
_LOST = "If queues were lost, `reput rebuild --only queue` brings them back"
_WALK_BYTES = 2 << 30
"""Bytes of log that the start of a stream walks at most to look for a topic: a few seconds."""

_log = logging.getLogger("reput.connect")


class NamedQueue(NamedTuple):
    """A name that was given, and the option that gave it: a topic, or a queue of it (`queue_id` None: all of it)."""

    by: str
    topic: str
    queue_id: int | None = None


def refuse_asked(options: ReadOptions, snapshot: Snapshot, queues: DiskQueues) -> None:
    """Compare the names and offsets that a batch's options give with the store.

    A pattern that matches no topic is a warning.

    Raises:
        ConfigError: a topic or a queue is unknown, and `failOnMissingTopic` is not false.
        DataLossError: see `refuse_gone`.
    """
    strict = options.fail_on_missing_topic
    missing = "" if strict is False else missing_names(snapshot, asked_names(options))
    if missing:
        raise ConfigError(f"{missing}. {_remedy(snapshot, asked_names(options))}")
    unmatched = "" if strict is False else unmatched_pattern(snapshot, options.topics.pattern)
    if unmatched and strict:
        raise ConfigError(unmatched)
    if unmatched:
        snapshot.notes.append(unmatched)
        _log.warning("%s. The frame is empty", unmatched)
    refuse_gone(options, snapshot, queues)


def refuse_gone(options: ReadOptions, snapshot: Snapshot, queues: DiskQueues) -> None:
    """Compare the offsets and times that options give for queues with what the queues have.

    With failOnDataLoss=false nothing is refused. A queue that is not there counts as an empty one: a stream may be
    given a queue that comes later. With failOnMissingTopic=false such a queue is not checked.

    Raises:
        DataLossError: an offset lies outside its queue, or, with the strategy error, a queue has no message from its
            starting time on.
    """
    if not options.fail_on_data_loss:
        return
    for edge in (options.starting, options.ending):
        for queue, value in edge.queues.items():
            found = _whole_queue(snapshot, queues, queue)
            if found is not None or options.fail_on_missing_topic is not False:
                _refuse_outside(edge, queue, value, *(found or _NO_QUEUE), options.strategy)


def refuse_unknown_to_stream(options: ReadOptions) -> None:
    """Compare the names that a stream's options give with the store; an unknown topic may come later: a warning.

    Raises:
        ConfigError: a topic or a queue is unknown, and `failOnMissingTopic` is true.
        ReputError: see `reput.errors`.
    """
    strict, asked = options.fail_on_missing_topic, asked_names(options)
    if strict is False or (not asked and options.topics.pattern is None):
        return
    tolerant = not options.fail_on_data_loss
    snapshot = open_snapshot(options.path, options.config, tolerant=tolerant)
    found = missing_names(snapshot, asked) or unmatched_pattern(snapshot, options.topics.pattern)
    unindexed = snapshot.log.end_offset - snapshot.frontiers.queue_offset
    is_walked = bool(strict) or unindexed <= _WALK_BYTES
    if found and is_walked:
        walk_log(snapshot, tolerant=tolerant)
        found = missing_names(snapshot, asked) or unmatched_pattern(snapshot, options.topics.pattern)
    if found and strict:
        raise ConfigError(f"{found}. {_remedy(snapshot, asked)}")
    if found:
        unsure = "" if is_walked else f". {unindexed} bytes of the log are not indexed yet, and may have messages of it"
        _log.warning("%s%s. The stream reads its messages when they come", found, unsure)


def asked_names(options: ReadOptions) -> list[NamedQueue]:
    """Return every topic and queue that the options name."""
    topics, by = options.topics, f"option {options.topics.option}"
    asked = [NamedQueue(by, topic) for topic in sorted(topics.names or ())]
    for topic, ids in (topics.assigned or {}).items():
        asked += [NamedQueue(by, topic, queue_id) for queue_id in sorted(ids)]
    for edge in (options.starting, options.ending):
        asked += [NamedQueue(f"option {edge.option}", *queue) for queue in edge.queues]
    return asked


def missing_names(snapshot: Snapshot, asked: Sequence[NamedQueue]) -> str:
    """Return a text about the names that are unknown; "" if all are known."""
    store = _Store(snapshot)
    found = list(dict.fromkeys(text for one in asked if (text := store.missing(one))))
    more = f". {len(found) - _SAID} more are unknown" if len(found) > _SAID else ""
    return ". ".join(found[:_SAID]) + more


def how_to_bring_back_missing(snapshot: Snapshot, asked: Sequence[NamedQueue]) -> str:
    """Return the command that brings back the missing names: queues that were deleted, or else lost ones.

    Raises:
        DamagedStoreError: the file of the deleted queues is damaged.
    """
    store = _Store(snapshot)
    missing = [one for one in asked if store.missing(one)]
    deleted = [
        one
        for one in still_deleted(snapshot.layout, snapshot.log.min_offset)
        if any(
            name.topic == shown_text(one.key.topic) and name.queue_id in {None, one.key.queue_id} for name in missing
        )
    ]
    if not deleted:
        return _LOST
    return f"Deleted with reput, the messages are still in the log: {named(deleted)}; {how_to_bring_back(deleted)}"


def _remedy(snapshot: Snapshot, asked: Sequence[NamedQueue]) -> str:
    return f"{OPTION}=false reads without it. {how_to_bring_back_missing(snapshot, asked)}"


def unmatched_pattern(snapshot: Snapshot, pattern: str | None) -> str:
    """Return a text about a pattern that matches no topic; "" if it matches one."""
    return "" if pattern is None else _Store(snapshot).unmatched(pattern)


class _QueuesAsked(NamedTuple):
    """Queues of a topic: the ids of those with entries or messages, and the number that the configuration gives it."""

    ids: frozenset[int]
    configured: int

    def __contains__(self, queue_id: object) -> bool:
        return queue_id in self.ids or (isinstance(queue_id, int) and 0 <= queue_id < self.configured)

    def __str__(self) -> str:
        # The count comes from a file: it may be any number.
        first = {*sorted(self.ids)[:_QUEUES_NAMED], *range(min(self.configured, _QUEUES_NAMED))}
        return some([str(queue_id) for queue_id in sorted(first)], _SHOWN)


class _Store:
    """The topics and queues of a store."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.root = snapshot.layout.root
        self._asked: dict[str, _QueuesAsked | None] = {}

    def missing(self, asked: NamedQueue) -> str:
        """Return a text about a name that is unknown; "" for a known one."""
        topic = asked.topic
        if topic not in self._asked:
            self._asked[topic] = self._queues(topic)
        queues = self._asked[topic]
        if queues is None:
            return f"{asked.by}: no topic {quoted(topic)} in {self.root}. {self._others(topic)}"
        if asked.queue_id is not None and asked.queue_id not in queues:
            return f"{asked.by}: no queue {asked.queue_id} of topic {quoted(topic)} in {self.root}. There are: {queues}"
        return ""

    def unmatched(self, pattern: str) -> str:
        """Return a text about a pattern that matches no topic; "" if it matches one."""
        names: set[str] = set()
        for name in islice(self._names(), MOST_QUEUES):
            # Light queues are read only if they are named.
            if re.fullmatch(pattern, name) and not is_light(name):
                return ""
            names.add(name)
        if len(names) == MOST_QUEUES:
            return ""
        return f"option subscribePattern={pattern}: matches no topic in {self.root}. There are: {_first(names)}"

    def _queues(self, topic: str) -> _QueuesAsked | None:
        """Return the queues of a topic; None if it is unknown."""
        key = stored_bytes(topic)
        ids = set(self._in_tail.get(key, ()))
        for kind in self.snapshot.store.kinds_read if paths.is_topic_folder_name(key) else ():
            with closing(kind.queues(key)) as queues:
                ids.update(queue.key.queue_id for queue in queues)
        if not ids and key not in self._configured:
            return None
        return _QueuesAsked(frozenset(ids), self._configured.get(key, 0))

    @cached_property
    def _configured(self) -> Mapping[bytes, int]:
        return self.snapshot.store.topics.queue_counts

    @cached_property
    def _in_tail(self) -> Mapping[bytes, set[int]]:
        found: dict[bytes, set[int]] = {}
        for key in self.snapshot.tails:
            found.setdefault(key.topic, set()).add(key.queue_id)
        return found

    def _names(self) -> Iterator[str]:
        """Yield the topics' names, some of them several times."""
        yield from (shown_text(name) for name in self._configured)
        yield from (shown_text(name) for name in self._in_tail)
        for kind in self.snapshot.store.kinds_read:
            with closing(kind.queues()) as queues:
                yield from (shown_text(queue.key.topic) for queue in queues)

    def _others(self, topic: str) -> str:
        names = set(islice(self._names(), MOST_QUEUES))
        close = near_it(topic, sorted(names))
        return f"{close}. There are: {_first(names)}" if close else f"There are: {_first(names)}"


def _first(names: set[str]) -> str:
    return some(sorted(names), _SHOWN)


def _whole_queue(snapshot: Snapshot, queues: DiskQueues, queue: QueueId) -> tuple[OffsetRange, int] | None:
    """Return a queue's offsets, on disk and after the frontier, and the store time of its last message (ms).

    The time is -1 without a message. None if there is no such queue.
    """
    key = QueueKey(stored_bytes(queue[0]), queue[1])
    tail, found = snapshot.tails.get(key), queues.one(key)
    if tail is None:
        if found is None:
            return None
        stored_ms = queues.maps.store_time(found.last_offset) if found.last_offset >= 0 else -1
        return OffsetRange(found.begin, found.end), stored_ms
    if found is not None:
        begin = found.begin if found.end > found.begin else tail.min_offset
        tail = OffsetRange(begin, max(found.end, tail.max_offset))
    return tail, snapshot.stored_ms[key]


def _refuse_outside(
    edge: Edge, queue: QueueId, value: int, there: OffsetRange, stored_ms: int, strategy: Strategy
) -> None:
    where = f"{edge.option}: {queue[0]}, queue {queue[1]}"
    if edge.kind is Kind.TIMESTAMPS:
        if strategy is Strategy.ERROR and edge.option.startswith("starting") and stored_ms < value:
            raise DataLossError(
                f"{where}: no message was stored at {value} or later. Give an earlier time, or "
                "startingOffsetsByTimestampStrategy=latest"
            )
    elif value not in (EARLIEST, LATEST) and not there.min_offset <= value <= there.max_offset:
        raise DataLossError(
            f"{where}: offset {value} lies outside the queue, {there.min_offset} to {there.max_offset}. Give offsets "
            "within it, or failOnDataLoss=false to read what is there"
        )
