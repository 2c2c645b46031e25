"""One connection to a broker or a name server. The number of an answer says to which request it belongs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

from reput.errors import ClientError, TimedOutError, UnreachableError
from reput.formats.wire.remoting import (
    IS_ANSWER,
    IS_ONE_WAY,
    READ_SIZE,
    FrameError,
    FrameReader,
    RemotingFrame,
    encode_head,
    next_opaque,
)

HIGH_WATER: Final = 1 << 20
"""Bytes of requests that wait for a broker that does not read; then further requests wait to be written."""


class _Asked(NamedTuple):
    answer: asyncio.Future[RemotingFrame]
    timer: asyncio.TimerHandle


class ClientConnection(asyncio.BufferedProtocol):
    """A connection that a client has opened. All methods run in the loop's thread.

    Args:
        address: the address that it goes to, `host:port`.
        loop: the loop.
        asked: is called with the connection and a request of the broker.

    Attributes:
        address: The same address.
    """

    def __init__(
        self,
        address: str,
        loop: asyncio.AbstractEventLoop,
        asked: Callable[[ClientConnection, RemotingFrame], None],
    ) -> None:
        self.address = address
        self._loop = loop
        self._take_request = asked
        self._reader = FrameReader()
        self._received = memoryview(bytearray(READ_SIZE))
        self._pending: dict[int, _Asked] = {}
        self._opaque = 0
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Future[None] | None = None
        self._why_lost = "the connection was closed"
        self._gone: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    # --- requests ------------------------------------------------------------------------------

    async def ask(
        self, code: int, fields: Mapping[str, str], body: bytes, timeout_s: float, topic: str = ""
    ) -> RemotingFrame:
        """Send a request, and return its answer.

        Raises:
            TimedOutError: no answer came in time.
            UnreachableError: the connection is lost.
        """
        if self._writable is not None:
            await self._wait_until_writable(code, timeout_s, topic)
        opaque = self._opaque = next_opaque(self._opaque)
        self._write(RemotingFrame(code, opaque, 0, None, fields), body, topic)
        answer: asyncio.Future[RemotingFrame] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._expire, opaque, code, timeout_s, topic)
        self._pending[opaque] = _Asked(answer, timer)
        try:
            return await answer
        finally:
            # A caller that is cancelled waits no more, either.
            timer.cancel()
            self._pending.pop(opaque, None)

    def notify(self, code: int, fields: Mapping[str, str], body: bytes = b"", topic: str = "") -> None:
        """Send a request that nobody answers.

        Raises:
            UnreachableError: the connection is lost.
        """
        self._opaque = next_opaque(self._opaque)
        self._write(RemotingFrame(code, self._opaque, IS_ONE_WAY, None, fields), body, topic)

    def answer(self, asked: RemotingFrame, code: int, remark: str) -> None:
        """Answer a request of the broker, unless it is one-way."""
        if self.is_open and not asked.is_one_way:
            self._write(RemotingFrame(code, asked.opaque, IS_ANSWER, remark, header_type=asked.header_type), b"")

    async def _wait_until_writable(self, code: int, timeout_s: float, topic: str) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self._writable is not None:
                    await asyncio.shield(self._writable)
        except TimeoutError:
            raise self._late(code, timeout_s, topic, "the broker reads nothing") from None

    def _write(self, frame: RemotingFrame, body: bytes, topic: str = "") -> None:
        if not self.is_open:
            raise self._lost(topic)
        try:
            head = encode_head(frame, len(body))
        except FrameError as error:
            words = f"{self.address}: request {frame.code} cannot be sent: {error}. Send less at a time"
            raise ClientError(words, address=self.address, topic=topic) from error
        if not self._out:
            # Requests of one turn of the loop leave in one write.
            self._loop.call_soon(self._flush)
        self._out.append(head)
        if body:
            self._out.append(body)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(out)

    def _expire(self, opaque: int, code: int, timeout_s: float, topic: str) -> None:
        asked = self._pending.pop(opaque, None)
        if asked is not None and not asked.answer.done():
            asked.answer.set_exception(self._late(code, timeout_s, topic, "no answer"))

    def _late(self, code: int, timeout_s: float, topic: str, what: str) -> TimedOutError:
        about = f" for topic {topic}" if topic else ""
        words = f"{self.address}: request {code}{about}: {what} for {timeout_s:.3g} s. See whether the broker is busy"
        return TimedOutError(f"{words}, or give a longer timeout_s", address=self.address, topic=topic)

    def _lost(self, topic: str = "") -> UnreachableError:
        words = (
            f"{self.address}: {self._why_lost}. See whether the broker runs, and whether this is its port of the "
            "remoting protocol, not that of gRPC; the next request connects again"
        )
        return UnreachableError(words, address=self.address, topic=topic)

    # --- asyncio -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return where the next bytes go; asyncio calls it."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Give answers to those who wait for them; asyncio calls it."""
        try:
            frames = self._reader.feed(self._received[:nbytes])
        except FrameError as error:
            self._why_lost = f"what answers speaks another protocol: {error}"
            self.abort()
            return
        for frame in frames:
            if not frame.is_answer:
                self._take_request(self, frame)
                continue
            asked = self._pending.pop(frame.opaque, None)
            if asked is not None and not asked.answer.done():
                asked.answer.set_result(frame)

    def pause_writing(self) -> None:
        """Let further requests wait; asyncio calls it."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let requests go on; asyncio calls it."""
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests that wait; asyncio calls it."""
        if exc is not None:
            self._why_lost = f"the connection was lost: {exc}"
        self._transport = None
        self.resume_writing()
        pending, self._pending = self._pending, {}
        for asked in pending.values():
            asked.timer.cancel()
            if not asked.answer.done():
                asked.answer.set_exception(self._lost())
        if not self._gone.done():
            self._gone.set_result(None)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Send what waits, and close."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
            await self._gone
