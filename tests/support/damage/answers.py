"""Everything that a reader can ask a store, and what it answers.

Messages, look-ups by time, key and tag, committed offsets, messages that wait for a time, and halves of transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.errors import ReputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from reput.config import StoreConfig
    from reput.formats.log.record import Record

_PULL, _KEYS_ASKED, _TAGS_ASKED = 1000, 12, 6
_COMPRESSED = 1
CRC = "crc"
"""The first word of the question whether a message's body matches its CRC."""
Question = tuple[object, ...]


class Refused(NamedTuple):
    """An error instead of an answer: its class and its text."""

    error: str
    text: str

    @classmethod
    def by(cls, error: ReputError) -> Refused:
        """Return the answer that an error is."""
        return cls(type(error).__name__, str(error))


class Answers(NamedTuple):
    """The answers of a store by question, and its notes; `refused`: it cannot be opened."""

    answers: dict[Question, object]
    notes: tuple[str, ...] = ()
    refused: Refused | None = None


class Words(NamedTuple):
    """The words of questions, from the undamaged store: keys by topic, tags by queue, and times (ms)."""

    keys: tuple[tuple[str, str], ...]
    tags: tuple[tuple[str, int, str], ...]
    times_ms: tuple[int, ...]


def words_of(path: Path, config: StoreConfig | None) -> Words:
    """Return what there is to ask about an undamaged store: some keys and tags, and the first, middle and last time."""
    keys: dict[tuple[str, str], None] = {}
    tags: dict[tuple[str, int, str], None] = {}
    times_ms = []
    with reput.MessageStore.open(path, config, read_only=True) as store:
        for queue in store.queues():
            for message in store.get_message(queue.topic, queue.queue_id, queue.min_offset, _PULL):
                keys.update(dict.fromkeys((queue.topic, key) for key in message.keys))
                if message.tags:
                    tags[queue.topic, queue.queue_id, message.tags] = None
                times_ms.append(message.store_timestamp)
    times_ms.sort()
    some_times = (times_ms[0], times_ms[len(times_ms) // 2], times_ms[-1]) if times_ms else ()
    return Words(_some(keys, _KEYS_ASKED), _some(tags, _TAGS_ASKED), some_times)


def _some(found: Iterable, count: int) -> tuple:  # type: ignore[type-arg]
    whole = tuple(found)
    return whole[:: max(1, len(whole) // count)]


def ask(path: Path, config: StoreConfig | None, words: Words) -> Answers:
    """Ask a store everything. An error of reput is an answer, too; any other is a fault of reput's, and is raised."""
    try:
        store = reput.MessageStore.open(path, config, read_only=True)
    except ReputError as error:
        return Answers({}, refused=Refused.by(error))
    with store:
        asker = _Asker(store)
        asker.ask(words)
        return Answers(asker.found, (*store.notes, *store.damage, *asker.damage))


class _Asker:
    """Asks one open store, and collects its answers."""

    def __init__(self, store: reput.MessageStore) -> None:
        self._store = store
        self.found: dict[Question, object] = {}
        self.damage: list[str] = []
        """Texts on pending work that could not be read."""

    def ask(self, words: Words) -> None:
        """Ask everything."""
        store = self._store
        spans = self._put(("queues",), lambda: [tuple(queue) for queue in store.queues()])
        for topic, queue_id, first, end in spans if isinstance(spans, list) else ():
            self._pull(topic, queue_id, range(first, end))
            for time_ms in words.times_ms:
                self._put(("time", topic, queue_id, time_ms), store.offset_by_time, topic, queue_id, time_ms)
        for topic, key in words.keys:
            self._put(("key", topic, key), self._by_key, topic, key)
        for topic, queue_id, tag in words.tags:
            self._put(("tag", topic, queue_id, tag), self._by_tag, topic, queue_id, tag)
        offsets = self._put(("progress",), lambda: store.progress.snapshot().offset_table)
        if isinstance(offsets, dict):
            self.found["progress",] = sorted(offsets)
            for key, queues in offsets.items():
                self.found.update({("offset", key, queue_id): offset for queue_id, offset in queues.items()})
        pending = store.pending
        self._put(("timers",), lambda: [*pending.timers()])
        self._put(("transactions",), lambda: [*pending.transactions()])
        self.damage = pending.damage

    def _put(self, question: Question, answer: Callable[..., object], *given: object) -> object:
        try:
            self.found[question] = answer(*given)
        except ReputError as error:
            self.found[question] = Refused.by(error)
        return self.found[question]

    def _pull(self, topic: str, queue_id: int, offsets: range) -> None:
        """Pull a queue as a consumer does; each message is an answer of its own."""
        offset = offsets.start
        while offset < offsets.stop:
            try:
                result = self._store.get_message(topic, queue_id, offset, _PULL)
            except ReputError as error:
                self.found["pull", topic, queue_id, offset] = Refused.by(error)
                return
            for number, message in enumerate(result):
                of_message = topic, queue_id, offset, number
                record = self._put(("message", *of_message), getattr, message, "record")
                self._put((CRC, *of_message), getattr, message, "body_matches_crc")
                if not isinstance(record, Refused) and message.sys_flag & _COMPRESSED:
                    self._put(("body", *of_message), getattr, message, "decoded_body")
            if result.next_offset <= offset:
                self.found["pull", topic, queue_id, offset] = str(result.status)
                return
            offset = result.next_offset

    def _by_key(self, topic: str, key: str) -> list[Record]:
        return [one.record for one in self._store.query_message(topic, key, 1000)]

    def _by_tag(self, topic: str, queue_id: int, tag: str) -> list[Record]:
        return [one.record for one in self._store.get_message(topic, queue_id, 0, _PULL, filter=tag)]
