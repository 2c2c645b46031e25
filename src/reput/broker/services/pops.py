"""Pops: messages of a topic for a group, each for one consumer at a time.

A pop reads the queues of a topic from the group's committed offset on, and moves that offset; what it gives is leased
(`leases`). One pop in five begins with the group's retry topics, the others end with them. An orderly pop gives no
messages of a queue that has some in flight, and moves the offset when they are acked (`order_blocks`).

    popped = pops.pop(PopAsk("group", "orders", ANY_QUEUE, 32, 60_000))
    for one in popped.messages(): ...
    pops.ack("group", one.queue_topic, one.handle)

Handlers of remoting frames, and other protocols, call these; nothing here knows frames.

Source: `PopMessageProcessor`, `PopConsumerService`, `PeekMessageProcessor`, `NotificationProcessor`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.leases import Granted
from reput.broker.state.committed import refuse_further_offsets
from reput.broker.state.consumers import MAX_STEPS
from reput.broker.state.stored_topics import is_of_batches
from reput.broker.wire.refusals import refuse
from reput.formats.pending.pop_state import PopKey
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.permissions import READ
from reput.formats.topics.pop_topics import TopicKind, kind_of_topic, retry_topics
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.receipt_handle import ORDERLY_QUEUE, PoppedQueue, ReceiptHandle
from reput.store.read.own_messages import own_messages
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES
from reput.store.read.results import GetStatus
from reput.store.read.sql_filter import SqlFilter
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.services.leases import Lease, Leases
    from reput.broker.services.order_blocks import OrderBlocks
    from reput.broker.state.state import BrokerState
    from reput.embedded import MessageStore
    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutResult
    from reput.store.read.message import StoredMessage
    from reput.store.read.results import GetResult
    from reput.store.read.tag_filter import TagFilter

ANY_QUEUE: Final = -1
"""In place of a queue: all queues of the topic."""
NO_LEASE: Final = "the handle is of no message that the group holds: its lease is over, or it was never given"
MAX_ATTEMPT_ID: Final = 1024
"""The most characters of the id of an attempt, which is kept with what an orderly pop has given. Clients send 36."""
_RETRY_FIRST_EACH: Final = 5
_REVIVE_QUEUES: Final = 8
"""The queues of a revive topic (reviveQueueNum), over which checkpoints are spread."""
_LOOKS: Final = 8
"""The reads of a queue in which nothing passes the filter, before clients are served again."""
_GO_ON: Final = frozenset(
    {
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_TOO_SMALL,
    }
)
"""The statuses after which a group goes on at the next offset of the answer."""


class PopAsk(NamedTuple):
    """The question of a pop. `queue_id`: a queue, or ANY_QUEUE; `wanted`: None for all messages.

    `begins_last`: a group that is new begins with the last message of a queue whose first one is gone. `attempt_id`: an
    orderly pop that names the attempt of the pop before gets its messages again. `lite_client`: the id of a client that
    reads lite topics of the topic, each in order; empty for others.
    """

    group: str
    topic: str
    queue_id: int
    max_messages: int
    invisible_ms: int
    wanted: TagFilter | SqlFilter | None = None
    begins_last: bool = False
    is_orderly: bool = False
    attempt_id: str | None = None
    lite_client: str = ""


class PoppedMessage(NamedTuple):
    """A message that a pop has given: its handle, the topic of its queue, and how often it was given in order before.

    A message of a retry topic has that topic; one of a lite topic has the topic of the light queue.
    """

    message: StoredMessage
    handle: ReceiptHandle
    queue_topic: str
    given_before: int


class GivenOfQueue(NamedTuple):
    """The messages of one queue that a pop has given."""

    topic: str
    queue: PoppedQueue
    found: GetResult


@dataclass(slots=True)
class Popped:
    """The answer to a pop; empty if there is nothing now. `rest`: the messages that its queues still have.

    `steps`: those of its SQL92 filter, for each message. `unread`: the queues that it has not looked at.

    `is_unfinished`: the filter has let nothing pass yet, and there is more to read: ask again.
    """

    ask: PopAsk
    pop_time: int
    revive_queue: int
    broker_name: str
    given: list[GivenOfQueue] = field(default_factory=list)
    count: int = 0
    size: int = 0
    rest: int = 0
    steps: int = 0
    unread: Sequence[tuple[str, int]] = ()
    is_unfinished: bool = False

    def messages(self) -> Iterator[PoppedMessage]:
        """Yield the messages."""
        for one in self.given:
            for message, offset in zip(one.found, one.queue.offsets, strict=True):
                yield PoppedMessage(message, self.handle(one.queue, offset), one.topic, one.queue.counts.get(offset, 0))

    def handle(self, queue: PoppedQueue, offset: int) -> ReceiptHandle:
        """Return the handle of a message."""
        return ReceiptHandle(
            queue.start_offset,
            self.pop_time,
            self.ask.invisible_ms,
            self.revive_queue,
            queue.kind,
            self.broker_name,
            queue.queue_id,
            offset,
        )


class Pops:
    """The pops of a broker. All methods run in the loop's thread.

    Args:
        state: the broker's state.
        leases: its leases.
        order_blocks: the messages that its orderly consumers hold.
    """

    def __init__(self, state: BrokerState, leases: Leases, order_blocks: OrderBlocks) -> None:
        self._state = state
        self._leases = leases
        self._order_blocks = order_blocks
        self._pops = 0

    # --- pop -----------------------------------------------------------------------------------

    def admit(self, group: str, topic: str) -> None:
        """Refuse a group or a topic that may not be read; a group that is new is made.

        Raises:
            RefusedError: there is no such topic, or no permission.
        """
        if not self._state.topics.get(topic).get("perm", 0) & READ:
            refuse(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
        if not self._state.groups.find_or_create(group).get("consumeEnable", True):
            refuse(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")

    def pop(self, ask: PopAsk, queues: Sequence[tuple[str, int]] | None = None) -> Popped:
        """Give messages to a group, for an invisible time.

        Args:
            ask: the question.
            queues: the queues to read, in their order; None for those of the topic, and of the group's retry topics.

        Raises:
            RefusedError: there is no such topic, queue or invisible time, too many messages wait for acks, or the
                store takes no checkpoint without durable indexes.
            ReputError: the store is closed.
        """
        if len(ask.attempt_id or "") > MAX_ATTEMPT_ID:
            words = f"an attemptId of {len(ask.attempt_id or '')} characters: the most is {MAX_ATTEMPT_ID}"
            refuse(ResponseCode.INVALID_PARAMETER, words)
        if not ask.is_orderly:
            self._state.refuse_full_tail()
        self._leases.check_invisible(ask.invisible_ms)
        self._leases.refuse_more(ask.max_messages)
        revive_queue = ORDERLY_QUEUE if ask.is_orderly else self._pops % _REVIVE_QUEUES
        popped = Popped(ask, now_ms(), revive_queue, self._state.name)
        queues = self._queues(ask) if queues is None else queues
        self._pops += 1
        ids: dict[str, list[int]] = {}
        for topic, queue_id in queues:
            ids.setdefault(topic, []).append(queue_id)
        for topic, queue_ids in ids.items():
            refuse_further_offsets(self._state.store.progress, ask.group, topic, queue_ids)
        most = min(max(ask.max_messages, 1), BROKER_PULL_MESSAGES)
        for at, (topic, queue_id) in enumerate(queues):
            if popped.count >= most or popped.size >= BROKER_PULL_BYTES or popped.steps >= MAX_STEPS:
                popped.is_unfinished |= not popped.count
                popped.unread = queues[at:]
                # Lite topics may be thousands, and their clients do not ask for the rest.
                popped.rest += 0 if ask.lite_client else sum(self._pending(ask, *one) for one in queues[at:])
                break
            self._pop_queue(popped, topic, queue_id, most)
        return popped

    def _queues(self, ask: PopAsk) -> list[tuple[str, int]]:
        """Return the queues that a pop reads, in their order.

        Chance decides which is first: with a count of pops a group that takes turns with others has the same each time.
        """
        normal = self.queues_of(ask.topic, ask.queue_id)
        at = random.randrange(len(normal))
        normal = normal[at:] + normal[:at]
        if ask.is_orderly:
            return normal
        retry = self.retry_queues(ask.group, ask.topic)
        return retry + normal if random.randrange(_RETRY_FIRST_EACH) == 0 else normal + retry

    def queues_of(self, topic: str, queue_id: int) -> list[tuple[str, int]]:
        """Return a queue of a topic, or all; refuse a topic or a queue that there is not."""
        self._state.topics.get(topic)
        count = self._state.topics.queues(topic)
        if queue_id >= count or queue_id < ANY_QUEUE or not count:
            words = f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{count}]"
            refuse(ResponseCode.INVALID_PARAMETER, words)
        return [(topic, one) for one in (range(count) if queue_id == ANY_QUEUE else (queue_id,))]

    def retry_queues(self, group: str, topic: str) -> list[tuple[str, int]]:
        """Return the queues of the retry topics of a group and a topic that there are."""
        names = retry_topics(topic, group)
        return [(name, queue_id) for name in names for queue_id in range(self._state.topics.queues(name))]

    def _pop_queue(self, popped: Popped, topic: str, queue_id: int, most: int) -> None:
        ask, store = popped.ask, self._state.store
        offset = self._offset(ask, topic, queue_id, takes_reset=True)
        if self._order_blocks.is_blocked(topic, ask.group, queue_id, ask.attempt_id):
            return
        for _ in range(_LOOKS):
            room, size = most - popped.count, BROKER_PULL_BYTES - popped.size
            found = own_messages(store, topic, queue_id, offset, room, ask.wanted, size)
            if isinstance(ask.wanted, SqlFilter):
                popped.steps += ask.wanted.steps * max(0, found.next_offset - offset)
            if found.status is GetStatus.FOUND:
                if self._give(popped, topic, queue_id, offset, found):
                    popped.rest += found.max_offset - found.next_offset
                return
            if found.status not in _GO_ON or found.next_offset == offset:
                return
            offset = found.next_offset
            store.commit_offset(ask.group, topic, queue_id, offset)
            if offset >= found.max_offset:
                return
            if popped.steps >= MAX_STEPS:
                break
        popped.is_unfinished = True

    def _give(self, popped: Popped, topic: str, queue_id: int, offset: int, found: GetResult) -> bool:
        """Lease the messages that were found in a queue, and move the group's offset; return False if it cannot be."""
        ask, store = popped.ask, self._state.store
        offsets = _queue_offsets(store, (topic, queue_id, offset), found)
        if len(offsets) != len(found):
            # Log files have expired in between.
            return False
        counts: dict[int, int] = {}
        if ask.is_orderly:
            counts = self._order_blocks.give(
                topic, ask.group, queue_id, popped.pop_time, ask.invisible_ms, offsets, ask.attempt_id
            )
            store.commit_offset(ask.group, topic, queue_id, offset)
        else:
            granted = Granted(topic, ask.group, queue_id, offset, offsets)
            if self._leases.grant(granted, popped.pop_time, ask.invisible_ms, popped.revive_queue) is None:
                return False
            store.commit_offset(ask.group, topic, queue_id, found.next_offset)
        size = found.total_bytes
        popped.given.append(
            GivenOfQueue(topic, PoppedQueue(kind_of_topic(topic), queue_id, offset, offsets, counts), found)
        )
        popped.count += len(offsets)
        popped.size += size
        self._state.statistics.gave(topic, ask.group, len(offsets), size)
        return True

    def _offset(self, ask: PopAsk, topic: str, queue_id: int, *, takes_reset: bool = False) -> int:
        """Return where a group goes on in a queue; a new group's begin is committed (`PopMessageProcessor`)."""
        store, group = self._state.store, ask.group
        if takes_reset:
            offset = store.take_reset(group, topic, queue_id)
            if offset is not None:
                self._order_blocks.clear(topic, group, queue_id)
                return offset
        offset = store.query_offset(group, topic, queue_id)
        if offset >= 0:
            return offset
        least, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        # As in RocketMQ a young queue is read from its beginning; RocketMQ asks besides if that message is in memory.
        begins_last = ask.begins_last and kind_of_topic(topic) is TopicKind.NORMAL and not least <= 0 < end
        offset = max(end - 1, 0) if begins_last else max(least, 0)
        if takes_reset:
            store.commit_offset(group, topic, queue_id, offset)
        return offset

    def _pending(self, ask: PopAsk, topic: str, queue_id: int) -> int:
        offset = self._offset(ask, topic, queue_id)
        return max(self._state.store.max_offset(topic, queue_id) - offset, 0)

    # --- peek and notify -----------------------------------------------------------------------

    def peek(self, ask: PopAsk) -> list[GetResult]:
        """Return messages that a pop would give now, without a lease. Filters do not count, as in RocketMQ.

        Raises:
            RefusedError: there is no such topic or queue.
        """
        found: list[GetResult] = []
        most, size = min(max(ask.max_messages, 1), BROKER_PULL_MESSAGES), BROKER_PULL_BYTES
        for topic, queue_id in self._queues(ask):
            if most <= 0 or size <= 0:
                break
            offset = self._offset(ask, topic, queue_id)
            result = own_messages(self._state.store, topic, queue_id, offset, most, None, size)
            if result.status is not GetStatus.FOUND and result.status in _GO_ON:
                result = own_messages(self._state.store, topic, queue_id, result.next_offset, most, None, size)
            if result.status is GetStatus.FOUND:
                found.append(result)
                most -= len(result)
                size -= result.total_bytes
        return found

    def pending(self, ask: PopAsk) -> int:
        """Return the number of messages that a pop may give now, before its filter; blocked queues have none.

        Raises:
            RefusedError: there is no such topic or queue.
        """
        blocks = self._order_blocks
        return sum(
            self._pending(ask, topic, queue_id)
            for topic, queue_id in self._queues(ask)
            if not blocks.is_blocked(topic, ask.group, queue_id, ask.attempt_id)
        )

    # --- ack and change ------------------------------------------------------------------------

    def _lease_of(self, group: str, topic: str, handle: ReceiptHandle) -> Lease | None:
        """Return the lease of the message of a handle; None if it waits for no ack."""
        lease = self._leases.find(_key(group, topic, handle), handle.broker_name)
        return lease if lease is not None and handle.queue_offset in lease.left else None

    def holds(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        """Return True if a group holds the message of a handle.

        Args:
            group: the group that has got it.
            topic: the topic of the handle's queue: for a message of a retry topic, that one.
            handle: its handle.
        """
        if handle.is_orderly:
            return self._order_blocks.holds(topic, group, handle.queue_id, handle.queue_offset, handle.pop_time)
        return self._lease_of(group, topic, handle) is not None

    def ack(self, group: str, topic: str, handle: ReceiptHandle) -> PutFuture[PutResult] | None:
        """Take the ack of a message; the future is done when it is durable as messages are; None for no such wait.

        Args:
            group: the group that has got it.
            topic: the topic of the handle's queue: for a message of a retry topic, that one.
            handle: its handle.

        Raises:
            RefusedError: the group holds no such message, or the store does not take the ack now.
            ReputError: the store is closed.
        """
        if handle.is_orderly:
            return self._order_blocks.ack(topic, group, handle.queue_id, handle.queue_offset, handle.pop_time)
        lease = self._lease_of(group, topic, handle)
        if lease is None:
            refuse(ResponseCode.NO_MESSAGE, NO_LEASE)
        return self._leases.ack(lease, [handle.queue_offset])

    def ack_all(
        self, group: str, topic: str, first: ReceiptHandle, offsets: Iterable[int]
    ) -> PutFuture[PutResult] | None:
        """Take the acks of messages of one queue and pop; None if the group holds none of them.

        Args:
            group: the group that has got them.
            topic: the topic of the handle's queue.
            first: the handle of one of them.
            offsets: their queue offsets.

        Raises:
            RefusedError: the store does not take the acks now.
            ReputError: the store is closed.
        """
        lease = self._leases.find(_key(group, topic, first), first.broker_name)
        held = set() if lease is None else lease.left.intersection(offsets)
        return None if lease is None or not held else self._leases.ack(lease, held)

    def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int, *, is_suspended: bool = False
    ) -> tuple[ReceiptHandle, PutFuture[PutResult] | None]:
        """Let a message come again a time from now on; return its new handle.

        Args:
            group: the group that has got it.
            topic: the topic of the handle's queue: for a message of a retry topic, that one.
            handle: its handle, which is over then.
            invisible_ms: the time.
            is_suspended: the try does not count. It counts for messages in order, but those of a lite topic.

        Raises:
            RefusedError: the group holds no such message, or there is no such time, or the store does not take it now.
            ReputError: the store is closed.
        """
        self._leases.check_invisible(invisible_ms, 0)
        if handle.is_orderly:
            place = topic, group, handle.queue_id, handle.queue_offset, handle.pop_time
            suspends = is_suspended and is_light(topic)
            at_ms = (self._order_blocks.suspend if suspends else self._order_blocks.change)(*place, invisible_ms)
            return handle._replace(invisible_time=at_ms - handle.pop_time), None
        lease = self._lease_of(group, topic, handle)
        if lease is None:
            refuse(ResponseCode.NO_MESSAGE, NO_LEASE)
        again, future = self._leases.change(lease, handle.queue_offset, invisible_ms, is_suspended=is_suspended)
        key = again.key
        renewed = handle._replace(start_offset=key.start_offset, pop_time=key.pop_time, invisible_time=invisible_ms)
        return renewed, future


