"""Transactions without an end: half messages that no commit and no rollback has answered.

A half message is put to queue 0 of RMQ_SYS_TRANS_HALF_TOPIC. Its end puts its queue offset into a message of
RMQ_SYS_TRANS_OP_HALF_TOPIC. The broker asks the producer about a half message that stays open: it puts the message to
the queue again, and goes on after the old one. The offsets of group CID_RMQ_SYS_TRANS
say how far it is in both queues.

Source: `TransactionalMessageServiceImpl.check`, `TransactionalMessageBridge`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reput.formats.java.hashing import java_string_hash
from reput.formats.log import properties as props
from reput.formats.pending.transactions import ends_of, first_offset, is_copy
from reput.formats.topics.system_topics import HALF_TOPIC, OP_TOPIC, TIMER_TOPIC, TRANSACTION_GROUP
from reput.store.pending.half_row import PendingTransaction, half_row
from reput.store.pending.timer_row import PendingTimer
from reput.store.pending.verify import properties_of, verify, verify_queued
from reput.store.progress.progress import ConsumerProgress
from reput.store.read.queue_walk import QueuedMessage, walk_queue
from reput.store.read.view import StoreView

HALF, TIMER = "half topic", "timer"


def topic_halves(view: StoreView, progress: ConsumerProgress) -> Iterator[PendingTransaction]:
    """Yield the half messages without an end, in the order of the half topic.

    Memory holds 8 bytes for each end after the broker's offset, and 16 for each half message there.
    """
    begin = max(0, progress.query(TRANSACTION_GROUP, HALF_TOPIC, 0))
    ended = _ended(view, max(0, progress.query(TRANSACTION_GROUP, OP_TOPIC, 0)))
    superseded = _superseded(view, begin)
    for found in walk_queue(view, HALF_TOPIC, 0, begin):
        if not _has_ended(ended, found) and not _has(superseded, found.queue_offset):
            verified = verify_queued(view, found, HALF_TOPIC)
            yield half_row(verified, found.physical_offset, found.size, HALF)._replace(half_offset=found.queue_offset)


def _ended(view: StoreView, begin: int) -> NDArray[np.int64]:
    """Return the queue offsets of the half messages that have ended, sorted."""
    pieces = [np.empty(0, dtype=np.int64)]
    for found in walk_queue(view, OP_TOPIC, 0, begin):
        verified = verify_queued(view, found, OP_TOPIC)
        if verified.record is not None:
            pieces.append(np.array(ends_of(verified.text(props.TAGS), verified.record.body), dtype=np.int64))
    return np.unique(np.concatenate(pieces))


def _has_ended(ended: NDArray[np.int64], found: QueuedMessage) -> bool:
    """Return True for a half message whose end names its queue offset, or the one at which it was first."""
    first = first_offset(properties_of(found).get(props.PREPARED_QUEUE_OFFSET))
    return _has(ended, found.queue_offset) or (first is not None and _has(ended, first))


def _superseded(view: StoreView, begin: int) -> NDArray[np.int64]:
    """Return the queue offsets of half messages that a broker has put again since the offset was committed, sorted.

    A broker that was killed may have put messages again without having written how far it was.
    """
    if not any(is_copy(properties_of(found)) for found in walk_queue(view, HALF_TOPIC, 0, begin)):
        return np.empty(0, dtype=np.int64)
    halves = ((found.queue_offset, _key_hash(found)) for found in walk_queue(view, HALF_TOPIC, 0, begin))
    rows = np.fromiter(halves, dtype=np.dtype([("offset", "i8"), ("key", "i8")]))
    rows = rows[np.lexsort((rows["offset"], rows["key"]))]
    has_later = np.append(rows["key"][1:] == rows["key"][:-1], False)[: len(rows)]
    return np.sort(rows["offset"][has_later])


def _key_hash(found: QueuedMessage) -> int:
    """Return a hash of the unique key in 64 bits; a message without one has a hash of its own."""
    key = found.message.unique_key
    if key is None:
        return -1 - found.queue_offset
    return (java_string_hash(key) & 0x7FFFFFFF) << 32 | java_string_hash(key[::-1] + "/") & 0xFFFFFFFF


def _has(offsets: NDArray[np.int64], offset: int) -> bool:
    place = int(np.searchsorted(offsets, offset))
    return place < len(offsets) and int(offsets[place]) == offset


def half_of_timer(view: StoreView, timer: PendingTimer) -> PendingTransaction:
    """Return the row of a half message that waits as a timer message.

    Its real topic is unknown: the timer has put the half topic in its place (`HookUtils.transformTimerMessage`).
    """
    verified = verify(view, timer.physical_offset, timer.size, (TIMER_TOPIC,))
    row = half_row(verified, timer.physical_offset, timer.size, TIMER)
    return row._replace(topic=None, queue_id=None, state=timer.state, reason=timer.reason)
