"""The broker: connections, the table of requests, and the state that handlers share. It runs in one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from reput.broker.client_calls import ClientCalls
from reput.broker.codes import RefusedError, RequestCode, ResponseCode
from reput.broker.configuration import GroupConfigs, TopicConfigs
from reput.broker.connection import Connection
from reput.broker.consumers import Consumers, QueueLocks
from reput.broker.delays import DelayLevels
from reput.broker.handlers import HANDLERS
from reput.broker.producers import Producers
from reput.broker.pulls import Holds
from reput.broker.requests import Answer, Request
from reput.broker.sends import SEND_CODES, Send, serve_send, store_sends
from reput.broker.statistics import Statistics
from reput.broker.timers import Timers
from reput.broker.transactions import Transactions
from reput.broker.unique_keys import UniqueKeys
from reput.errors import ConfigError, NoSpaceError, ReputError, TailFullError
from reput.files.names import is_database
from reput.formats import paths
from reput.formats.record import encode_message_id
from reput.formats.remoting import RemotingFrame
from reput.store.metadata.tables import Table

if TYPE_CHECKING:
    from reput.broker.access import AccessKeys
    from reput.embedded import MessageStore
    from reput.formats.record import Host
    from reput.log.encode.message import Message

log = logging.getLogger("reput.broker")
NAME: Final = "reput"
"""The name of the broker in routes."""
MAX_CONNECTIONS: Final = 10_000
"""The most connections; a further one is closed at once."""
IDLE_S: Final = 120.0
"""A connection on which nothing comes for this time is closed. Clients send a heartbeat every 30 s."""
INDEX_BYTES: Final = 64 << 20
"""Bytes of log without durable indexes after which the broker builds them."""
_SWEEP_S = 1.0
_DRAIN_S = 5.0


class Broker:
    """A broker on an open store. All methods but `soon` run in the loop's thread.

    Args:
        store: the store, open to write.
        host: the address and port of message ids, as in the store's records.
        loop: the loop that serves connections.
        access_keys: the keys with which clients sign; None to check nothing.
    """

    def __init__(
        self, store: MessageStore, host: Host, loop: asyncio.AbstractEventLoop, access_keys: AccessKeys | None = None
    ) -> None:
        self.store = store
        self.access_keys = access_keys
        self.name = NAME
        homes = store.metadata_homes
        self.topics = TopicConfigs(homes.configurations(Table.TOPICS), NAME)
        self.groups = GroupConfigs(homes.configurations(Table.GROUPS))
        self.consumers = Consumers(self._notify)
        self.producers = Producers()
        self.client_calls = ClientCalls(loop)
        self.locks = QueueLocks()
        self.statistics = Statistics()
        self.holds = Holds(self, loop)
        self.unique_keys = UniqueKeys(host.address)
        self.delays = DelayLevels(self, loop)
        self.timers = Timers(self, loop, _timers_in_database(store))
        self.transactions = Transactions(self, loop)
        self.is_sync_flush = store.config.flush_disk_type == "SYNC_FLUSH"
        self._host = host.encode()
        self._loop = loop
        self._connections: set[Connection] = set()
        self._worker = ThreadPoolExecutor(1, "reput-broker-worker")
        self._is_stopping = False
        self._wants_indexes = False
        self._sweeper: asyncio.Task[None] | None = None

    # --- connections ---------------------------------------------------------------------------

    def connection(self) -> Connection:
        """Make a connection; the loop's server calls it."""
        return Connection(self, self._loop)

    def connected(self, connection: Connection) -> bool:
        """Take a new connection; return False if there are too many."""
        if len(self._connections) >= MAX_CONNECTIONS or self._is_stopping:
            log.warning("%s: closed: %d connections are open", connection.peer, len(self._connections))
            return False
        self._connections.add(connection)
        return True

    def disconnected(self, connection: Connection) -> None:
        """Forget what a connection that is gone has asked for and registered."""
        self._connections.discard(connection)
        self.holds.forget_connection(connection)
        self.consumers.connection_lost(connection)
        self.producers.connection_lost(connection)
        self.client_calls.connection_lost(connection)

    def _notify(self, connection: Connection, group: str) -> None:
        """Let a consumer know that its group has changed."""
        self.client_calls.push(connection, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    # --- requests ------------------------------------------------------------------------------

    def serve(self, connection: Connection, frames: Sequence[RemotingFrame]) -> None:
        """Serve the requests of one read, in their order. Single sends that follow one another are stored together."""
        sends: list[Send] = []
        for frame in frames:
            if frame.is_answer:
                self.client_calls.answered(connection, frame)
                continue
            request = Request(connection, frame)
            refusal = None if self.access_keys is None else self.access_keys.refusal_of(frame)
            if refusal is not None:
                request.answer(Answer(ResponseCode.NO_PERMISSION, refusal))
                continue
            if frame.code in SEND_CODES:
                self.guarded(request, lambda asked=request: self._take_send(asked, sends))  # type: ignore[misc]
                continue
            self._store(sends)
            handler = HANDLERS.get(frame.code)
            if handler is None:
                words = f" request type {frame.code} not supported"
                request.answer(Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, words))
            else:
                self.guarded(request, lambda asked=request, serve=handler: serve(self, asked))  # type: ignore[misc]
        self._store(sends)

    def _take_send(self, request: Request, sends: list[Send]) -> None:
        send = serve_send(self, request)
        if send is not None:
            sends.append(send)

    def _store(self, sends: list[Send]) -> None:
        if sends:
            taken = list(sends)
            sends.clear()
            try:
                store_sends(self, taken)
            except ReputError as error:
                for send in taken:
                    send.request.answer(answer_of_error(error))

    def guarded(self, request: Request, work: Callable[[], Answer | None]) -> None:
        """Answer a request with what `work` returns, or with its error. No error ends the broker."""
        try:
            answer = work()
        except RefusedError as refusal:
            answer = Answer(refusal.code, refusal.remark)
        except ReputError as error:
            answer = answer_of_error(error)
        except Exception as error:  # an error of ours must not end the other clients' broker
            log.exception("request %d of %s failed", request.frame.code, request.connection.peer)
            answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if answer is not None:
            request.answer(answer)

    def place(self, message: Message, queue_id: int) -> tuple[Message, int]:
        """Return a message and its queue as they are stored: one that is due later waits in another topic."""
        return self.delays.place(*self.timers.place(message, queue_id))

    def message_id(self, offset: int) -> str:
        """Return the id of the message at a log offset."""
        return encode_message_id(self._host, offset)

    def soon(self, work: Callable[..., object], *args: Any) -> None:
        """Run work in the loop; any thread may call it. After the loop's end nothing happens."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work, *args)

    def in_thread(self, request: Request, work: Callable[[], Answer]) -> None:
        """Answer a request with what `work` returns in another thread: it waits for the disk."""
        future = self._worker.submit(work)
        future.add_done_callback(lambda done: self.soon(self.guarded, request, done.result))

    # --- background ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver what waits, and to look after idle connections, old locks and indexes."""
        self.delays.start()
        self.timers.start()
        self.transactions.start()
        self._sweeper = self._loop.create_task(self._sweep())

    def ask_for_indexes(self) -> None:
        """Build the durable indexes soon: the store takes no messages without them."""
        self._wants_indexes = True

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = self._loop.time()
            for connection in [one for one in self._connections if now - one.received_s > IDLE_S]:
                connection.close()
            self.locks.forget_expired()
            self.statistics.sample()
            await self._loop.run_in_executor(None, self._persist)
            if self._wants_indexes or self.store.behind_bytes > INDEX_BYTES:
                self._wants_indexes = False
                await self._loop.run_in_executor(None, self._build_indexes)

    def _persist(self) -> None:
        self.delays.persist()
        self.timers.persist()

    def _build_indexes(self) -> None:
        if self.store.is_followed:
            return
        try:
            self.store.reput(spark=False)
        except ReputError as error:
            log.error("the indexes are not up to date: %s", error)  # noqa: TRY400 - the text says it all

    async def stop(self) -> None:
        """Answer held pulls, send what waits, and close all connections."""
        self._is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.delays.stop()
        self.timers.stop()
        self.holds.end_all()
        await self.transactions.stop()
        await self._loop.run_in_executor(None, self._worker.shutdown)
        await self._loop.run_in_executor(None, self._persist)
        self.timers.close()
        for connection in list(self._connections):
            connection.close()
        deadline = self._loop.time() + _DRAIN_S
        # Transports have no event for their end.
        while self._connections and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()


def _timers_in_database(store: MessageStore) -> int:
    """Return the queue offset up to which RocksDB has timer messages; the log says what stays there."""
    folder = store.layout.root / paths.INDEX_DATABASE
    if not is_database(folder):
        # Nothing is loaded that only such stores need.
        return 0
    pending = store.pending
    found = pending.in_database()
    for damage in pending.damage:
        log.error("what waits in RocksDB is not known: %s", damage)
    works = ["timer messages (timerRocksDBEnable)"] if found.has_timers else []
    works += ["half messages (transRocksDBEnable)"] if found.has_halves else []
    if works:
        log.warning(
            "%s wait in %s: only RocketMQ's broker with that setting goes on with them; `reput pending` shows them",
            " and ".join(works),
            folder,
        )
    return found.timer_queue_offset


def answer_of_error(error: ReputError) -> Answer:
    """Return the answer to a request that met an error of the store."""
    if isinstance(error, TailFullError):
        return Answer(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, start flow control for a while: {error}")
    if isinstance(error, NoSpaceError):
        return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}")
    code = ResponseCode.INVALID_PARAMETER if isinstance(error, ConfigError) else ResponseCode.SYSTEM_ERROR
    return Answer(code, str(error))
