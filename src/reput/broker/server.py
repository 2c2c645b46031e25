"""The server of clients: it takes connections, gives each request to its handler, and looks after the broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from reput.broker.handlers.sends import SEND_CODES, Send, serve_send, store_batch, store_sends
from reput.broker.handlers.table import HANDLERS
from reput.broker.services.due import each_time, log_failure
from reput.broker.state.statistics import OTHER_CODE
from reput.broker.wire.answers import Answer, answer_of_error
from reput.broker.wire.channel import about
from reput.broker.wire.connection import SLOW_READER, Connection
from reput.broker.wire.line_bound import LineBound
from reput.broker.wire.listener import leaves_handles
from reput.broker.wire.requests import Request
from reput.errors import ReputError
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.remoting import LANGUAGES, READ_SIZE, version_name

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.access import AccessKeys
    from reput.formats.wire.remoting import RemotingFrame

log = logging.getLogger("reput.broker")
MAX_CONNECTIONS: Final = 10_000
"""The most connections; a further one is closed at once."""
IDLE_S: Final = 120.0
"""A connection on which nothing comes for this time is closed. Clients send a heartbeat every 30 s."""
STALLED_S: Final = 60.0
"""A connection whose client reads none of its answers for this time is closed, once they fill the buffer."""
MAX_INPUT: Final = 512 << 20
"""The most bytes of unfinished frames, and of requests that wait until their client has read answers or for a turn, of
all connections; the connection that passes it is closed."""
MAX_ALL_OUTPUT: Final = 1 << 30
"""The most bytes of answers that wait, of all connections; the connection that passes it is closed."""
TURN_S: Final = 0.01
"""The time that one connection's requests take from the other connections; then these have a turn."""
INDEX_BYTES: Final = 64 << 20
"""Bytes of log without durable indexes after which an idle broker builds them."""
MOST_INDEX_BYTES: Final = 512 << 20
"""Bytes of log without durable indexes after which a busy broker builds them, too. A start after a kill with these
takes half a second longer than with `INDEX_BYTES`, and the broker takes 20 MiB of memory more."""
_BUSY = 0.25
"""The share of its time that the loop of an idle broker works at most."""
_RESPONSES = frozenset(ResponseCode)
_CODES_LOGGED = 1000
_LINES: Final = LineBound(log)
log.addFilter(_LINES)
TOO_MANY, NO_HANDLES, IDLE = "too_many", "no_handles", "idle"
"""Reasons to close a connection, beside those of `Connection`."""
_SWEEP_S = 1.0
_DRAIN_S = 1.0
"""The time in which clients may read their last answers when the broker stops."""


