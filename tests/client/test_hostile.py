"""Servers that are no broker, or that answer anything: a client ends with an error of its own, and hangs nowhere."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.client.received import messages_in
from reput.formats.log.record import Record, encode_record
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.remoting import FrameError, FrameReader, RemotingFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

R = RequestCode


@contextlib.contextmanager
def serving(answer: Callable[[RemotingFrame, str], bytes]) -> Iterator[str]:
    """A server that answers each request with the bytes that `answer` makes of it and of the address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reader = FrameReader()
            with contextlib.suppress(OSError, FrameError):
                while data := self.request.recv(1 << 16):
                    for frame in reader.feed(data):
                        self.request.sendall(answer(frame, address))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        address = "{}:{}".format(*server.server_address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


def answered(asked: RemotingFrame, code: int = 0, body: bytes = b"", **fields: str) -> bytes:
    """The bytes of an answer."""
    return frames.encode(RemotingFrame(code, asked.opaque, frames.IS_ANSWER, "remark", fields, body))


def route(address: str) -> bytes:
    """The route of a topic whose one queue is at the same address."""
    queues = {"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
    return json.dumps(
        {"brokerDatas": [{"brokerName": "b", "brokerAddrs": {"0": address}}], "queueDatas": [queues]}
    ).encode()


def test_what_speaks_another_protocol_is_named() -> None:
    """A server of HTTP: the error says what answers there."""
    with (
        serving(lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n") as address,
        reput.Producer("senders", address) as producer,
        pytest.raises(reput.UnreachableError, match="another protocol"),
    ):
        producer.send(reput.Message("orders", b"x"))


@pytest.mark.parametrize("fields", [{}, {"msgId": "x", "queueId": "q", "queueOffset": "0"}, {"msgId": "x"}])
def test_an_answer_without_a_place_is_an_error(fields: dict[str, Any]) -> None:
    """A success of a send that names no place is a ClientError."""

    def answer(asked: RemotingFrame, address: str) -> bytes:
        return (
            answered(asked, body=route(address))
            if asked.code == R.GET_ROUTEINFO_BY_TOPIC
            else answered(asked, **fields)
        )

    with (
        serving(answer) as address,
        reput.Producer("senders", address) as producer,
        pytest.raises(reput.ClientError, match="without its place"),
    ):
        producer.send(reput.Message("orders", b"x"))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"queueDatas":5}'])
def test_a_route_without_queues_is_no_route(body: bytes) -> None:
    """A route that names no queue is a NoRouteError, for whatever reason."""
    with (
        serving(lambda asked, _: answered(asked, body=body)) as address,
        reput.Producer("senders", address) as producer,
        pytest.raises(reput.NoRouteError, match="orders"),
    ):
        producer.send(reput.Message("orders", b"x"))


def test_a_busy_broker_is_tried_again() -> None:
    """A refusal that another try may pass is tried three times; another one only once."""
    for code, tries in ((2, 3), (13, 1)):
        sends: list[int] = []

        def answer(asked: RemotingFrame, address: str, code: int = code, sends: list[int] = sends) -> bytes:
            if asked.code == R.GET_ROUTEINFO_BY_TOPIC:
                return answered(asked, body=route(address))
            sends.append(asked.code)
            return answered(asked, code)

        with (
            serving(answer) as address,
            reput.Producer("senders", address) as producer,
            pytest.raises(reput.BrokerError, match="remark"),
        ):
            producer.send(reput.Message("orders", b"x"))
        # The last one is the producer's leave.
        assert sends.count(R.SEND_MESSAGE_V2) == tries


def test_a_busy_queue_passes_to_the_next_broker() -> None:
    """A further try goes to the other broker."""
    sends: list[str] = []

    def answer(asked: RemotingFrame, address: str) -> bytes:
        if asked.code == R.GET_ROUTEINFO_BY_TOPIC:
            queues = [{"brokerName": n, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4} for n in "ab"]
            brokers = [{"brokerName": n, "brokerAddrs": {"0": address}} for n in "ab"]
            return answered(asked, body=json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())
        if asked.code != R.SEND_MESSAGE_V2:
            return answered(asked)
        sends.append(asked.fields["n"])
        place = {"msgId": "0" * 32, "queueId": asked.fields["e"], "queueOffset": "0"}
        return answered(asked, 14) if len(sends) == 1 else answered(asked, **place)

    with serving(answer) as address, reput.Producer("senders", address) as producer:
        for _ in range(5):
            sends.clear()
            result = producer.send(reput.Message("orders", b"x"))
            assert sorted(sends) == ["a", "b"]
            assert result.broker_name == sends[1]


@given(st.data())
def test_any_bytes_of_messages_are_messages_or_an_error(data: st.DataObject) -> None:
    """Records that are cut or changed anywhere give messages or a ClientError, and nothing else."""
    whole = bytearray(
        b"".join(encode_record(Record(b"orders", b"body", b"TAGS\x01a\x02", queue_offset=n)) for n in range(3))
    )
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with contextlib.suppress(reput.ClientError):
        for message in messages_in(cut, "b", "host:1"):
            assert message.queue_offset == message.record.queue_offset
            assert isinstance(message.topic, str)
            with contextlib.suppress(reput.DamagedStoreError):
                assert isinstance(message.body, bytes)


def test_an_unknown_request_of_a_broker_is_refused(broker: reput.RunningBroker) -> None:
    """A consumer that is asked for what it does not serve says so, and the caller does not wait."""
    from broker.remoting import Client

    with reput.Consumer("readers", broker.address, {"line": "*"}) as consumer, Client(broker.address) as client:
        consumer.start()
        client_id = repr(consumer).rsplit(" ", 1)[-1].rstrip(">")
        fields = {"consumerGroup": "readers", "clientId": client_id}
        answer = client.ask(R.GET_CONSUMER_RUNNING_INFO, **fields)
    assert "not supported" in (answer.remark or "")
