"""Leases: messages that a pop has given to a group, until an ack, or until their invisible time is over.

The log has the truth, in RocketMQ's own form: a pop puts a checkpoint, and an ack puts an ack, into the topic
rmq_sys_REVIVE_LOG_*, by way of the timer topic. So every ack outlives a kill, a broker of RocketMQ goes on with the
leases of this one, and this one with those of RocketMQ. The leases in memory are what checkpoints without acks say.

A lease whose time is over is revived: each message without an ack is put to the group's retry topic, with one try more,
and an ack after it ends the lease in the log, too. A kill between the two gives the message twice. A message whose
properties leave no room for those that another pop adds becomes a dead letter.

A pop moves the committed offset, which is written every few seconds. So a start goes over the checkpoints of the timer
topic that came after the last write, and moves offsets as their pops did: what was acked is not given again. The offset
of group CID_RMQ_SYS_REVIVE_GROUP in the timer topic says which checkpoints the written offsets have seen.

Times in memory are those of the monotonic clock: a clock that is set neither ends a lease nor makes it longer.

Differences from RocketMQ: an ack, or a change of the time, of a message without a lease is refused; RocketMQ takes it,
and does nothing.

Source: `PopMessageProcessor.appendCheckPoint`, `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`,
`PopReviveService`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.delivery import copy_of, deliver, properties_size
from reput.broker.services.due import AGAIN_S, LONGEST_WAIT_S, DueLoop, NextLook, rest_of_wait
from reput.broker.services.timers import DEFAULT_MAX_DELAY_S
from reput.broker.state.stored_topics import is_of_batches
from reput.broker.wire.refusals import RefusedError, refuse, refuse_as_busy
from reput.errors import DamagedStoreError, TailFullError
from reput.files.names import is_database
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.property_names import (
    CRC32,
    FIRST_POP_TIME,
    ORIGIN_GROUP,
    REAL_TOPIC,
    TIMER_DELIVER_MS,
)
from reput.formats.pending import pop_database
from reput.formats.pending.pop_state import (
    CHECKPOINT_TAG,
    PopAck,
    PopCheckpoint,
    PopKey,
    StateMessage,
    decode_pop_checkpoint,
    encode_pop_ack,
    encode_pop_checkpoint,
)
from reput.formats.topics.pop_topics import normal_topic, retry_topic
from reput.formats.topics.system_topics import DEAD_LETTER_PREFIX, REVIVE_GROUP, REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.receipt_handle import POP_CK
from reput.log.encode.message import Message
from reput.store.read.queue_walk import pulls_of
from reput.store.read.results import GetStatus
from reput.times import now_ms

if TYPE_CHECKING:
    import asyncio

    from reput.broker.services.transactions import StoredPlace
    from reput.broker.state.state import BrokerState
    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutResult
    from reput.store.read.message import StoredMessage

log = logging.getLogger("reput.broker")
MAX_LEASED: Final = 1_000_000
"""The most messages that wait for acks; a pop above it is refused. RocketMQ has no bound."""
_RENEWED: Final = "REPUT_RENEWED"
"""The property of the checkpoint of a lease that a change of the time has begun: no pop has moved an offset for it."""
_REFUSED_S: Final = 60.0
"""The wait before a lease that is over is revived again, if its group can have no retry topic now."""
_AT_ONCE = 32
_LOOK_S = 1.0
_SECOND_MS = 1000


class Granted(NamedTuple):
    """Messages that a group is about to get: the offset at which their pop began, and their own."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


@dataclass(slots=True, eq=False)
class Lease:
    """A checkpoint that is not done. `left` has the offsets without an ack; times in ms, but for `deadline_s`."""

    key: PopKey
    invisible_time: int
    broker_name: str
    revive_topic: str
    revive_queue: int
    left: set[int]
    deadline_s: float
    is_suspended: bool = False

    @property
    def visible_time(self) -> int:
        """The time (ms) at which the messages come again."""
        return self.key.pop_time + self.invisible_time


