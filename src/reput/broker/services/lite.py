"""Lite consumers: each client of a group names the lite topics that it reads, and changes them while it runs.

A pop of such a client reads the light queues of its lite topics, each in order: a light queue gives nothing more to a
group until all that it has given are acked (`order_blocks`). Of thousands of lite topics few have messages at a time.
So each client has a list of those that may have some; a lite topic gets there when a message comes, when its messages
are acked or their time is over, and when the client subscribes to it.

Clients of a group share a lite topic. In an exclusive group the last one that subscribes takes it over: the one before
gets a notice, and no more of it even if the notice is lost.

Subscriptions are in memory: clients send all of theirs every 30 s.

Differences from RocketMQ: a client reads its lite topics in turn, and all clients of a lite topic are tried, not one by
chance.

Source: `LiteSubscriptionRegistryImpl`, `LiteEventDispatcher`, `PopLiteMessageProcessor`, `ExclusiveEvictionTombstones`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.services.polls import PollKey
from reput.broker.services.pops import ANY_QUEUE, PopAsk, Popped
from reput.broker.state.committed import refuse_further_offsets
from reput.formats.stored_text import stored_bytes, stored_text
from reput.formats.topics.lite_topics import decode_lite_topic, light_queue_of
from reput.formats.wire.codes import RequestCode
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.services.order_blocks import OrderBlocks
    from reput.broker.services.polls import Polls
    from reput.broker.services.pops import Pops
    from reput.broker.state.state import BrokerState
    from reput.broker.wire.channel import Channel
    from reput.formats.topics.lite_groups import LiteGroup
    from reput.store.read.arrivals import Waiter

MAX_SUBSCRIPTIONS: Final = 100_000
"""The most lite topics of all clients together (maxLiteSubscriptionCount)."""
Seeks = Callable[[int, int], int | None]
"""Returns where a group begins in a lite topic, of its offset (-1 without one) and of the end; None to go on there."""


@dataclass(slots=True, eq=False)
class LiteSubscriber:
    """A client of a group, and the light queues that it reads.

    `ready`: those that may have messages, the first one first. `taken_over`: those that another client has got since.
    """

    client_id: str
    group: str
    topic: str
    channel: Channel
    queues: set[str] = field(default_factory=set)
    ready: dict[str, None] = field(default_factory=dict)
    taken_over: set[str] = field(default_factory=set)

    @property
    def line(self) -> PollKey:
        """The line of its requests that wait."""
        return lite_line(self.client_id, self.group, self.topic)


def lite_line(client_id: str, group: str, topic: str) -> PollKey:
    """Return the line of a lite client's requests that wait."""
    return PollKey(group, topic, ANY_QUEUE, takes=True, is_orderly=True, lite_client=client_id)


def light_queue(topic: str, lite_topic: str) -> str:
    """Return the name of the light queue of a lite topic."""
    return stored_text(light_queue_of(stored_bytes(topic), stored_bytes(lite_topic)))


