"""Clients that speak gRPC, and their requests to the broker.

A client is known by the id that it names in each call, whatever connections it uses. It is a member of its groups while
it is heard from; when it is silent for long, its membership ends.

Source: `GrpcClientChannel`, `GrpcChannelManager`, `ContextInitPipeline`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from reput.broker.grpc.leased import HeldMessages
from reput.broker.handlers.alone import serve_alone
from reput.broker.wire.answers import Answer
from reput.broker.wire.byte_bound import ByteBound
from reput.broker.wire.channel import numbers
from reput.broker.wire.requests import Request
from reput.formats.log.record import Host
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.remoting import LANGUAGES, VERSION, RemotingFrame

if TYPE_CHECKING:
    from reput.broker.grpc.protocol.definition_pb2 import Settings
    from reput.broker.services.broker import Broker

log = logging.getLogger("reput.broker")
SILENT_S: Final = 120.0
"""A client that is not heard from for this time is forgotten. Clients send a heartbeat every 10 s."""
GONE_S: Final = 30.0
"""The same for a client whose stream has ended, such as one that was killed."""
MAX_CLIENTS: Final = 100_000
"""The most clients; the calls of a further one are refused."""
MAX_COMMANDS: Final = 1000
"""The most commands that wait for a client's stream; a further one is left out."""
MAX_COMMAND_BYTES: Final = 64 << 20
"""The most bytes of the commands that wait for all clients' streams."""
MAX_SETTINGS_BYTES: Final = 64 << 20
"""The most bytes of the settings of all clients."""
_UNKNOWN: Final = Host(bytes(4), 0)
_LANGUAGES: Final = {"GOLANG": "GO", "DOT_NET": "DOTNET", "C_SHARP": "DOTNET", "CSHARP": "DOTNET"}
"""Names of languages that the remoting protocol spells in another way."""


@lru_cache(1024)
def host_of(peer: str) -> Host:
    """Return the address of gRPC's text for a peer, such as `ipv4:127.0.0.1:4711`; zeros if it has none."""
    kind, _, rest = unquote(peer).partition(":")
    address, _, port = rest.rpartition(":")
    try:
        return Host(ipaddress.ip_address(address.strip("[]")).packed, int(port)) if kind.startswith("ipv") else _UNKNOWN
    except ValueError:
        return _UNKNOWN


def language_of(name: str) -> int:
    """Return the number of a language that a client names, as the remoting protocol has it."""
    known = _LANGUAGES.get(name.upper(), name.upper())
    return LANGUAGES.index(known if known in LANGUAGES else "OTHER")


class ClientBounds:
    """The bounds of what all clients hold together."""

    __slots__ = ("commands", "settings")

    def __init__(self) -> None:
        self.settings = ByteBound(MAX_SETTINGS_BYTES)
        self.commands = ByteBound(MAX_COMMAND_BYTES)


