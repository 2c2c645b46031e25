"""Calls of clients about themselves: that they live, and that they end.

Source: `ClientActivity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.broker.grpc.checks import group_of
from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.broker.grpc.protocol.service_pb2 import (
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
)
from reput.broker.grpc.settings import register
from reput.broker.grpc.statuses import refuse_call, status_of

if TYPE_CHECKING:
    from reput.broker.grpc.clients import Clients, GrpcClient
    from reput.broker.services.broker import Broker


async def heartbeat(broker: Broker, client: GrpcClient, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep a client in its groups."""
    if client.settings is None:
        refuse_call(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
    if client.settings.HasField("subscription"):
        group_of(request.group)
    await register(broker, client, client.settings)
    return HeartbeatResponse(status=status_of(Code.OK))


def end_client(
    clients: Clients, client: GrpcClient, request: NotifyClientTerminationRequest
) -> NotifyClientTerminationResponse:
    """End a client's membership in all groups; what it holds comes again soon."""
    if client.settings is not None and client.settings.HasField("subscription"):
        group_of(request.group)
    clients.forget(client)
    return NotifyClientTerminationResponse(status=status_of(Code.OK))
