"""The connections of a client: one for each address, opened when it is needed and again when it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.client.connection import ClientConnection
from reput.client.refusals import closed
from reput.errors import ConfigError, TimedOutError, UnreachableError
from reput.formats.wire.addresses import host_and_port
from reput.formats.wire.signature import ACCESS_KEY, SIGNATURE, signature_of

if TYPE_CHECKING:
    from reput.formats.wire.remoting import RemotingFrame

CONNECT_S: Final = 3.0
"""The longest wait for a connection (`NettyClientConfig.connectTimeoutMillis`)."""
CLOSE_S: Final = 1.0
"""The longest wait until what was written last has left."""


class Credentials(NamedTuple):
    """The access key of a client, and its secret."""

    access_key: str
    secret_key: str

    @classmethod
    def of(cls, access_key: str | None, secret_key: str | None) -> Credentials | None:
        """Return the credentials; None without a key.

        Raises:
            ConfigError: one of the two is missing.
        """
        if (access_key is None) != (secret_key is None):
            raise ConfigError("access_key and secret_key: give both, or none")
        return None if access_key is None or secret_key is None else cls(access_key, secret_key)

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the fields of a request with its signature."""
        with_key = {**fields, ACCESS_KEY: self.access_key}
        signature = signature_of(with_key, body, self.secret_key.encode())
        return {**with_key, SIGNATURE: signature.decode()}


class Connections:
    """The connections of one client. All methods run in the loop's thread.

    Args:
        credentials: sign requests with this key; None to sign nothing.
        asked: is called with a connection and a request of the broker.
    """

    def __init__(
        self, credentials: Credentials | None, asked: Callable[[ClientConnection, RemotingFrame], None]
    ) -> None:
        self._credentials = credentials
        self._asked = asked
        self._open: dict[str, ClientConnection] = {}
        self._opening: dict[str, asyncio.Task[ClientConnection]] = {}
        self._is_closed = False

    async def get(self, address: str, timeout_s: float = CONNECT_S) -> ClientConnection:
        """Return the connection to an address; open it if there is none.

        Raises:
            ClosedError: the client is closed.
            TimedOutError: it could not be opened in time.
            UnreachableError: nobody listens there.
        """
        found = self._open.get(address)
        if found is not None and found.is_open:
            return found
        if self._is_closed:
            raise closed()
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.create_task(self._connect(address))
            self._opening[address] = opening
            opening.add_done_callback(lambda _: self._opening.pop(address, None))
        try:
            async with asyncio.timeout(min(timeout_s, CONNECT_S)):
                # Others may wait for the same connection.
                return await asyncio.shield(opening)
        except TimeoutError:
            raise TimedOutError(f"{address}: cannot connect in {timeout_s:.3g} s", address=address) from None

    async def _connect(self, address: str) -> ClientConnection:
        loop = asyncio.get_running_loop()
        host, port = host_and_port(address)
        try:
            _, made = await loop.create_connection(lambda: ClientConnection(address, loop, self._asked), host, port)
        except OSError as error:
            words = f"{address}: cannot connect: {error}. See whether the broker runs, and whether its address (a "
            words += "broker's brokerIP1) can be reached from here"
            raise UnreachableError(words, address=address) from error
        if self._is_closed:
            made.abort()
            raise closed()
        self._open[address] = made
        return made

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout_s: float,
        topic: str = "",
    ) -> RemotingFrame:
        """Send a request to an address, and return the answer.

        Raises:
            ClientError: there is no answer.
            ClosedError: the client is closed.
        """
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection = await self.get(address, timeout_s)
        if self._credentials is not None:
            fields = self._credentials.signed(fields, body)
        return await connection.ask(code, fields, body, timeout_s, topic)

    async def notify(self, address: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request that nobody answers.

        Raises:
            ClientError: there is no connection.
            ClosedError: the client is closed.
        """
        connection = await self.get(address)
        if self._credentials is not None:
            fields = self._credentials.signed(fields, body)
        connection.notify(code, fields, body)

    async def close(self) -> None:
        """Close all connections; requests that wait fail."""
        self._is_closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        connections, self._open = list(self._open.values()), {}
        closing = [asyncio.create_task(one.close()) for one in connections]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_S)
        for one in connections:
            one.abort()
        await asyncio.gather(*closing, return_exceptions=True)