class LiteConsumers:
    """The lite consumers of a broker. All methods run in the loop's thread.

    Args:
        state: the broker's state.
        pops: its pops.
        polls: its requests that wait.
        order_blocks: the messages that its orderly consumers hold.
    """

    def __init__(self, state: BrokerState, pops: Pops, polls: Polls, order_blocks: OrderBlocks) -> None:
        self._state = state
        self._pops = pops
        self._polls = polls
        self._order_blocks = order_blocks
        self._clients: dict[str, LiteSubscriber] = {}
        self._by_queue: dict[str, dict[LiteSubscriber, None]] = {}
        self._waiters: dict[str, Waiter] = {}
        self._subscriptions = 0

    def __len__(self) -> int:
        """Return the number of lite topics of all clients together."""
        return self._subscriptions

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(
        self,
        channel: Channel,
        client_id: str,
        group: str,
        rules: LiteGroup,
        names: Collection[str],
        seeks: Seeks | None,
    ) -> None:
        """Add lite topics to those that a client reads; in an exclusive group it takes them over.

        Args:
            channel: the client.
            client_id: its id.
            group: its group.
            rules: the rules of its group.
            names: the lite topics.
            seeks: returns where the group begins in each; None to go on where it is.

        Raises:
            RefusedError: there would be too many committed offsets.
        """
        own = self._subscriber(channel, client_id, group, rules.topic)
        for queue in (light_queue(rules.topic, name) for name in names):
            if rules.is_exclusive:
                self._take_over(own, queue, rules)
            if seeks is not None:
                self._seek(group, queue, seeks)
            self._add(own, queue)

    def replace(self, channel: Channel, client_id: str, group: str, rules: LiteGroup, names: Collection[str]) -> None:
        """Set the lite topics that a client reads. It gets a notice again of those that another one has taken over."""
        own = self._subscriber(channel, client_id, group, rules.topic)
        queues = {light_queue(rules.topic, name) for name in names}
        own.taken_over &= queues
        for queue in own.queues - queues:
            self._remove(own, queue)
        for queue in queues - own.queues - own.taken_over:
            self._add(own, queue)
        for queue in own.taken_over:
            self._notify(own, queue)

    def unsubscribe(self, client_id: str, rules: LiteGroup, names: Iterable[str]) -> None:
        """Take lite topics from those that a client reads."""
        own = self._clients.get(client_id)
        if own is None:
            return
        for queue in (light_queue(rules.topic, name) for name in names):
            if self._remove(own, queue) and rules.resets_when_left:
                self._seek(own.group, queue, _to_begin)

    def forget_client(self, client_id: str) -> None:
        """Take all lite topics from a client: it is gone."""
        own = self._clients.pop(client_id, None)
        for queue in list(own.queues) if own is not None else ():
            assert own is not None
            self._remove(own, queue)

    def forget_channel(self, channel: Channel) -> None:
        """Take all lite topics from the client of a channel: it is gone."""
        for client_id in [one.client_id for one in self._clients.values() if one.channel is channel]:
            self.forget_client(client_id)

    def _subscriber(self, channel: Channel, client_id: str, group: str, topic: str) -> LiteSubscriber:
        own = self._clients.get(client_id)
        if own is not None and (own.group, own.topic) != (group, topic):
            self.forget_client(client_id)
            own = None
        if own is None:
            own = self._clients[client_id] = LiteSubscriber(client_id, group, topic, channel)
        own.channel = channel
        return own

    def _take_over(self, own: LiteSubscriber, queue: str, rules: LiteGroup) -> None:
        own.taken_over.discard(queue)
        for other in [one for one in self._by_queue.get(queue, ()) if one.group == own.group and one is not own]:
            self._remove(other, queue)
            other.taken_over.add(queue)
            self._notify(other, queue)
            if rules.resets_when_taken_over:
                self._seek(own.group, queue, _to_begin)

    def _notify(self, subscriber: LiteSubscriber, queue: str) -> None:
        """Let a client know that it reads a lite topic no more."""
        lite = decode_lite_topic(stored_bytes(queue))
        assert lite is not None
        fields = {"clientId": subscriber.client_id, "consumerGroup": subscriber.group}
        fields["liteTopic"] = stored_text(lite.name)
        self._state.client_calls.notify(subscriber.channel, RequestCode.NOTIFY_UNSUBSCRIBE_LITE, fields)

    def _seek(self, group: str, queue: str, seeks: Seeks) -> None:
        """Send a group to another offset of a light queue; what it holds of it is over."""
        store = self._state.store
        before = store.query_offset(group, queue, 0)
        offset = seeks(before, store.max_offset(queue, 0))
        if offset is not None and offset != before:
            refuse_further_offsets(store.progress, group, queue, [0])
            store.commit_offset(group, queue, 0, offset)
            self._order_blocks.clear(queue, group, 0)
            self.freed(queue, group)

    def _add(self, own: LiteSubscriber, queue: str) -> None:
        if queue not in own.queues:
            own.queues.add(queue)
            self._subscriptions += 1
            readers = self._by_queue.setdefault(queue, {})
            readers[own] = None
            if queue not in self._waiters:
                self._watch(queue)
        self._may_have(own, queue)

    def _remove(self, own: LiteSubscriber, queue: str) -> bool:
        """Take a light queue from a client; return False if it does not read it."""
        if queue not in own.queues:
            return False
        own.queues.remove(queue)
        own.ready.pop(queue, None)
        self._subscriptions -= 1
        readers = self._by_queue[queue]
        del readers[own]
        if not readers:
            del self._by_queue[queue]
            self._state.store.stop_waiting(self._waiters.pop(queue))
        return True

    # --- messages that come --------------------------------------------------------------------

    def _watch(self, queue: str) -> None:
        store = self._state.store
        if queue in self._waiters:
            store.stop_waiting(self._waiters[queue])
        arrived = partial(self._state.soon, self._arrived, queue)
        self._waiters[queue] = store.on_arrival(queue, 0, store.max_offset(queue, 0), arrived)

    def _arrived(self, queue: str) -> None:
        if queue not in self._waiters:
            return
        # Before the pops: what comes after them calls again.
        self._watch(queue)
        for one in self._by_queue[queue]:
            self._may_have(one, queue)

    def freed(self, queue: str, group: str) -> None:
        """Let the clients of a group read a light queue again: what it has given is acked, or its time is over."""
        for one in self._by_queue.get(queue, ()):
            if one.group == group:
                self._may_have(one, queue)

    def _may_have(self, own: LiteSubscriber, queue: str) -> None:
        own.ready[queue] = None
        self._polls.wake_line(own.line)

    # --- pop -----------------------------------------------------------------------------------

    def pop(self, ask: PopAsk) -> Popped:
        """Give a client messages of its lite topics, as `Pops.pop`.

        Raises:
            RefusedError, ReputError: see `Pops.pop`.
        """
        own = self._clients.get(ask.lite_client)
        if own is None or (own.group, own.topic) != (ask.group, ask.topic) or not own.ready:
            return Popped(ask, now_ms(), 0, self._state.name)
        popped = self._pops.pop(ask, [(queue, 0) for queue in own.ready])
        if not popped.is_unfinished:
            # Those that were read have nothing now, or what they have given waits for acks.
            own.ready = dict.fromkeys(queue for queue, _ in popped.unread)
        return popped


def _to_begin(before: int, end: int) -> int:  # noqa: ARG001 - as all `Seeks`
    return 0