class BrokerServer:
    """Serves the clients of a broker. All methods run in the loop's thread.

    Args:
        broker: the broker.
        loop: the loop that serves connections.
        access_keys: the keys with which clients sign; None to check nothing.
        counts_answers: count each answer with its time, for metrics.
        advertised: the address that routes name, `host:port`; None for the one that each client has dialled.

    Attributes:
        input_bytes: The bytes of unfinished frames and of requests that wait, of all connections.
        received: Where the bytes of a read go, from all connections.
    """

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        access_keys: AccessKeys | None = None,
        *,
        counts_answers: bool = False,
        advertised: str | None = None,
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._access_keys = access_keys
        self._advertised = advertised
        self._count_answer = self._count if counts_answers else None
        self._connections: set[Connection] = set()
        self._unknown: set[int] = set()
        self._is_stopping = False
        self.input_bytes = 0
        self.received = memoryview(bytearray(READ_SIZE))
        self._sweeper: asyncio.Task[None] | None = None
        # The loop's time, and how much of it its thread has worked, when the broker looked around last.
        self._looked_s = self._worked_s = 0.0
        self._builder = ThreadPoolExecutor(1, "reput-broker-indexes")
        self._build: Future[None] | None = None

    # --- connections ---------------------------------------------------------------------------

    def connection(self) -> Connection:
        """Make a connection; the loop's server calls it."""
        return Connection(self, self._loop)

    def connected(self, connection: Connection) -> bool:
        """Take a new connection; return False if there are too many."""
        number = len(self._connections)
        if number >= MAX_CONNECTIONS or self._is_stopping:
            self.ending(connection, TOO_MANY, f"{number} connections are open")
            return False
        if not leaves_handles(connection.handle):
            words = f"{number} connections are open, and the process may open few files more: raise `ulimit -n`"
            self.ending(connection, NO_HANDLES, words)
            return False
        if self._advertised is not None:
            connection.own_address = self._advertised
        self._connections.add(connection)
        return True

    def ending(self, connection: Connection, reason: str, words: str) -> None:
        """Note that a connection is being closed: the reason in a word, and what has happened."""
        self._broker.statistics.closed[reason] += 1
        log.warning("%s: closed: %s", connection.peer, words, extra={**about(connection), "kind": reason})

    def took(self, connection: Connection, unread: int) -> bool:  # noqa: ARG002 - as connections call it
        """Note by how much unfinished frames and waiting requests have grown; return False if they are too many."""
        self.input_bytes += unread
        return unread <= 0 or self.input_bytes <= MAX_INPUT

    def is_full(self, connection: Connection) -> bool:  # noqa: ARG002 - as connections call it
        """Return True if the answers that wait, of all connections, are too many."""
        return sum(one.waiting for one in self._connections) > MAX_ALL_OUTPUT

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        self._connections.discard(connection)
        self._broker.connection_lost(connection)

    @property
    def open_connections(self) -> int:
        """The number of connections."""
        return len(self._connections)

    # --- requests ------------------------------------------------------------------------------

    def serve(self, connection: Connection, frames: Sequence[RemotingFrame]) -> int:
        """Serve requests in their order, until the answers are many or time is over; return the number of those served.

        Single sends that follow one another are stored together.
        """
        sends: list[Send] = []
        broker = self._broker
        begun_s = time.monotonic()
        now_s = 0.0 if self._count_answer is None else begun_s
        for number, frame in enumerate(frames):
            # A turn serves one request at least, though a thread may have taken the interpreter for all of its time.
            if connection.has_enough or (number and time.monotonic() - begun_s > TURN_S):
                self._store(sends)
                return number
            if frame.is_answer:
                self._take_answer(connection, frame)
                continue
            request = Request(connection, frame, now_s, self._count_answer)
            refusal = None if self._access_keys is None else self._access_keys.refusal_of(frame)
            if refusal is not None:
                self._note_refused(connection, frame, refusal)
                request.answer(Answer(ResponseCode.NO_PERMISSION, refusal))
                continue
            if frame.code in SEND_CODES:
                broker.guarded(request, lambda asked=request: self._take_send(asked, sends))  # type: ignore[misc]
                continue
            self._store(sends)
            handler = HANDLERS.get(frame.code)
            if handler is None:
                self._note_unknown(connection, frame)
                words = f" request type {frame.code} not supported"
                request.answer(Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, words))
            else:
                broker.guarded(request, lambda asked=request, serve=handler: serve(broker, asked))  # type: ignore[misc]
        self._store(sends)
        return len(frames)

    def _take_answer(self, connection: Connection, frame: RemotingFrame) -> None:
        try:
            self._broker.client_calls.answered(connection, frame)
        except Exception:  # an error of ours must not end the client's connection
            log.exception("%s: its answer was not taken", connection.peer, extra=about(connection, frame.code))

    def _take_send(self, request: Request, sends: list[Send]) -> Answer | None:
        send = serve_send(self._broker, request)
        if isinstance(send, Send):
            sends.append(send)
            return None
        # Its sender has asked for those before it first.
        self._store(sends)
        return store_batch(self._broker, send)

    def _store(self, sends: list[Send]) -> None:
        if sends:
            taken = list(sends)
            sends.clear()
            try:
                store_sends(self._broker, taken)
            except ReputError as error:
                for send in taken:
                    send.request.answer(answer_of_error(error))

    def _note_unknown(self, connection: Connection, frame: RemotingFrame) -> None:
        """Log a request that is not served: once for each code."""
        if frame.code not in self._unknown and len(self._unknown) < _CODES_LOGGED:
            self._unknown.add(frame.code)
            client = f"{LANGUAGES[frame.language]} {version_name(frame.version)}"
            words = "%s: request code %d is not served; its client is %s. Further requests of the code are not logged"
            log.warning(words, connection.peer, frame.code, client, extra=about(connection, frame.code))

    def _note_refused(self, connection: Connection, frame: RemotingFrame, refusal: str) -> None:
        """Log a signature that is not right: once a connection, for clients show only that they get no route."""
        if connection.is_refused:
            return
        connection.is_refused = True
        words = "%s: request %d is refused: %s. Further requests of the connection are not logged"
        log.warning(words, connection.peer, frame.code, refusal, extra=about(connection, frame.code))

    def _count(self, request: Request, code: int) -> None:
        """Count an answer. Codes that nobody knows count as one, or clients could make any number of them."""
        asked = request.frame.code
        asked = asked if asked in HANDLERS or asked in SEND_CODES else OTHER_CODE
        kind = (asked, code if code in _RESPONSES else OTHER_CODE, request.is_held, request.frame.is_one_way)
        self._broker.statistics.answered(kind, time.monotonic() - request.received_s)

    # --- background ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver what waits, and to look after idle connections, old locks and indexes."""
        self._broker.start()
        failure = "the broker has not looked after its connections and indexes now"
        self._sweeper = self._loop.create_task(each_time(_SWEEP_S, self._look_around, failure))

    async def _look_around(self) -> None:
        broker, now = self._broker, self._loop.time()
        for connection in [one for one in self._connections if now - one.received_s > IDLE_S]:
            self.ending(connection, IDLE, f"nothing has come for {IDLE_S:.0f} s")
            connection.abort()
        for connection in [one for one in self._connections if one.stalled_s(now) > STALLED_S]:
            words = f"it has read nothing for {STALLED_S:.0f} s, and {connection.waiting} bytes of answers wait"
            self.ending(connection, SLOW_READER, words)
            connection.abort()
        _LINES.end_second()
        broker.locks.forget_expired()
        broker.statistics.sample()
        broker.full_disk.look(broker.store.view.confirmed())
        broker.config_writes.retry()
        await broker.note_progress()
        most = INDEX_BYTES if self._is_idle(now) else MOST_INDEX_BYTES
        is_building = self._build is not None and not self._build.done()
        if not is_building and (broker.wants_indexes or broker.store.behind_bytes > most):
            broker.wants_indexes = False
            self._build = self._builder.submit(self._build_indexes)

    def _is_idle(self, now: float) -> bool:
        """Return True if the loop has worked little since the last call. Work beside it takes the interpreter from it.

        (Beside batches of 100 messages indexes take a third of the processor time that the loop takes.)
        """
        worked_s = time.thread_time()
        share = (worked_s - self._worked_s) / max(now - self._looked_s, _SWEEP_S)
        self._looked_s, self._worked_s = now, worked_s
        return share < _BUSY

    def _build_indexes(self) -> None:
        try:
            self._broker.store.reput_unless_followed(spark=False)
        except Exception as error:  # noqa: BLE001 - nobody waits for the result, so the log has it
            log_failure("the indexes are not up to date", error)

    def end_builds(self) -> None:
        """Wait for the indexes that are being built, and begin no more; not in the loop's thread."""
        self._builder.shutdown(cancel_futures=True)

    async def stop(self) -> None:
        """Serve no further request, answer those that were served, and close all connections."""
        self._is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in self._connections:
            connection.end_requests()
        await self._broker.stop()
        for connection in list(self._connections):
            connection.close()
        deadline = self._loop.time() + _DRAIN_S
        # Transports have no event for their end.
        while self._connections and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        _LINES.end_second(at_once=True)
        # The loop closes the sockets in its next turn.
        await asyncio.sleep(0)
