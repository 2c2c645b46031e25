"""One connection: bytes in, frames to the server, answers out. The server decides everything else."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from reput.broker.wire.channel import numbers
from reput.formats.log.record import Host
from reput.formats.wire.remoting import IS_ANSWER, FrameError, FrameReader, RemotingFrame, encode_head

if TYPE_CHECKING:
    from reput.broker.wire.answers import Answer

MAX_HEADER = 512 << 10
"""The longest header of a request (bytes): JSON of 16 MiB would keep the other connections waiting for 2 s."""
MAX_OUTPUT = 32 << 20
"""Bytes of answers that may wait for a client that does not read; then its connection is closed."""
NO_FRAME, FULL_INPUT, SLOW_READER, FULL_OUTPUT = "no_frame", "full_input", "slow_reader", "full_output"
"""Reasons to close a connection."""
_FRAME_BYTES = 250
_FIELD_BYTES = 200
_HIGH_WATER = 1 << 20
_MAX_REMARK = 4096
_UNKNOWN = Host(bytes(4), 0)


class FrameServer(Protocol):
    """The side of a broker that connections see.

    Attributes:
        received: Where the bytes of a read go, from all connections: a connection takes them out before the next read.
    """

    received: memoryview

    def connected(self, connection: Connection) -> bool:
        """Take a new connection; return False if it is refused."""

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that is gone."""

    def serve(self, connection: Connection, frames: Sequence[RemotingFrame]) -> int:
        """Serve frames in their order, until answers are many or time is over; return the number of those served."""

    def took(self, connection: Connection, unread: int) -> bool:
        """Note by how much unfinished frames and waiting requests have grown; return False if they are too many."""

    def is_full(self, connection: Connection) -> bool:
        """Return True if the answers that wait, of all connections, are too many."""

    def ending(self, connection: Connection, reason: str, words: str) -> None:
        """Note that a connection is being closed: the reason in a word, and what has happened."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection.

    Attributes:
        number: Its number, from 1 on.
        received_s: The loop's time when bytes came last.
        own_address: The address that routes name to the client, `host:port`: the one that it has dialled, until the
            server sets another one.
        peer: The client's address.
        is_refused: True once a request of it was refused for its signature.
    """

    def __init__(self, server: FrameServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._reader = FrameReader(MAX_HEADER)
        self._out: list[bytes | memoryview] | None = None
        self._out_size = 0
        # Requests that wait for a turn, or until the client has read answers. Meanwhile nothing more is read from it.
        self._later: list[RemotingFrame] = []
        self._later_size = 0
        self._is_paused = False
        self._is_ending = False
        self._waiting_least = 0
        self._progress_s = 0.0
        self._transport: asyncio.Transport | None = None
        self.number = next(numbers)
        self.received_s = 0.0
        self.own_address = ""
        self.peer = _UNKNOWN
        self.is_refused = False

    @property
    def is_open(self) -> bool:
        """True while answers can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def waiting(self) -> int:
        """The bytes of answers that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def has_enough(self) -> bool:
        """True if further requests are served later, and only if the client reads answers."""
        return self._out_size >= _HIGH_WATER

    def stalled_s(self, now_s: float) -> float:
        """Return the time since the client has read something last; 0 if it reads fast enough."""
        if not self._is_paused:
            return 0.0
        waiting = self.waiting
        if waiting < self._waiting_least:
            self._waiting_least, self._progress_s = waiting, now_s
        return now_s - self._progress_s

    @property
    def handle(self) -> int:
        """The number of its socket among the files that the process has open; -1 once it is closed."""
        opened = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if opened is None else int(opened.fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.received_s = self._loop.time()
        host, port = self._transport.get_extra_info("sockname")[:2]
        self.own_address = f"{host}:{port}"
        address, port = self._transport.get_extra_info("peername")[:2]
        self.peer = Host(ipaddress.ip_address(address).packed, port)
        if not self._server.connected(self):
            self.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return where the next bytes go; asyncio calls it."""
        return self._server.received

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the frames that are complete; asyncio calls it."""
        if self._is_ending:
            return
        self.received_s = self._loop.time()
        before = self._reader.unread
        try:
            frames = self._reader.feed(self._server.received[:nbytes])
        except FrameError as error:
            self._server.ending(self, NO_FRAME, f"it sent no frame of the remoting protocol: {error}")
            self.abort()
            return
        finally:
            is_taken = self._server.took(self, self._reader.unread - before)
        if not is_taken:
            self._end_full()
        elif self._later:
            self._later += frames
            self._count_later(self._later_size + _memory_of(frames))
        elif frames:
            self._serve(frames)

    def _serve(self, frames: list[RemotingFrame]) -> None:
        self._out, self._out_size = [], 0
        served = len(frames)
        try:
            served = self._server.serve(self, frames)
        finally:
            pieces, self._out = self._out, None
            self._write(pieces)
        self._later = frames[served:]
        if not self._later:
            self._count_later(0)
            return
        if self._transport is not None:
            self._transport.pause_reading()
            # Other connections come in between.
            self._loop.call_soon(self._go_on)
        if not self._later_size:
            # They count until all are served: to count the rest after each turn takes a third of the turn.
            self._count_later(_memory_of(self._later))

    def _count_later(self, size: int) -> None:
        """Count the requests that wait as unread input: parsed, a small one takes ten times its bytes."""
        if size == self._later_size:
            return
        grown, self._later_size = size - self._later_size, size
        if not self._server.took(self, grown):
            self._end_full()

    def _end_full(self) -> None:
        self._server.ending(self, FULL_INPUT, "the unfinished frames and requests of all connections are too many")
        self.abort()

    def _reads(self) -> bool:
        """Return True while the client takes its answers, so that it gets more of them."""
        return self.is_open and not self._is_paused and not self._is_ending

    def _go_on(self) -> None:
        """Serve the requests that wait, then read again."""
        if not self._reads():
            return
        frames, self._later = self._later, []
        if frames:
            self._serve(frames)
        if not self._later and self._reads():
            cast("asyncio.Transport", self._transport).resume_reading()

    def pause_writing(self) -> None:
        """Serve no further request until the client reads; asyncio calls it."""
        assert self._transport is not None
        self._is_paused = True
        self._waiting_least, self._progress_s = self.waiting, self._loop.time()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on; asyncio calls it."""
        self._is_paused = False
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio has it
        """Forget the client; asyncio calls it."""
        self._transport = None
        self._later = []
        self._server.took(self, -self._reader.unread - self._later_size)
        self._later_size = 0
        self._server.disconnected(self)

    def answer(self, asked: RemotingFrame, answer: Answer) -> None:
        """Send the answer to a request."""
        size = sum(map(len, answer.pieces))
        # It may have texts of the client, which may be long.
        remark = None if answer.remark is None else answer.remark[:_MAX_REMARK]
        head = RemotingFrame(answer.code, asked.opaque, IS_ANSWER, remark, answer.fields, header_type=asked.header_type)
        self.send(head, answer.pieces, size)

    def send(self, frame: RemotingFrame, pieces: Sequence[bytes | memoryview] = (), size: int = 0) -> None:
        """Send a frame whose body is `pieces`; together with others if requests of the connection are being served."""
        out = [encode_head(frame, size), *pieces]
        if self._out is not None:
            self._out += out
            self._out_size += len(out[0]) + size
        else:
            self._write(out)

    def _write(self, pieces: list[bytes | memoryview]) -> None:
        transport = self._transport
        if not pieces or transport is None or transport.is_closing():
            return
        transport.writelines(pieces)
        waiting = transport.get_write_buffer_size()
        if waiting > MAX_OUTPUT:
            self._server.ending(self, SLOW_READER, f"it does not read its answers, and {MAX_OUTPUT} bytes wait")
            self.abort()
        elif waiting > _HIGH_WATER and self._server.is_full(self):
            words = f"it does not read its answers, and those of all connections are too many; {waiting} bytes wait"
            self._server.ending(self, FULL_OUTPUT, words)
            self.abort()

    def end_requests(self) -> None:
        """Serve no further request; those that were served are still answered.

        What comes is read and left: the system resets a connection that is closed with unread bytes, and its client
        could lose answers.
        """
        self._is_ending = True

    def close(self) -> None:
        """Send what waits, and close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def _memory_of(frames: Sequence[RemotingFrame]) -> int:
    """Return about the bytes of memory that parsed frames take."""
    return sum(
        _FRAME_BYTES
        + len(frame.body)
        + len(frame.remark or "")
        + sum(_FIELD_BYTES + len(name) + len(value) for name, value in frame.fields.items())
        for frame in frames
    )
