"""The part that producers and consumers share: identity, connections, routes, heartbeats, and work in the background.

Source: `MQClientInstance`, `ClientConfig.buildMQClientId`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from reput.client.connections import Connections, Credentials
from reput.client.refusals import closed, refusal
from reput.client.routes import MASTER, Routes
from reput.errors import ClientError, ConfigError, ReputError
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.topic_names import is_group_name
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.client.connection import ClientConnection
    from reput.formats.wire.remoting import RemotingFrame

log = logging.getLogger("reput.client")
HEARTBEAT_S: Final = 30.0
"""The time between heartbeats (`heartbeatBrokerInterval`)."""
ROUTES_S: Final = 30.0
"""The time between questions for routes (`pollNameServerInterval`)."""
REQUEST_S: Final = 3.0
"""The longest wait for an answer by default (`sendMsgTimeout`, `mqClientApiTimeout`)."""

Served = Callable[["RemotingFrame", "ClientConnection"], Awaitable[None] | None]
"""Serves a request of a broker; those without one are refused."""


def own_address() -> bytes:
    """Return the four bytes of the address by which this machine reaches others; that of loopback without any."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # No packet leaves: the system only chooses the address.
        probe.connect(("192.0.2.1", 9))
        return socket.inet_aton(probe.getsockname()[0])
    return b"\x7f\0\0\1"


def check_group(group: object) -> str:
    """Return the name of a group.

    Raises:
        ConfigError: no group may have that name.
    """
    if not isinstance(group, str) or not is_group_name(group):
        raise ConfigError(f"group {group!r:.80}: give 1 to 120 letters, digits, %, |, _ and -")
    return group


class ClientCore:
    """A client of brokers. All methods run in the loop's thread.

    Args:
        name_servers: the addresses of name servers, with semicolons between.
        credentials: the access key; None to sign nothing.
        timeout_s: the longest wait for an answer (s).
        members: returns the producers and the consumers of the client as heartbeats have them.

    Attributes:
        client_id: The client's id, which differs from all others.
        address: The four bytes of this machine's address.
    """

    def __init__(
        self,
        name_servers: str,
        credentials: Credentials | None,
        timeout_s: float,
        members: Callable[[], Mapping[str, Any]],
    ) -> None:
        if not isinstance(name_servers, str):
            raise ConfigError(f"name_server {name_servers!r:.80}: give host:port, such as 127.0.0.1:9876")
        if type(timeout_s) not in {int, float} or not timeout_s > 0:
            raise ConfigError(f"timeout_s {timeout_s!r:.40}: give a number of seconds above 0")
        self.address = own_address()
        self.client_id = f"{socket.inet_ntoa(self.address)}@{os.getpid()}#{time.time_ns()}"
        self.timeout_s = float(timeout_s)
        self.connections = Connections(credentials, self._take)
        self.routes = Routes(name_servers, self.connections, self.timeout_s)
        self.served: dict[int, Served] = {}
        self._members = members
        self._registered: dict[str, ClientConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # --- background ----------------------------------------------------------------------------

    def go(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background; it ends with the client, and does not begin after that."""
        if self._is_closed:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._is_closed:
            log.error("the client goes on without a part of its work", exc_info=task.exception())

    async def repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do work again and again; an error of a broker is logged."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except ReputError as error:
                log.warning("%s", error)

    def start(self) -> None:
        """Begin to send heartbeats, and to keep routes up to date."""
        self.go(self.repeat(HEARTBEAT_S, self.send_heartbeats))
        self.go(self.repeat(ROUTES_S, self.routes.refresh))

    # --- requests ------------------------------------------------------------------------------

    async def ask(
        self, what: str, address: str, code: RequestCode, fields: Mapping[str, str], body: bytes = b"", topic: str = ""
    ) -> RemotingFrame:
        """Send a request, and return its answer, which is a success.

        Raises:
            ClientError: it is refused, or there is no answer.
        """
        answer = await self.connections.ask(address, code, fields, body, timeout_s=self.timeout_s, topic=topic)
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(what, address, answer, topic)
        return answer

    async def register(self, address: str) -> None:
        """Send a heartbeat to a broker, if it has had none on its present connection.

        Raises:
            ClientError: the broker refuses it, or does not answer.
        """
        connection = await self.connections.get(address)
        if self._registered.get(address) is not connection:
            await self.send_heartbeat(address)

    async def send_heartbeat(self, address: str) -> None:
        """Send a heartbeat to a broker; see `register`."""
        connection = await self.connections.get(address)
        empty: dict[str, Any] = {"consumerDataSet": [], "producerDataSet": []}
        body = write_fastjson(
            {"clientID": self.client_id, **empty, **self._members(), "heartbeatFingerprint": 0, "withoutSub": False}
        )
        await self.ask("heartbeat", address, RequestCode.HEART_BEAT, {}, body)
        self._registered[address] = connection

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to each master; a client with consumers sends it to the other brokers, too."""
        await self._for_brokers(self.send_heartbeat)

    async def register_everywhere(self) -> None:
        """Send a heartbeat to each broker that has had none on its present connection."""
        await self._for_brokers(self.register)

    async def _for_brokers(self, call: Callable[[str], Awaitable[None]]) -> None:
        consumes = bool(self._members().get("consumerDataSet"))
        for _, broker_id, address in sorted(self.routes.addresses()):
            if consumes or broker_id == MASTER:
                try:
                    await call(address)
                except ClientError as error:
                    log.warning("%s", error)

    def _take(self, connection: ClientConnection, frame: RemotingFrame) -> None:
        """Serve a request of a broker, or refuse it."""
        serve = self.served.get(frame.code)
        if serve is None:
            words = f" request type {frame.code} not supported"
            connection.answer(frame, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, words)
            return
        work = serve(frame, connection)
        if work is not None:
            self.go(_awaited(work))

    # --- end -----------------------------------------------------------------------------------

    def refuse_if_closed(self) -> None:
        """Raise ClosedError if the client is closed."""
        if self._is_closed:
            raise closed()

    async def stop_work(self) -> None:
        """End the work in the background."""
        self._is_closed = True
        own = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def unregister(self, **groups: str) -> None:
        """Leave the groups at each broker that has had a heartbeat; one that cannot be reached notices by itself."""
        for address, connection in list(self._registered.items()):
            if connection.is_open:
                with contextlib.suppress(ClientError):
                    fields = {"clientID": self.client_id, **groups}
                    await self.ask("unregister", address, RequestCode.UNREGISTER_CLIENT, fields)
        self._registered.clear()

    async def close(self) -> None:
        """Close the connections; end the work if that is not done."""
        await self.stop_work()
        await self.connections.close()


async def _awaited(work: Awaitable[None]) -> None:
    await work
