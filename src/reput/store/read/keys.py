"""Messages by key: IndexFiles or the index database below the frontier, the tail's items above it, and the records.

A record is compared with the key: an IndexFile knows hashes alone, and in the database keys may begin alike.

Source: `DefaultMessageStore.queryMessage`, `IndexService.queryOffset`, `IndexRocksDBStore.queryOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reput.formats import index_database
from reput.formats.hashing import index_key_hash
from reput.formats.index_file import TAG_KEY_PREFIX
from reput.formats.layout import INT64_MAX
from reput.kernels import lookup_kernels
from reput.kernels.layouts.lookup import ASK, BUFFER_FULL, NEEDS_FILE
from reput.store.read.lookup import TopicLookup
from reput.store.read.message import StoredMessage
from reput.store.read.results import AnswerBuffer, QueryResult
from reput.store.read.view import StoreView, bytes_of

_MOST_RETRIES = 256
_ITEM_STEP_MS = 1000
"""The precision of the time in an index item."""


class KeyQuestion(NamedTuple):
    """A question by key: see `Reading.query_message`."""

    topic: str
    key: str
    max_messages: int
    begin_ms: int
    end_ms: int | None
    before: int | None
    by_tag: bool
    exact: bool


def find(view: StoreView, asked: KeyQuestion) -> QueryResult:
    """Return the answer to a question by key; prepare the next one, so that the kernel alone can answer it."""
    name = view.key_of(asked.topic, 0).topic
    wanted = bytes_of("key", asked.key)
    end_ms = INT64_MAX if asked.end_ms is None else asked.end_ms
    view.catch_up()
    with view.follower.lock:
        if not view.follower.items and view.index_database is None:
            view.lookups.add_topic(asked.topic, name, view.known)
    found: list[StoredMessage] = []
    seen: set[int] = set()
    # An item's time is that of its record or up to a second less.
    least_ms = asked.begin_ms - _ITEM_STEP_MS + 1 if asked.exact else asked.begin_ms
    search = _Search(view, asked, name, wanted, least_ms, end_ms)
    for offset in search.newest_first() if asked.exact or view.index_database is None else search.as_rocketmq():
        if (asked.before is not None and offset >= asked.before) or (asked.exact and offset in seen):
            continue
        message = view.message_at(offset)
        if message is None or (asked.exact and not _has_key(message, name, asked.key, asked.by_tag)):
            continue
        if asked.exact and not asked.begin_ms <= message.store_timestamp <= end_ms:
            continue
        if len(found) >= asked.max_messages:
            return QueryResult.of(found, more=True)
        seen.add(offset)
        found.append(message)
    return QueryResult.of(found, more=False)


def find_with_maps(view: StoreView, topic: TopicLookup, name: bytes, most: int, buffer: AnswerBuffer) -> int:
    """Return the answer of the kernel `find_key` once the log's files that it needs are mapped; ASK if many are."""
    found = NEEDS_FILE
    for _ in range(_MOST_RETRIES):
        found = lookup_kernels().find_key(topic.address, name, most, buffer.address)
        if found > NEEDS_FILE or found == BUFFER_FULL:
            return found
        with view.follower.lock:
            view.lookups.map_log(found, topic.index.log)
    return ASK


class _Search(NamedTuple):
    """A search for the log offsets of records that may have a key, by times [begin_ms, end_ms]."""

    view: StoreView
    asked: KeyQuestion
    topic: bytes
    key: bytes
    begin_ms: int
    end_ms: int

    def newest_first(self) -> Iterator[int]:
        """Yield the offsets, newest first: of the tail, then of the index."""
        yield from self._in_tail()
        view, below = self.view, self.view.frontiers.index_offset
        if view.index_database is not None:
            rows = view.index_database.find(self._prefixes(), self.begin_ms, self.end_ms, below)
        else:
            rows = view.index.find(self._hash(), self.begin_ms, self.end_ms, below, self.asked.exact)
        yield from (offset for offset, _ in rows)

    def as_rocketmq(self) -> Iterator[int]:
        """Yield the offsets that RocketMQ finds in the database: it takes the first entries, not the last."""
        view = self.view
        assert view.index_database is not None
        below, most = view.frontiers.index_offset, self.asked.max_messages
        found = view.index_database.first(self._prefixes(), self.begin_ms, self.end_ms, below, most + 1)
        yield from sorted(found[:most])
        # One more shows that there are more.
        yield from found[most:] or reversed([*self._in_tail()])

    def _in_tail(self) -> Iterator[int]:
        with self.view.follower.lock:
            pieces, frontier = list(self.view.follower.items), self.view.frontiers.index_offset
        key_hash = self._hash()
        for piece in reversed(pieces):
            for offset, time in piece.find(key_hash):
                if offset >= frontier and self.begin_ms <= time <= self.end_ms:
                    yield offset

    def _hash(self) -> int:
        return index_key_hash(self.topic + b"#" + (TAG_KEY_PREFIX if self.asked.by_tag else b"") + self.key)

    def _prefixes(self) -> list[bytes]:
        kinds = [index_database.TAG] if self.asked.by_tag else [index_database.KEY, index_database.UNIQUE]
        return [index_database.prefix(self.topic, kind, self.key) for kind in kinds]


def _has_key(message: StoredMessage, topic: bytes, key: str, by_tag: bool) -> bool:
    if message.record.topic != topic:
        return False
    if by_tag:
        return message.tags == key
    return key in message.keys or key == message.unique_key
