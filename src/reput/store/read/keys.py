"""Messages by key: an index below the frontier, the tail's items above it, and the records.

A record is compared with the key: an IndexFile knows hashes alone, and in the database keys may begin alike.

Source: `DefaultMessageStore.queryMessage`, `IndexService.queryOffset`, `IndexRocksDBStore.queryOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reput.formats.layout import INT64_MAX
from reput.index.kinds import IndexQuestion
from reput.index.search import item_hash
from reput.kernels import lookup_kernels
from reput.kernels.layouts.lookup import ASK, BUFFER_FULL, NEEDS_FILE
from reput.store.read.again import between_swaps
from reput.store.read.lookup import TopicLookup
from reput.store.read.message import StoredMessage
from reput.store.read.results import AnswerBuffer, QueryResult
from reput.store.read.tail_follower import TailItems
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


@between_swaps
def find(view: StoreView, asked: KeyQuestion) -> QueryResult:
    """Return the answer to a question by key; prepare the next one, so that the kernel alone can answer it."""
    name = view.key_of(asked.topic, 0).topic
    wanted = bytes_of("key", asked.key)
    end_ms = INT64_MAX if asked.end_ms is None else asked.end_ms
    view.catch_up()
    with view.follower.lock:
        tail, below = [*view.follower.items], view.frontiers.index_offset
        if not tail:
            view.lookups.add_topic(asked.topic, name, view.known)
    found: list[StoredMessage] = []
    seen: set[int] = set()
    # An item's time is that of its record or up to a second less.
    least_ms = asked.begin_ms - _ITEM_STEP_MS + 1 if asked.exact else asked.begin_ms
    question = IndexQuestion(name, wanted, below, least_ms, end_ms, asked.by_tag, asked.exact, asked.max_messages)
    for offset in view.index.find(question, _in_tail(tail, question)):
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


def _in_tail(pieces: Sequence[TailItems], asked: IndexQuestion) -> Iterator[int]:
    """Yield the log offsets of the tail's items that are not in the index yet, the newest first."""
    key_hash = item_hash(asked.topic, asked.key, asked.by_tag)
    for piece in reversed(pieces):
        for offset, time in piece.find(key_hash):
            if offset >= asked.below and asked.begin_ms <= time <= asked.end_ms:
                yield offset


def _has_key(message: StoredMessage, topic: bytes, key: str, by_tag: bool) -> bool:
    if message.record.topic != topic:
        return False
    if by_tag:
        return message.tags == key
    return key in message.keys or key == message.unique_key