def _key(group: str, topic: str, handle: ReceiptHandle) -> PopKey:
    return PopKey(topic, group, handle.queue_id, handle.start_offset, handle.pop_time)


def _queue_offsets(store: MessageStore, place: tuple[str, int, int], found: GetResult) -> list[int]:
    """Return the queue offsets of the messages of a pull from a place; fewer if some are gone meanwhile.

    A record is not asked: it may be damaged, and in a further queue its message has another number.
    """
    topic, queue_id, offset = place
    if found.next_offset - offset == len(found):
        return list(range(offset, found.next_offset))
    if is_of_batches(store, topic):
        return [message.queue_offset for message in found]
    left, offsets = found.physical_offsets.tolist(), list[int]()
    while len(offsets) < len(left) and offset < found.next_offset:
        some = store.get_message(topic, queue_id, offset, found.next_offset - offset)
        if len(some) != some.next_offset - offset:
            # It passes over entries: of a message that comes alone the number is the last one before the next pull.
            some = store.get_message(topic, queue_id, offset, 1)
        if some.next_offset <= offset:
            break
        offset = some.next_offset
        for number, physical_offset in enumerate(some.physical_offsets.tolist(), offset - len(some)):
            if len(offsets) < len(left) and physical_offset == left[len(offsets)]:
                offsets.append(number)
    return offsets