class Leases:
    """The leases of a broker. All methods but `note_offsets` run in the loop's thread.

    Args:
        state: the broker's state.
        loop: its loop.
        place: returns a message and its queue as they are stored.
    """

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop, place: StoredPlace) -> None:
        self._state = state
        self._loop = loop
        self._place = place
        self._due = DueLoop(state, loop, self._step, "messages whose leases are over do not come again now")
        self._max_invisible_ms = (state.store.config.timer_max_delay_sec or DEFAULT_MAX_DELAY_S) * 1000
        # What a pop of a retry topic needs for the handle: the broker's name and seven numbers.
        self._most_properties = MAX_PROPERTIES_SIZE - len(f"{POP_CK}  {state.name}".encode()) - 7 * 20
        self._leases: dict[PopKey, Lease] = {}
        self._leased = 0
        self._heap: list[tuple[float, int, Lease]] = []
        self._numbers = itertools.count()
        self._revive_topic = state.identity.revive_topic
        self._revive_topics: list[str] = []
        # The next message of each queue of the revive topics that may not be done.
        self._positions: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        """Return the number of messages that wait for acks."""
        return self._leased

    # --- begin and end -------------------------------------------------------------------------

    def start(self) -> None:
        """Take over the leases that the store has, and begin to look after them."""
        store = self._state.store
        pending = store.pending
        self._revive_topics = [one for one in self._state.topics.names() if one.startswith(REVIVE_TOPIC_PREFIX)]
        found = pending.checkpoints(self._revive_topics)
        for damage in pending.damage:
            log.error("cannot read what pop consumers hold: %s", damage)
        self._catch_up_offsets()
        at_ms = now_ms()
        for one in found.all():
            checkpoint = one.checkpoint
            if one.held:
                wait_ms = rest_of_wait(checkpoint.key.pop_time, checkpoint.visible_time, at_ms)
                lease = Lease(
                    checkpoint.key,
                    checkpoint.invisible_time,
                    checkpoint.broker_name,
                    one.topic,
                    one.queue_id,
                    set(one.held),
                    self._loop.time() + wait_ms / 1000,
                    checkpoint.is_suspended,
                )
                self._add(lease)
        folder = store.layout.root / pop_database.FOLDER
        if is_database(folder) and any(row.source == pop_database.FOLDER for row in store.pending.pop()):
            log.warning(
                "messages that pop consumers hold are in %s (popConsumerKVServiceEnable): only RocketMQ's broker with "
                "that setting gives them again; `reput pending pop` shows them",
                folder,
            )
        self._due.look()

    def stop(self) -> None:
        """Look no more."""
        self._due.stop()
        self.note_offsets()

    def _catch_up_offsets(self) -> None:
        """Move committed offsets as the pops did whose checkpoints came after offsets were written last."""
        store, name = self._state.store, self._state.name
        seen = max(store.query_offset(REVIVE_GROUP, TIMER_TOPIC, 0), store.min_offset(TIMER_TOPIC, 0))
        for _, found in pulls_of(partial(store.get_message, TIMER_TOPIC, 0), seen):
            for message in found:
                checkpoint = self._checkpoint_of(message)
                if checkpoint is None or checkpoint.broker_name != name or not checkpoint.all_offsets:
                    continue
                key = checkpoint.key
                queue = key.group, key.topic, key.queue_id
                end = max(checkpoint.all_offsets) + 1
                is_known = store.query_offset(*queue) < end <= store.max_offset(key.topic, key.queue_id)
                # A later message has the number if the topic was deleted, and made again.
                if is_known and store.store_time(key.topic, key.queue_id, end - 1) <= key.pop_time:
                    store.commit_offset(*queue, end)

    def _checkpoint_of(self, message: StoredMessage) -> PopCheckpoint | None:
        """Return the checkpoint of a pop that a message of the timer topic is; None for another message."""
        try:
            properties = message.properties
        except DamagedStoreError:
            return None
        is_checkpoint = properties.get(REAL_TOPIC, "").startswith(REVIVE_TOPIC_PREFIX)
        if not is_checkpoint or message.tags != CHECKPOINT_TAG or _RENEWED in properties:
            return None
        return decode_pop_checkpoint(message.body)

    def note_offsets(self) -> None:
        """Note that the committed offsets have seen all checkpoints that there are."""
        store = self._state.store
        end = store.max_offset(TIMER_TOPIC, 0)
        if end > 0 and end != store.query_offset(REVIVE_GROUP, TIMER_TOPIC, 0):
            store.commit_offset(REVIVE_GROUP, TIMER_TOPIC, 0, end)

    def forget_topic(self, topic: str) -> None:
        """End all leases of a topic: it is deleted. What the store does not take of that, a start finds again."""
        for lease in [one for one in self._leases.values() if one.key.topic == topic]:
            left = list(lease.left)
            self._end(lease, left)
            self._put_ack(lease, left)

    # --- leases --------------------------------------------------------------------------------

    def check_invisible(self, invisible_ms: int, least_ms: int = 1) -> None:
        """Refuse an invisible time that no lease can have.

        Raises:
            RefusedError: it is too short or too long.
        """
        if not least_ms <= invisible_ms <= self._max_invisible_ms - _SECOND_MS:
            words = (
                f"invisibleTime[{invisible_ms}] is illegal: give {least_ms} to {self._max_invisible_ms - _SECOND_MS}"
            )
            refuse(ResponseCode.INVALID_PARAMETER, f"{words} ms")

    def refuse_more(self, count: int) -> None:
        """Refuse a pop if too many messages wait for acks.

        Raises:
            RefusedError: too many wait.
        """
        if self._leased + count > MAX_LEASED:
            refuse_as_busy()

    def grant(
        self,
        granted: Granted,
        pop_time: int,
        invisible_ms: int,
        revive_queue: int,
        *,
        is_suspended: bool = False,
        is_renewed: bool = False,
    ) -> Lease | None:
        """Begin a lease; return None if the store does not take its checkpoint now, or there is a lease of that key.

        `is_renewed`: its messages were given before.

        Raises:
            ReputError: the store is closed.
        """
        topic, group, queue_id, start, offsets = granted
        key = PopKey(topic, group, queue_id, start, pop_time)
        if key in self._leases or not self._state.takes_messages():
            return None
        distances = tuple(offset - start for offset in offsets)
        name = self._state.name
        checkpoint = PopCheckpoint(key, invisible_ms, len(distances), distances, 0, 0, name, is_suspended)
        due_ms = checkpoint.visible_time - _SECOND_MS
        further = {_RENEWED: "true"} if is_renewed else {}
        future = self._put(encode_pop_checkpoint(checkpoint), self._revive_topic, revive_queue, due_ms, further)
        if future.done() and not future.result().status.is_stored:
            log.error("a checkpoint of pop is not stored now: %s", future.result().reason)
            return None
        deadline_s = self._loop.time() + invisible_ms / 1000
        lease = Lease(key, invisible_ms, name, self._revive_topic, revive_queue, set(offsets), deadline_s, is_suspended)
        self._add(lease)
        return lease

    def find(self, key: PopKey, broker_name: str) -> Lease | None:
        """Return a lease; None if there is none, or it is over."""
        lease = self._leases.get(key)
        if lease is None or lease.broker_name != broker_name or lease.deadline_s <= self._loop.time():
            return None
        return lease

    def ack(self, lease: Lease, offsets: Collection[int]) -> PutFuture[PutResult]:
        """End the lease of messages that wait for an ack; the future is done when that is durable as messages are.

        Raises:
            RefusedError: the store does not take the ack now.
            ReputError: the store is closed.
        """
        self._state.refuse_full_tail()
        future = self._put_ack(lease, offsets)
        if future.done() and not (result := future.result()).status.is_stored:
            refuse(ResponseCode.SERVICE_NOT_AVAILABLE, f"the ack is not stored: {result.status.value}: {result.reason}")
        self._end(lease, offsets)
        return future

    def change(
        self, lease: Lease, offset: int, invisible_ms: int, *, is_suspended: bool = False
    ) -> tuple[Lease, PutFuture[PutResult]]:
        """Give a message of a lease a lease of its own, for a time from now on; return it, and the old one's ack.

        Raises:
            RefusedError: the store does not take it now.
            ReputError: the store is closed.
        """
        self._state.refuse_full_tail()
        topic, group, queue_id, _, pop_time = lease.key
        granted = Granted(topic, group, queue_id, offset, [offset])
        # Never the old key, whose ack would end the new lease.
        at_ms = max(now_ms(), pop_time + 1)
        while lease.key._replace(start_offset=offset, pop_time=at_ms) in self._leases:
            at_ms += 1
        again = self.grant(granted, at_ms, invisible_ms, lease.revive_queue, is_suspended=is_suspended, is_renewed=True)
        if again is None:
            refuse(ResponseCode.SERVICE_NOT_AVAILABLE, "the new checkpoint is not stored")
        try:
            return again, self.ack(lease, [offset])
        except RefusedError:
            # The old lease goes on. A start finds both, and then the message comes twice.
            self._end(again, [offset])
            raise

    def _put(
        self, made: StateMessage, topic: str, queue_id: int, due_ms: int, further: Mapping[str, str] | None = None
    ) -> PutFuture[PutResult]:
        # By way of the timer topic in any case: there an ack comes after its checkpoint, and a start finds both.
        due_ms = max(due_ms, now_ms() + _SECOND_MS + 1)
        properties = {TIMER_DELIVER_MS: str(due_ms), **(further or {})}
        message = Message(topic, made.body, tags=made.tag, unique_key=made.unique_key, properties=properties)
        return self._state.store.put_message_async(*self._place(message, queue_id))

    def _put_ack(self, lease: Lease, offsets: Collection[int]) -> PutFuture[PutResult]:
        made = encode_pop_ack(PopAck(lease.key, tuple(sorted(offsets)), lease.broker_name))
        # Later than its checkpoint by a slot of the timer wheel.
        due_ms = max(lease.visible_time, now_ms() + 2 * _SECOND_MS + 1)
        return self._put(made, lease.revive_topic, lease.revive_queue, due_ms)

    def _add(self, lease: Lease) -> None:
        self._leases[lease.key] = lease
        self._leased += len(lease.left)
        heapq.heappush(self._heap, (lease.deadline_s, next(self._numbers), lease))
        if self._heap[0][2] is lease:
            self._loop.call_soon(self._due.look)

    def _end(self, lease: Lease, offsets: Collection[int]) -> None:
        ended = lease.left.intersection(offsets)
        lease.left -= ended
        self._leased -= len(ended)
        if not lease.left:
            self._leases.pop(lease.key, None)
            if len(self._heap) > 2 * len(self._leases) + 1000:
                self._heap = [entry for entry in self._heap if entry[2].left]
                heapq.heapify(self._heap)

    # --- what is due ---------------------------------------------------------------------------

    def _step(self) -> NextLook:
        """Revive what is due, a few messages at a time, and note what is done."""
        for _ in range(_AT_ONCE):
            while self._heap and not self._heap[0][2].left:
                heapq.heappop(self._heap)
            if not self._heap or self._heap[0][0] > self._loop.time():
                break
            lease = self._heap[0][2]
            try:
                if not self._revive(lease):
                    return NextLook(AGAIN_S)
            except RefusedError as refusal:
                log.error("messages of a pop do not come again now: %s: %s", lease.key, refusal.remark)  # noqa: TRY400 - the text says it all
                # Others are over, too.
                heapq.heapreplace(self._heap, (self._loop.time() + _REFUSED_S, next(self._numbers), lease))
        self.note_offsets()
        has_more = self._pass_done()
        wait_s = _LOOK_S if has_more or self._leases else LONGEST_WAIT_S
        if self._heap:
            wait_s = min(wait_s, max(self._heap[0][0] - self._loop.time(), 0.0))
        return NextLook(wait_s)

    def _revive(self, lease: Lease) -> bool:
        """Put the messages of a lease that is over to the retry topic; return False if the store takes none now.

        Raises:
            RefusedError: there can be no such topic.
        """
        topic, group = lease.key.topic, lease.key.group
        if self._state.topics.is_deleting(normal_topic(topic, group)):
            # If the deletion fails, they come again.
            return False
        revived: list[int] = []
        if self._state.topics.find(normal_topic(topic, group)) is None or self._state.groups.find(group) is None:
            log.info("messages of a pop are dropped: there is no topic or group any more: %s", lease.key)
            revived = list(lease.left)
        try:
            for offset in sorted(lease.left.difference(revived)):
                if not self._give_again(lease, offset):
                    return False
                revived.append(offset)
        finally:
            if revived:
                # First in memory: they have come again, also if the store does not take the ack.
                self._end(lease, revived)
                self._put_ack(lease, revived)
        return True

    def _give_again(self, lease: Lease, offset: int) -> bool:
        """Put a message to the retry topic; return False if the store does not take it now.

        Raises:
            RefusedError: there can be no such topic.
        """
        topic, group, queue_id, _, pop_time = lease.key
        found = self._state.store.get_message(topic, queue_id, offset, 1)
        # A pull passes over an entry without a record, and gives the next message.
        is_there = found.next_offset == offset + 1 or is_of_batches(self._state.store, topic)
        if found.status is not GetStatus.FOUND or not is_there:
            log.warning("a message of a pop is gone: %s/%d has none at %d: %s", topic, queue_id, offset, found.status)
            return True
        message = found[0]
        target = topic if normal_topic(topic, group) != topic else retry_topic(topic, group)
        try:
            # The checksum belongs to a record, not to its message.
            properties = {name: value for name, value in message.properties.items() if name != CRC32}
            further = {ORIGIN_GROUP: group}
            if message.record.reconsume_times == 0 or FIRST_POP_TIME not in properties:
                further[FIRST_POP_TIME] = str(pop_time)
            is_dead = properties_size({**properties, **further}) > self._most_properties
            if is_dead:
                target, further = f"{DEAD_LETTER_PREFIX}{group}", {}
            copy = copy_of(message, target)
            self._state.topics.make_own(target, 1)
        except DamagedStoreError as error:
            log.error("a message of a pop is left out: %s", error)  # noqa: TRY400 - the text says it all
            return True
        tries = message.record.reconsume_times + (not lease.is_suspended)
        again = replace(copy, properties=properties, reconsume_times=tries, born_host=None)
        stored: Callable[[], object] = partial(self._became_dead_letter, lease, message) if is_dead else lambda: None
        try:
            return deliver(self._state.store, message, again, 0, stored, further) is None
        except TailFullError:
            # The next look asks for indexes. The messages before this one have come again.
            return False

    def _became_dead_letter(self, lease: Lease, message: StoredMessage) -> None:
        words = "a message of a pop becomes a dead letter: its properties leave no room for those of another pop: %r"
        log.error(words, message)
        self._state.statistics.became_dead_letter(lease.key.group, lease.key.topic)

    def _pass_done(self) -> bool:
        """Move the offsets of the broker's own group past what is done; return True if something is left.

        A checkpoint is done when it has no lease any more. An ack is done: it comes after its checkpoint.
        """
        store, has_more = self._state.store, False
        for topic, queue_id in self._revive_places():
            place = topic, queue_id
            position = self._positions.get(place)
            if position is None:
                position = max(store.query_offset(REVIVE_GROUP, topic, queue_id) + 1, store.min_offset(topic, queue_id))
            begin = position
            if position < store.max_offset(topic, queue_id):
                found = store.get_message(topic, queue_id, position, _AT_ONCE)
                for message in found:
                    checkpoint = None
                    # A start names a damaged one.
                    with contextlib.suppress(DamagedStoreError):
                        if message.tags == CHECKPOINT_TAG:
                            checkpoint = decode_pop_checkpoint(message.body)
                    if checkpoint is not None and checkpoint.key in self._leases:
                        break
                    position = message.queue_offset + 1
                else:
                    position = found.next_offset
                has_more = has_more or position < store.max_offset(topic, queue_id)
            self._positions[place] = position
            if position != begin:
                store.commit_offset(REVIVE_GROUP, topic, queue_id, position - 1)
        return has_more

    def _revive_places(self) -> list[tuple[str, int]]:
        queues = self._state.topics.queues
        return [(topic, queue_id) for topic in self._revive_topics for queue_id in range(queues(topic))]