class GrpcClient:
    """A client. It is a `Channel`: the broker asks it by commands on its stream.

    Args:
        client_id: the id that it names.
        language: the number of its language.
        now_s: the loop's time.
        bounds: the bounds of what all clients hold.

    Attributes:
        peer: Its address, as of its last call.
        own_address: The address at which it reaches the broker.
        settings: The settings that it has sent last.
        groups: Its producer groups and its consumer groups, as they are registered.
        held: The messages that it holds, whose leases are renewed.
        heard_s: The loop's time of its last call.
        is_gone: It is forgotten. A later call with its id makes another one.
        wakes: Is called when a command waits; None without a stream.
    """

    def __init__(self, client_id: str, language: int, now_s: float, bounds: ClientBounds) -> None:
        self.client_id = client_id
        self.language = language
        self.number = next(numbers)
        self.peer = _UNKNOWN
        self.own_address = ""
        self.settings: Settings | None = None
        self.groups: set[tuple[str, str]] = set()
        self.held = HeldMessages()
        self.heard_s = now_s
        self.is_gone = False
        self.wakes: Callable[[], object] | None = None
        self.bounds = bounds
        self._commands: deque[RemotingFrame] = deque()
        self._asked: dict[int, asyncio.Future[Answer]] = {}

    @property
    def is_open(self) -> bool:
        """True while it has a stream."""
        return self.wakes is not None

    def answer(self, asked: RemotingFrame, answer: Answer) -> None:
        """Note the answer to a request of `ask`."""
        waiting = self._asked.pop(id(asked), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def send(self, frame: RemotingFrame, pieces: Sequence[bytes | memoryview] = (), size: int = 0) -> None:  # noqa: ARG002 - as all channels
        """Put a request of the broker before the client's stream."""
        if self.wakes is None or frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            # Clients of gRPC ask for their queues again and again.
            return
        frame.body = b"".join(pieces)
        if len(self._commands) >= MAX_COMMANDS or not self.bounds.commands.take(len(frame.body)):
            words = "%s: a command is left out: %d wait for it, and %d bytes for all clients, which read none"
            log.warning(words, self.peer, len(self._commands), self.bounds.commands.held)
            return
        self._commands.append(frame)
        self.wakes()

    def next_command(self) -> RemotingFrame | None:
        """Take the oldest command that waits."""
        if not self._commands:
            return None
        frame = self._commands.popleft()
        self.bounds.commands.give_back(len(frame.body))
        return frame

    def end_stream(self) -> None:
        """Note that it has no stream: what waits for it is dropped."""
        self.wakes = None
        while self.next_command() is not None:
            pass

    def keep(self, settings: Settings | None) -> None:
        """Keep its last settings, whose bytes `bounds` has taken."""
        if self.settings is not None:
            self.bounds.settings.give_back(self.settings.ByteSize())
        self.settings = settings

    def frame(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> RemotingFrame:
        """Return a request of the client as one of the remoting protocol."""
        return RemotingFrame(code, 0, 0, None, fields, body, self.language, VERSION)

    def ask(self, broker: Broker, code: int, fields: Mapping[str, str], body: bytes = b"") -> asyncio.Future[Answer]:
        """Serve a request about the client's membership at once; its answer waits for what must be durable."""
        frame = self.frame(code, fields, body)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[id(frame)] = answer
        serve_alone(broker, Request(self, frame))
        return answer


class GrpcCall:
    """A request of a client that may be answered later: a `Channel` for the time of the request."""

    __slots__ = ("_answer", "_client")

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @property
    def number(self) -> int:
        """The client's number."""
        return self._client.number

    @property
    def peer(self) -> Host:
        """The client's address."""
        return self._client.peer

    @property
    def own_address(self) -> str:
        """The address at which the client reaches the broker."""
        return self._client.own_address

    @property
    def is_open(self) -> bool:
        """True until it is answered, or given up."""
        return not self._answer.done()

    def answer(self, asked: RemotingFrame, answer: Answer) -> None:  # noqa: ARG002 - as all channels
        """Take the answer."""
        if not self._answer.done():
            self._answer.set_result(answer)

    def send(self, frame: RemotingFrame, pieces: Sequence[bytes | memoryview] = (), size: int = 0) -> None:
        """Send a request of the broker to the client."""
        self._client.send(frame, pieces, size)

    async def ask(self, broker: Broker, code: int, fields: Mapping[str, str], body: bytes = b"") -> Answer:
        """Serve a request and wait for its answer. What is held for it is dropped when the wait is cancelled."""
        serve_alone(broker, Request(self, self._client.frame(code, fields, body)))
        return await self._answered(broker)

    async def answer_of(self, broker: Broker, code: int, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returns, or its refusal, when the topics and groups that it makes or uses are durable."""
        broker.guarded(Request(self, self._client.frame(code, {})), work)
        return await self._answered(broker)

    async def _answered(self, broker: Broker) -> Answer:
        try:
            return await self._answer
        except asyncio.CancelledError:
            broker.connection_lost(self)
            raise


class Clients:
    """The clients that are known. All methods run in the loop's thread."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._bounds = ClientBounds()
        self._by_id: dict[str, GrpcClient] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def heard(self, client_id: str, language: str, peer: str) -> GrpcClient | None:
        """Return the client of a call; None if there are too many."""
        found = self._by_id.get(client_id)
        if found is None:
            if len(self._by_id) >= MAX_CLIENTS:
                return None
            found = self._by_id[client_id] = GrpcClient(
                client_id, language_of(language), self._loop.time(), self._bounds
            )
        found.heard_s = self._loop.time()
        found.peer = host_of(peer)
        return found

    def forget(self, client: GrpcClient) -> None:
        """End a client's membership in all groups."""
        if self._by_id.get(client.client_id) is client:
            del self._by_id[client.client_id]
        client.is_gone = True
        self._broker.connection_lost(client)
        client.groups.clear()
        client.held.give_back(self._broker)
        client.end_stream()
        client.keep(None)

    def look_around(self) -> None:
        """Forget the clients that are not heard from any more, and renew the leases of the others."""
        now = self._loop.time()
        for client in list(self._by_id.values()):
            if now - client.heard_s > (SILENT_S if client.is_open else GONE_S):
                self.forget(client)
            else:
                client.held.renew(self._broker)
