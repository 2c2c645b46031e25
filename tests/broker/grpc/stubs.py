"""A small gRPC client for tests: the calls of RocketMQ's protocol, and a client's stream."""

from __future__ import annotations

import itertools
import queue
from typing import TYPE_CHECKING, Any, Self

import grpc

from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import (
    Address,
    AddressScheme,
    ClientType,
    Endpoints,
    FilterExpression,
    Message,
    MessageType,
    Resource,
    Settings,
    SystemProperties,
)
from reput.broker.grpc.server import SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TIMEOUT_S = 30.0
_ids = itertools.count(1)


class GrpcClient:
    """A client of the broker's gRPC port.

    Args:
        address: the port.
        client_id: the id that it names; by default another one each time.
        trusts: the certificate of TLS that it trusts; None speaks plain text.
        named: the name that the certificate is to have, if not that of the address.
        metadata: further headers of each call.
    """

    def __init__(
        self,
        address: str,
        client_id: str | None = None,
        *,
        trusts: bytes | None = None,
        named: str | None = None,
        **metadata: str,
    ) -> None:
        self.address = address
        self.client_id = f"client-{next(_ids)}" if client_id is None else client_id
        given = {name.replace("_", "-"): text for name, text in metadata.items()}
        self.metadata = [*{"x-mq-client-id": self.client_id, "x-mq-language": "PYTHON", **given}.items()]
        options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1)]
        if trusts is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            options += [] if named is None else [("grpc.ssl_target_name_override", named)]
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(trusts), options)

    def call(self, name: str, request: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Make a call that has one answer."""
        answer = getattr(protocol, f"{name}Response").FromString
        stub = self.channel.unary_unary(f"/{SERVICE}/{name}", _bytes_of, answer)
        return stub(request, timeout=timeout_s, metadata=self.metadata)

    def stream(self, name: str, request: Any, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """Make a call that has an answer in parts."""
        answer = getattr(protocol, f"{name}Response").FromString
        stub = self.channel.unary_stream(f"/{SERVICE}/{name}", _bytes_of, answer)
        return list(stub(request, timeout=timeout_s, metadata=self.metadata))

    def send(self, *messages: Message) -> Any:
        """Send messages."""
        return self.call("SendMessage", protocol.SendMessageRequest(messages=messages))

    def telemetry(self) -> Telemetry:
        """Open a stream."""
        return Telemetry(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()


class Telemetry:
    """A client's stream: commands that it sends, and those that come."""

    def __init__(self, client: GrpcClient) -> None:
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        command = protocol.TelemetryCommand
        stub = client.channel.stream_stream(f"/{SERVICE}/Telemetry", _bytes_of, command.FromString)
        self.call = stub(self._commands(), timeout=TIMEOUT_S, metadata=client.metadata)

    def _commands(self) -> Iterator[Any]:
        while (command := self._asked.get()) is not None:
            yield command

    def give(self, settings: Settings) -> Any:
        """Send settings, and wait for those that the broker answers."""
        self._asked.put(protocol.TelemetryCommand(settings=settings))
        return next(self.call).settings

    def say(self, command: protocol.TelemetryCommand) -> None:
        """Send a command."""
        self._asked.put(command)

    def next(self) -> Any:
        """Wait for a command of the broker."""
        return next(self.call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(None)
        self.call.cancel()


def _bytes_of(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def endpoints(address: str) -> Endpoints:
    """The endpoints of an address, as clients write them."""
    host, port = address.split(":")
    return Endpoints(scheme=AddressScheme.IPv4, addresses=[Address(host=host, port=int(port))])


def message(
    topic: str = "orders", body: bytes = b"body", kind: MessageType = MessageType.NORMAL, **system: Any
) -> Message:
    """A message, with an id of its own."""
    system = {"message_id": f"01{next(_ids):030X}", "message_type": kind, **system}
    return Message(topic=Resource(name=topic), body=body, system_properties=SystemProperties(**system))


def publishing(*topics: str) -> Settings:
    """The settings of a producer."""
    settings = Settings(client_type=ClientType.PRODUCER)
    settings.publishing.topics.extend(Resource(name=topic) for topic in topics)
    return settings


def subscribing(
    group: str, topics: Sequence[str] = ("orders",), kind: ClientType = ClientType.SIMPLE_CONSUMER, tags: str = "*"
) -> Settings:
    """The settings of a consumer."""
    settings = Settings(client_type=kind)
    settings.subscription.group.name = group
    for topic in topics:
        settings.subscription.subscriptions.add(
            topic=Resource(name=topic), expression=FilterExpression(expression=tags)
        )
    return settings
