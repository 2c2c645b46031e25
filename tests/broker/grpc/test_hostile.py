"""Bytes and calls of any kind on the gRPC port leave the broker's other clients served."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import grpc
import pytest

from broker.grpc.stubs import GrpcClient, message
from broker.remoting import bodies
from reput.broker.grpc import receive, server
from reput.broker.grpc.protocol.definition_pb2 import Code, Resource
from reput.broker.grpc.protocol.service_pb2 import (
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageResponse,
)
from reput.broker.services import polls, waiting
from support.search import cases, takes_long
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

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


def cut_after(address: str, most: int, work: Callable[[GrpcClient], object]) -> None:
    """Let a client work by way of a relay that cuts its connection after some bytes of the broker's answers."""
    with socket.create_server(("127.0.0.1", 0)) as relay:
        relay.settimeout(20)

        def carry(near: socket.socket, far: socket.socket) -> None:
            with suppress(OSError):
                while data := near.recv(1 << 16):
                    far.sendall(data)

        def answer(near: socket.socket, far: socket.socket) -> None:
            left = most
            with suppress(OSError):
                while left > 0 and (data := far.recv(left)):
                    near.sendall(data)
                    left -= len(data)
            for one in (near, far):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        with GrpcClient("{}:{}".format(*relay.getsockname())) as client:
            worker = threading.Thread(target=work, args=(client,))
            worker.start()
            near, _ = relay.accept()
            # A client that connects again is refused at once.
            relay.close()
            with closing(near), closing(connect(address)) as far:
                threads = [threading.Thread(target=one, args=(near, far), daemon=True) for one in (carry, answer)]
                for thread in threads:
                    thread.start()
                worker.join(20)
                assert not worker.is_alive()
                for one in (near, far):
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join(20)


def test_an_answer_may_be_cut_at_any_byte(
    broker: reput.RunningBroker, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages whose answer did not reach their consumer come again, each as it was sent; none is lost."""
    monkeypatch.setattr(receive, "SHORTEST_LEASE_MS", 1)
    sent = {b"%d" % number + bytes(300) for number in range(8)}
    for body in sent:
        assert client.send(message(body=body)).status.code == Code.OK
    asked = ReceiveMessageRequest.FromString(question())
    asked.invisible_duration.FromMilliseconds(50)
    asked.long_polling_timeout.FromMilliseconds(1)
    data = asked.SerializeToString()

    def work(cut: GrpcClient) -> None:
        stub = cut.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
        with suppress(grpc.RpcError):
            list(stub(data, metadata=cut.metadata, timeout=5))

    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    # Not as often as makes dead letters of them.
    for _ in range(cases(8, 15)):
        cut_after(client.address, chance.randrange(1, 4000), work)
    found: dict[bytes, int] = {}
    stub = client.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
    deadline = time.monotonic() + 60
    while found.keys() < sent:
        assert time.monotonic() < deadline, (seed, len(found))
        for part in stub(question(), metadata=client.metadata, timeout=30):
            if part.WhichOneof("content") == "message":
                found[part.message.body] = found.get(part.message.body, 0) + 1
    assert found == dict.fromkeys(sent, 1), seed


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


RECEIVE = f"/{server.SERVICE}/ReceiveMessage"


def question(topic: str = "orders", lease_s: int = 10, **further: str) -> bytes:
    """The question of a consumer that waits long for messages."""
    request = ReceiveMessageRequest(group=Resource(name="readers"), batch_size=32, **further)
    request.message_queue.topic.name = topic
    request.invisible_duration.seconds, request.long_polling_timeout.seconds = lease_s, 20
    return request.SerializeToString()


async def first_parts(client: GrpcClient, count: int, settled: int) -> list[ReceiveMessageResponse]:
    """The first parts of those open calls that are answered at once; the others are given up."""
    async with grpc.aio.insecure_channel(client.address) as channel:
        stub = channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
        calls = [stub(question(), metadata=client.metadata, timeout=30) for _ in range(count)]
        reads = [asyncio.ensure_future(call.read()) for call in calls]
        for _ in range(2000):
            if sum(one.done() for one in reads) >= count - settled:
                break
            await asyncio.sleep(0.01)
        answered = [one.result() for one in reads if one.done()]
        for call in calls:
            call.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        return answered


@takes_long
def test_open_polls_are_bounded(broker: reput.RunningBroker, client: GrpcClient) -> None:
    """Those beyond the line of a group are refused by the protocol's code; those that are given up hold nothing."""
    count = cases(polls.MAX_LINE + 20, 10_000)
    with GrpcClient(client.address) as other:
        while count > 0:
            some = min(count, server.MAX_STREAMS)
            answered = asyncio.run(first_parts(client, some, polls.MAX_LINE))
            assert [one.status.code for one in answered] == [Code.TOO_MANY_REQUESTS] * (some - polls.MAX_LINE)
            assert other.send(message("fifo", message_group="a", kind=2)).status.code == Code.OK
            wait_until(lambda: len(broker._broker.polls) == 0)
            count -= some


def test_calls_that_come_at_once_were_cancelled_at_random(client: GrpcClient) -> None:
    """More calls than gRPC holds by default before they are taken are all answered."""
    some = polls.MAX_LINE + 500
    answered = asyncio.run(first_parts(client, some, polls.MAX_LINE))
    assert [one.status.code for one in answered] == [Code.TOO_MANY_REQUESTS] * (some - polls.MAX_LINE)


def test_a_poll_counts_its_bytes(client: GrpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with many bytes is not held ten thousand times."""
    monkeypatch.setattr(waiting, "MAX_WAITING_BYTES", 100_000)
    stub = client.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
    request = ReceiveMessageRequest.FromString(question())
    request.message_queue.broker.name = "b" * 200_000
    parts = list(stub(request.SerializeToString(), metadata=client.metadata, timeout=30))
    assert [one.status.code for one in parts] == [Code.TOO_MANY_REQUESTS]


def test_the_id_of_an_attempt_is_short(client: GrpcClient) -> None:
    """It is kept for a day with what a group holds in order, so a long one is refused."""
    stub = client.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
    parts = list(stub(question(attempt_id="a" * 1025), metadata=client.metadata, timeout=30))
    assert [one.status.code for one in parts] == [Code.BAD_REQUEST]


def test_readers_that_do_not_read_hold_up_nobody(
    broker: reput.RunningBroker, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served meanwhile; what they were not given comes again once they are gone."""
    monkeypatch.setattr(receive, "SHORTEST_LEASE_MS", 1000)
    sent = {b"%d" % number + bytes(200_000) for number in range(20)}
    for body in sent:
        assert client.send(message(body=body)).status.code == Code.OK
    with GrpcClient(client.address) as slow:
        stub = slow.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
        calls = [stub(question(lease_s=1), metadata=slow.metadata, timeout=30) for _ in range(30)]
        wait_until(lambda: len(broker._broker.polls) > 0)
        assert client.send(message("fifo", message_group="a", kind=2)).status.code == Code.OK
        stub = client.channel.unary_stream(RECEIVE, None, ReceiveMessageResponse.FromString)
        status, got, _ = stub(question("fifo"), metadata=client.metadata, timeout=30)
        assert (status.status.code, got.message.body) == (Code.OK, b"body")
        for call in calls:
            call.cancel()
    found: set[bytes] = set()
    while found < sent:
        parts = list(stub(question(lease_s=1), metadata=client.metadata, timeout=30))
        found |= {one.message.body for one in parts if one.WhichOneof("content") == "message"}
    assert found == sent
    wait_until(lambda: len(broker._broker.polls) == 0)
