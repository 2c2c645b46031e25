"""The server of gRPC clients, on grpc's own transport, in the broker's loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from reput.broker.grpc.clients import Clients, GrpcCall, GrpcClient
from reput.broker.grpc.lite import sync_lite_subscription
from reput.broker.grpc.members import end_client, heartbeat
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import Code, Status
from reput.broker.grpc.receive import (
    MAX_ACK_BYTES,
    ack_message,
    change_invisible_duration,
    forward_to_dead_letters,
    receive_message,
)
from reput.broker.grpc.routes import query_assignment, query_route
from reput.broker.grpc.sends import end_transaction, recall_message, send_message
from reput.broker.grpc.settings import LONGEST_POLL_MS
from reput.broker.grpc.statuses import RefusedCallError, code_of, refuse_call, status_of
from reput.broker.grpc.telemetry import Telemetry
from reput.broker.services.due import each_time
from reput.broker.state.consumers import MAX_CLIENT_ID
from reput.broker.wire.answers import answer_of_error
from reput.broker.wire.refusals import RefusedError
from reput.errors import ConfigError, ReputError

if TYPE_CHECKING:
    from reput.broker.grpc.certificates import Certificate
    from reput.broker.services.broker import Broker
    from reput.broker.wire.access import AccessKeys

log = logging.getLogger("reput.broker")
SERVICE: Final = "apache.rocketmq.v2.MessagingService"
MAX_REQUEST: Final = 32 << 20
"""The most bytes of a request; a larger one is refused with RESOURCE_EXHAUSTED, before it is read."""
MAX_CALLS: Final = 20_000
"""The most calls under way, streams among them; a further one is refused with RESOURCE_EXHAUSTED."""
MAX_STREAMS: Final = 2000
"""The most calls of a connection under way; a further one waits in the client."""
_MAX_METADATA = 16 << 10
_SWEEP_S = 5.0
_STOP_S = 1.0
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_REQUEST),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # Of calls that come at once gRPC cancels some at random from the 1000th on, which no client expects.
    ("grpc.server.max_pending_requests", MAX_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_CALLS),
    ("grpc.max_metadata_size", _MAX_METADATA),
    # A second server at the port is an error.
    ("grpc.so_reuseport", 0),
)


Serves = Callable[["GrpcServer", GrpcClient, Any], Awaitable[Any]]
"""Serves a call: returns its answer."""


async def _query_route(server: GrpcServer, client: GrpcClient, request: protocol.QueryRouteRequest) -> Any:  # noqa: ARG001 - as all calls
    return query_route(server.broker, request, server.own_address)


async def _query_assignment(server: GrpcServer, client: GrpcClient, request: protocol.QueryAssignmentRequest) -> Any:  # noqa: ARG001 - as all calls
    return query_assignment(server.broker, request, server.own_address)


async def _heartbeat(server: GrpcServer, client: GrpcClient, request: protocol.HeartbeatRequest) -> Any:
    return await heartbeat(server.broker, client, request)


async def _end_client(server: GrpcServer, client: GrpcClient, request: protocol.NotifyClientTerminationRequest) -> Any:
    return end_client(server.clients, client, request)


async def _send(server: GrpcServer, client: GrpcClient, request: protocol.SendMessageRequest) -> Any:
    return await send_message(server.broker, GrpcCall(client), request)


async def _end_transaction(server: GrpcServer, client: GrpcClient, request: protocol.EndTransactionRequest) -> Any:
    return await end_transaction(server.broker, GrpcCall(client), request)


async def _recall(server: GrpcServer, client: GrpcClient, request: protocol.RecallMessageRequest) -> Any:
    return await recall_message(server.broker, GrpcCall(client), request)


async def _ack(server: GrpcServer, client: GrpcClient, request: protocol.AckMessageRequest) -> Any:
    return await ack_message(server.broker, client, request)


async def _change(server: GrpcServer, client: GrpcClient, request: protocol.ChangeInvisibleDurationRequest) -> Any:
    return await change_invisible_duration(server.broker, client, request)


async def _forward(
    server: GrpcServer, client: GrpcClient, request: protocol.ForwardMessageToDeadLetterQueueRequest
) -> Any:
    return await forward_to_dead_letters(server.broker, client, request)


async def _sync_lite(server: GrpcServer, client: GrpcClient, request: protocol.SyncLiteSubscriptionRequest) -> Any:
    return sync_lite_subscription(server.broker, client, request)


async def _unsupported(server: GrpcServer, client: GrpcClient, request: Any) -> Any:  # noqa: ARG001 - as all calls
    refuse_call(Code.UNSUPPORTED, f"reput serve does not support {type(request).__name__.removesuffix('Request')}")


METHODS: Final[dict[str, Serves]] = {
    "QueryRoute": _query_route,
    "Heartbeat": _heartbeat,
    "SendMessage": _send,
    "QueryAssignment": _query_assignment,
    "AckMessage": _ack,
    "ChangeInvisibleDuration": _change,
    "ForwardMessageToDeadLetterQueue": _forward,
    "UpdateOffset": _unsupported,
    "GetOffset": _unsupported,
    "QueryOffset": _unsupported,
    "EndTransaction": _end_transaction,
    "NotifyClientTermination": _end_client,
    "RecallMessage": _recall,
    "SyncLiteSubscription": _sync_lite,
}
"""The calls that have one answer."""
STREAMS: Final = ("ReceiveMessage", "PullMessage")
"""The calls that have an answer in several parts."""


class GrpcServer:
    """Serves the gRPC clients of a broker. All methods run in the loop.

    Args:
        broker: the broker.
        address: `host:port` to listen on.
        own_address: `host:port` at which clients reach it that do not say how they do.
        access_keys: the keys with which clients sign; None to check nothing.
        certificate: what TLS shows to clients; None speaks plain text.
    """

    def __init__(
        self,
        broker: Broker,
        address: str,
        own_address: str,
        access_keys: AccessKeys | None,
        certificate: Certificate | None = None,
    ) -> None:
        self.broker = broker
        self.own_address = own_address
        self._address = address
        self._access_keys = access_keys
        self._certificate = certificate
        self._loop = asyncio.get_running_loop()
        self.clients = Clients(broker, self._loop)
        self._server = aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)
        handlers = {name: self._unary(name, serve) for name, serve in METHODS.items()}
        handlers["ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(self._receive, None, _encoded)
        handlers["PullMessage"] = grpc.unary_stream_rpc_method_handler(self._pull, None, _encoded)
        handlers["Telemetry"] = grpc.stream_stream_rpc_method_handler(self._telemetry, None, _encoded)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._streams: dict[asyncio.Future[None], Telemetry] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        try:
            if self._certificate is None:
                self._server.add_insecure_port(self._address)
            else:
                pair = (self._certificate.key, self._certificate.chain)
                self._server.add_secure_port(self._address, grpc.ssl_server_credentials([pair]))
        except RuntimeError as error:
            raise ConfigError(f"cannot listen on {self._address} for gRPC: {error}") from error
        await self._server.start()
        sweeps = each_time(_SWEEP_S, self._look_around, "the broker has not looked after its clients of gRPC now")
        self._sweeper = self._loop.create_task(sweeps)

    async def stop(self) -> None:
        """Take no more calls; end the clients' streams at once, and other calls within a second."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for stream in self._streams:
            stream.cancel()
        await self._server.stop(_STOP_S)

    async def _look_around(self) -> None:
        self.clients.look_around()
        for stream, telemetry in self._streams.items():
            if telemetry.client.is_gone:
                # It counts in the calls that are served at a time. A client that lives opens another one.
                stream.cancel()

    # --- calls ---------------------------------------------------------------------------------

    def _caller(self, context: aio.ServicerContext[Any, Any]) -> GrpcClient:
        """Return the client of a call; refuse one that does not say who it is, or may not be served."""
        metadata = {name: text for name, text in context.invocation_metadata() or () if isinstance(text, str)}
        client_id = metadata.get("x-mq-client-id", "")
        if not client_id.strip() or len(client_id) > MAX_CLIENT_ID:
            words = f"client id cannot be empty, or longer than {MAX_CLIENT_ID} characters"
            refuse_call(Code.CLIENT_ID_REQUIRED, words)
        refusal = None if self._access_keys is None else self._access_keys.refusal_of_call(metadata)
        if refusal is not None:
            refuse_call(Code.UNAUTHORIZED, refusal)
        client = self.clients.heard(client_id, metadata.get("x-mq-language", ""), context.peer())
        if client is None:
            refuse_call(Code.TOO_MANY_REQUESTS, f"the broker has {len(self.clients)} clients, and takes no more")
        return client

    async def _answer(self, name: str, serve: Serves, request: bytes, context: aio.ServicerContext[Any, Any]) -> Any:
        """Return the answer of a call, or its refusal. No error ends the broker."""
        asked, answer = _messages_of(name)
        try:
            if len(request) > (most := _MOST_BYTES.get(name, MAX_REQUEST)):
                refuse_call(Code.BAD_REQUEST, f"the call has {len(request)} bytes: send {most} at most")
            return await serve(self, self._caller(context), _decoded(asked, request))
        except _REFUSALS as refusal:
            return answer(status=_status_of(refusal))
        except Exception as error:  # an error of ours must not end the client's connection
            log.exception("gRPC call %s of %s failed", name, context.peer())
            return answer(status=status_of(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    def _unary(self, name: str, serve: Serves) -> Any:
        async def handle(request: bytes, context: aio.ServicerContext[Any, Any]) -> Any:
            return await self._answer(name, serve, request, context)

        return grpc.unary_unary_rpc_method_handler(handle, None, _encoded)

    async def _receive(
        self, request: bytes, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[protocol.ReceiveMessageResponse]:
        """Give messages; a refusal is an answer, too."""
        remaining_s = context.time_remaining()
        remaining_ms = LONGEST_POLL_MS if remaining_s is None else int(remaining_s * 1000)
        try:
            asked = _decoded(protocol.ReceiveMessageRequest, request)
            async with aclosing(receive_message(self.broker, self._caller(context), asked, remaining_ms)) as parts:
                async for part in parts:
                    yield part
        except _REFUSALS as refusal:
            yield protocol.ReceiveMessageResponse(status=_status_of(refusal))
        except Exception as error:  # an error of ours must not end the client's connection
            log.exception("gRPC call ReceiveMessage of %s failed", context.peer())
            status = status_of(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
            yield protocol.ReceiveMessageResponse(status=status)

    async def _pull(self, request: bytes, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        yield await self._answer("PullMessage", _unsupported, request, context)

    async def _telemetry(self, received: AsyncIterator[bytes], context: aio.ServicerContext[Any, Any]) -> None:
        """Serve a client's stream; end it with a status of gRPC if it cannot be."""
        try:
            telemetry = Telemetry(self.broker, self._caller(context), context.write)
            commands = (_decoded(protocol.TelemetryCommand, data) async for data in received)
            stream = asyncio.ensure_future(telemetry.serve(commands, lambda: self._caller(context)))
            self._streams[stream] = telemetry
            try:
                # A stream that the broker cancels ends as if the client had ended it, and clients open another one.
                await asyncio.wait({stream})
            finally:
                del self._streams[stream]
                stream.cancel()
            if not stream.cancelled():
                stream.result()
        except RefusedCallError as refusal:
            kind = grpc.StatusCode.UNAUTHENTICATED if refusal.code == Code.UNAUTHORIZED else _INVALID
            await context.abort(kind, f"{Code.Name(refusal.code)}: {refusal.words}")


_MOST_BYTES: Final = {"AckMessage": MAX_ACK_BYTES}
"""Bounds of calls whose messages take much more memory than their bytes."""
_INVALID: Final = grpc.StatusCode.INVALID_ARGUMENT
_REFUSALS: Final = (RefusedCallError, RefusedError, ReputError)


def _status_of(refusal: Exception) -> Status:
    """Return the status for a refusal of the call, of the broker, or of the store."""
    if isinstance(refusal, RefusedCallError):
        return status_of(refusal.code, refusal.words)
    if isinstance(refusal, ReputError):
        answer = answer_of_error(refusal)
        return status_of(code_of(answer.code), answer.remark)
    assert isinstance(refusal, RefusedError)
    return status_of(code_of(refusal.code), refusal.remark)


def _decoded(kind: Any, data: bytes) -> Any:
    """Return the message of a request; refuse other bytes."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        refuse_call(Code.BAD_REQUEST, f"the request is no {kind.DESCRIPTOR.name}: {error}")


def _encoded(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


@cache
def _messages_of(name: str) -> tuple[Any, Any]:
    """Return the messages of a call: what is asked and what is answered."""
    return getattr(protocol, f"{name}Request"), getattr(protocol, f"{name}Response")
