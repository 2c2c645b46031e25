"""A client of gRPC, as the broker knows it."""

from __future__ import annotations

from reput.broker.grpc import clients
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.remoting import RemotingFrame


def test_commands_for_a_client_that_does_not_read_are_bounded() -> None:
    """Further ones are left out; without a stream all are."""
    client = clients.GrpcClient("slow", 0, 0.0)
    frame = RemotingFrame(RequestCode.CHECK_TRANSACTION_STATE)
    client.send(frame)
    assert len(client.commands) == 0
    client.wakes = lambda: None
    for _ in range(clients.MAX_COMMANDS + 5):
        client.send(frame)
    assert len(client.commands) == clients.MAX_COMMANDS
