"""A client of gRPC, as the broker knows it."""

from __future__ import annotations

import pytest

from reput.broker.grpc import clients
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.remoting import RemotingFrame


def waiting(client: clients.GrpcClient) -> int:
    """Take the commands that wait for a client; return their number."""
    count = 0
    while client.next_command() is not None:
        count += 1
    return count


def send(client: clients.GrpcClient, body: bytes = b"") -> None:
    """Send a command to a client."""
    client.send(RemotingFrame(RequestCode.CHECK_TRANSACTION_STATE), (body,))


def test_commands_for_a_client_that_does_not_read_are_bounded() -> None:
    """Further ones are left out; without a stream all are."""
    client = clients.GrpcClient("slow", 0, 0.0, clients.ClientBounds())
    send(client)
    assert waiting(client) == 0
    client.wakes = lambda: None
    for _ in range(clients.MAX_COMMANDS + 5):
        send(client)
    assert waiting(client) == clients.MAX_COMMANDS


def test_the_bytes_of_commands_are_bounded_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that would hold too many bytes is left out, until others are taken or their stream ends."""
    monkeypatch.setattr(clients, "MAX_COMMAND_BYTES", 10)
    bounds = clients.ClientBounds()
    first, second = (clients.GrpcClient(name, 0, 0.0, bounds) for name in "ab")
    first.wakes = second.wakes = lambda: None
    send(first, bytes(7))
    send(second, bytes(7))
    assert waiting(second) == 0
    first.end_stream()
    send(second, bytes(7))
    assert waiting(second) == 1
    assert bounds.commands.held == 0
