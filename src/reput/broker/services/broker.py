"""The broker that requests see: its state, and the services that work beside them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from reput.broker.services.delays import DelayLevels
from reput.broker.services.holds import Holds
from reput.broker.services.syncs import Syncs
from reput.broker.services.timers import Timers
from reput.broker.services.transactions import Transactions
from reput.broker.state.state import BrokerState
from reput.files.names import is_database
from reput.formats import paths

if TYPE_CHECKING:
    from reput.broker.wire.channel import Channel
    from reput.embedded import MessageStore
    from reput.formats.log.record import Host
    from reput.log.encode.message import Message

log = logging.getLogger("reput.broker")


class Broker(BrokerState):
    """A broker on an open store: its state, with delay levels, timers, transactions and held pulls.

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

    def place(self, message: Message, queue_id: int) -> tuple[Message, int]:
        """Return a message and its queue as they are stored: one that is due later waits in another topic."""
        return self.delays.place(*self.timers.place(message, queue_id))

    def connection_lost(self, connection: Channel) -> None:
        """Forget what a connection that is gone has asked for and registered."""
        self.holds.forget_connection(connection)
        super().connection_lost(connection)

    def start(self) -> None:
        """Begin to deliver what waits."""
        self.delays.start()
        self.timers.start()
        self.transactions.start()

    def persist(self) -> None:
        """Note how far deliveries are; any thread may call it."""
        self.delays.persist()
        self.timers.persist()

    async def stop(self) -> None:
        """Answer held pulls, deliver no more, and note how far deliveries are."""
        self.delays.stop()
        self.timers.stop()
        self.holds.answer_all()
        await self.transactions.stop()
        await self.end_work()
        await self._loop.run_in_executor(None, self.persist)
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
