"""A small HTTP server of one page, for metrics. It bounds connections, the size of a request, and the time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from reput.broker.wire.listener import stop_server
from reput.formats.wire.remoting import is_tls

if TYPE_CHECKING:
    import socket

log = logging.getLogger("reput.broker")
MAX_PAGE_CONNECTIONS: Final = 16
"""The most connections; a further one is closed at once."""
MAX_REQUEST: Final = 8192
"""The most bytes of a request's head."""
PAGE_TIME_OUT_S: Final = 10.0
"""The time from a connection's begin to its end."""
_TLS: Final = "TLS, and %s is plain HTTP; ask for http://"
_REMOTING: Final = "a frame of the remoting protocol, and this is the port of %s; give clients the broker's own address"
_NO_REQUEST: Final = "what is no request of HTTP, and this is the port of %s"


class PageServer:
    """Answers GET and HEAD of one path, once a connection. All methods run in the loop.

    Args:
        path: the path of the page.
        content_type: its type.
        page: makes the page.
    """

    def __init__(self, path: str, content_type: str, page: Callable[[], Awaitable[bytes]]) -> None:
        self._path = path
        self._content_type = content_type
        self._page = page
        self._served: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._met: set[str] = set()

    async def start(self, listener: socket.socket) -> None:
        """Begin to serve."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=MAX_REQUEST)

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            await stop_server(self._server)
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)
        # The loop closes the sockets in its next turn.
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio itself would log the end of its own task as an error
        is_one_too_many = len(self._served) >= MAX_PAGE_CONNECTIONS
        task = asyncio.get_running_loop().create_task(self._connected(reader, writer, is_one_too_many))
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        # A client that does not read, one that the broker's end cuts off, and one whose task has not begun yet.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_one_too_many: bool
    ) -> None:
        try:
            async with asyncio.timeout(PAGE_TIME_OUT_S):
                if not is_one_too_many:
                    first = await reader.readexactly(1)
                    if (other := _other_protocol(first)) is not None:
                        self._note_other(writer, other)
                        return
                    writer.write(await self._answer(first + await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a connection for %s has ended: %r", self._path, error)

    def _note_other(self, writer: asyncio.StreamWriter, sent: str) -> None:
        """Log a client that speaks another protocol, once for each: it comes again and again."""
        if sent not in self._met:
            self._met.add(sent)
            remote = "{}:{}".format(*writer.get_extra_info("peername")[:2])
            words = f"%s: closed: it sent {sent}. Further ones are not logged"
            log.warning(words, remote, self._path, extra={"connection": None, "remote": remote, "code": None})

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        if method not in {b"GET", b"HEAD"}:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"give GET\n")
        if rest.partition(b" ")[0].partition(b"?")[0] != self._path.encode():
            return _response(HTTPStatus.NOT_FOUND, "text/plain", f"the page is {self._path}\n".encode())
        try:
            page = await self._page()
        except Exception:  # an error of ours must not end the clients' broker
            log.exception("%s: the page cannot be made", self._path)
            return _response(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"the broker's log has the error\n")
        return _response(HTTPStatus.OK, self._content_type, page, is_head=method == b"HEAD")


def _other_protocol(first: bytes) -> str | None:
    """Return what a client has sent, by its first byte; None for a request of HTTP."""
    if is_tls(first):
        return _TLS
    if first == b"\x00":
        # The length of a frame, which is below 16 MiB.
        return _REMOTING
    return None if first.isalpha() else _NO_REQUEST


def _response(status: HTTPStatus, content_type: str, body: bytes, *, is_head: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
