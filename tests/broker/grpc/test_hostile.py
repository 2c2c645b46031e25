"""Bytes of any kind on the gRPC port leave the broker's other clients served."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import grpc
import pytest

from broker.grpc.stubs import GrpcClient, message
from broker.remoting import bodies
from reput.broker.grpc import server
from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.broker.grpc.protocol.service_pb2 import SendMessageResponse
from support.search import cases

if TYPE_CHECKING:
    import reput
    from broker.remoting import Client

pytestmark = pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)


def connect(address: str) -> socket.socket:
    """Connect without any protocol."""
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), 20)


def recorded(address: str) -> bytes:
    """The bytes that a client sends for one message."""
    taken = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as relay:
        relay.settimeout(20)

        def forward(source: socket.socket, target: socket.socket, keeps: bool) -> None:
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    if keeps:
                        taken.extend(data)
                    target.sendall(data)

        with GrpcClient("{}:{}".format(*relay.getsockname())) as client:
            sent: list[object] = []
            sender = threading.Thread(target=lambda: sent.append(client.send(message(body=b"recorded"))))
            sender.start()
            near, _ = relay.accept()
            with closing(near), closing(connect(address)) as far:
                ways = [(near, far, True), (far, near, False)]
                threads = [threading.Thread(target=forward, args=way, daemon=True) for way in ways]
                for thread in threads:
                    thread.start()
                sender.join(20)
                assert sent
                for one in (near, far):
                    one.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join(20)
    return bytes(taken)


def test_a_connection_may_be_cut_at_any_byte(broker: reput.RunningBroker, client: GrpcClient, remoting: Client) -> None:
    """A message that was sent whole is stored at most once a connection, and the next client is served."""
    data = recorded(client.address)
    assert b"recorded" in data
    cuts = range(0, len(data), cases(7, 1))
    for cut in cuts:
        with connect(client.address) as one:
            one.sendall(data[:cut])
    assert client.send(message(body=b"last")).status.code == Code.OK
    found = [body for queue_id in range(4) for body in bodies(remoting.pull("orders", queue_id))]
    assert found.count(b"last") == 1
    assert 1 <= found.count(b"recorded") <= len(cuts) + 1


def test_garbage_is_no_call(broker: reput.RunningBroker, client: GrpcClient) -> None:
    """Random bytes, with and without the preface of HTTP/2 before them, end their connection alone."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for number in range(cases(40, 400)):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if number % 2 else b""
        with connect(client.address) as one, suppress(OSError):
            one.sendall(preface + chance.randbytes(chance.randrange(1, 2000)))
    assert client.send(message()).status.code == Code.OK, seed


def test_a_request_that_is_no_message_is_refused(broker: reput.RunningBroker, client: GrpcClient) -> None:
    """By the protocol's code; one that is too large by gRPC's own status, before it is read."""
    stub = client.channel.unary_unary(f"/{server.SERVICE}/SendMessage", None, SendMessageResponse.FromString)
    answer = stub(b"\xff" * 50, metadata=client.metadata, timeout=20)
    assert (answer.status.code, "SendMessageRequest" in answer.status.message) == (Code.BAD_REQUEST, True)
    with pytest.raises(grpc.RpcError) as caught:
        stub(bytes(server.MAX_REQUEST + 1), metadata=client.metadata, timeout=20)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    stream = client.channel.stream_stream(f"/{server.SERVICE}/Telemetry")
    with pytest.raises(grpc.RpcError) as caught:
        next(stream(iter([b"\xff" * 50]), metadata=client.metadata, timeout=20))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert client.send(message()).status.code == Code.OK
