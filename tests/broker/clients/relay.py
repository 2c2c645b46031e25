"""A relay between clients and a broker: it can cut their connections, and it can lead to another broker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECE = 1 << 16
_END_S = 10.0


class Relay:
    """Carries bytes between clients and a broker, in a thread of its own; it is a context manager.

    Args:
        target: the address of the broker. A connection that is made later leads to what it is then.

    Attributes:
        address: where clients reach the relay.
        renamed: texts in answers, and what clients get instead, of the same length.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.address = ""
        self.renamed: Mapping[bytes, bytes] = MappingProxyType({})
        self._is_cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(_END_S)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()

    def cut(self) -> None:
        """End all connections, and close new ones at once."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._close_all)

    def mend(self) -> None:
        """Carry bytes again."""
        self._is_cut = False

    def _close_all(self) -> None:
        for writer in self._open:
            writer.close()

    async def _end(self) -> None:
        self._server.close()
        self._is_cut = True
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.split(":")
        with contextlib.closing(writer):
            if self._is_cut:
                return
            try:
                answers, requests = await asyncio.open_connection(host, int(port))
            except OSError:
                return
            with contextlib.closing(requests):
                self._open |= {writer, requests}
                try:
                    await asyncio.gather(_pump(reader, requests), _pump(answers, writer, self.renamed))
                finally:
                    self._open -= {writer, requests}


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, renamed: Mapping[bytes, bytes] = MappingProxyType({})
) -> None:
    """Carry the bytes of one direction, until either side closes."""
    with contextlib.suppress(OSError), contextlib.closing(writer):
        while data := await reader.read(_PIECE):
            for old, new in renamed.items():
                data = data.replace(old, new)
            writer.write(data)
            await writer.drain()
