"""The broker that requests see: its state, and the services that work beside them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from reput.broker.services.delays import DelayLevels
from reput.broker.services.holds import Holds
from reput.broker.services.leases import Leases
from reput.broker.services.lite import LiteConsumers
from reput.broker.services.order_blocks import OrderBlocks
from reput.broker.services.polls import Polls
from reput.broker.services.pops import Pops
from reput.broker.services.syncs import Syncs
from reput.broker.services.timers import Timers
from reput.broker.services.transactions import Transactions
from reput.broker.state.state import BrokerState
from reput.files.names import is_database
from reput.formats import paths
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.pop_topics import retry_topic

if TYPE_CHECKING:
    from reput.broker.services.polls import PollKey
    from reput.broker.services.pops import PopAsk, Popped
    from reput.broker.wire.channel import Channel
    from reput.embedded import MessageStore
    from reput.formats.log.record import Host
    from reput.log.encode.message import Message

log = logging.getLogger("reput.broker")


class Broker(BrokerState):
    """A broker on an open store: its state, with delay levels, timers, transactions, held pulls, and pops.

    Args:
        store: the store, open to write.
        host: the address and port of message ids, as in the store's records.
        loop: the loop that serves connections.
    """

    def __init__(self, store: MessageStore, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(store, host, loop)
        self.holds = Holds(self, loop)
        self.syncs = Syncs(self, loop)
        self.delays = DelayLevels(self, loop)
        self.timers = Timers(self, loop, _timers_in_database(store))
        self.transactions = Transactions(self, loop, self.place)
        self.leases = Leases(self, loop, self.place)
        self.polls = Polls(self, loop, self._queues_of_poll)
        self._notes = ThreadPoolExecutor(1, "reput-broker-progress")
        in_thread = partial(loop.run_in_executor, self._notes)
        self.order_blocks = OrderBlocks(self, loop, self._freed, in_thread)
        self.pops = Pops(self, self.leases, self.order_blocks)
        self.lite = LiteConsumers(self, self.pops, self.polls, self.order_blocks)

    def place(self, message: Message, queue_id: int) -> tuple[Message, int]:
        """Return a message and its queue as they are stored: one that is due later waits in another topic."""
        return self.delays.place(*self.timers.place(message, queue_id))

    def pop(self, ask: PopAsk) -> Popped:
        """Give messages to a group, as `Pops.pop`; if there is more to read, those that wait try again soon.

        Raises:
            RefusedError, ReputError: see `Pops.pop`.
        """
        popped = self.lite.pop(ask) if ask.lite_client else self.pops.pop(ask)
        if popped.is_unfinished:
            # Clients are served before.
            self.soon(self.polls.wake, ask.group, ask.topic)
        return popped

    def _freed(self, group: str, topic: str) -> None:
        """Let a group read a queue of a topic again, or a light queue."""
        if is_light(topic):
            self.lite.freed(topic, group)
        else:
            self.polls.wake(group, topic)

    def _queues_of_poll(self, key: PollKey) -> list[tuple[str, int]]:
        """Return the queues whose messages a pop waits for. A retry topic may be made later."""
        if key.lite_client or not self.topics.queues(key.topic):
            # Lite consumers hear of messages on their own.
            return []
        queues = self.pops.queues_of(key.topic, key.queue_id)
        if key.is_orderly:
            return queues
        return queues + (self.pops.retry_queues(key.group, key.topic) or [(retry_topic(key.topic, key.group), 0)])

    def connection_lost(self, connection: Channel) -> None:
        """Forget what a connection that is gone has asked for and registered."""
        self.holds.forget_connection(connection)
        self.polls.forget(connection)
        self.lite.forget_channel(connection)
        super().connection_lost(connection)

    def start(self) -> None:
        """Begin to deliver what waits."""
        self.delays.start()
        self.timers.start()
        self.transactions.start()
        self.order_blocks.start()
        self.leases.start()

    async def note_progress(self) -> None:
        """Note how far deliveries are, after each note that was begun before, also one that nobody waits for."""
        await self._loop.run_in_executor(self._notes, self._persist)

    def _persist(self) -> None:
        self.delays.persist()
        self.timers.persist()
        self.order_blocks.persist()

    async def stop(self) -> None:
        """Answer what waits, deliver no more, and note how far deliveries are. No request comes any more."""
        self.delays.stop()
        self.timers.stop()
        self.leases.stop()
        self.order_blocks.stop()
        self.holds.answer_all()
        self.polls.answer_all()
        await self.transactions.stop()
        await self.syncs.end()
        await self.end_work()
        await self.config_writes.end()
        await self.note_progress()
        self._notes.shutdown()
        self.timers.close()


def _timers_in_database(store: MessageStore) -> int:
    """Return the queue offset up to which RocksDB has timer messages; the log says what stays there."""
    folder = store.layout.root / paths.INDEX_DATABASE
    if not is_database(folder):
        # Nothing is loaded that only such stores need.
        return 0
    pending = store.pending
    found = pending.in_database()
    for damage in pending.damage:
        log.error("cannot read what waits in RocksDB: %s", damage)
    works = ["timer messages (timerRocksDBEnable)"] if found.has_timers else []
    works += ["half messages (transRocksDBEnable)"] if found.has_halves else []
    if works:
        log.warning(
            "%s wait in %s: only RocketMQ's broker with that setting delivers them; `reput pending` shows them",
            " and ".join(works),
            folder,
        )
    return found.timer_queue_offset
