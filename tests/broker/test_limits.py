"""The limits of a broker: each has its refusal, and other clients are served on. Clients vanish in every state."""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from broker.remoting import Client, bodies, pull_fields, send_fields, wait_until
from reput.broker import server
from reput.broker.services import holds
from reput.broker.state import state
from reput.broker.wire import connection
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.files import fs
from reput.formats import remoting as frames
from reput.log.append import append_file
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

R, C = RequestCode, ResponseCode


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with the topic `orders`; its store is sound afterwards."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 2}) as running:
        yield running
    assert_sound(path)


@pytest.fixture
def client(broker: reput.RunningBroker) -> Iterator[Client]:
    """A connection to the broker."""
    with Client(broker.address) as connected:
        yield connected


def closed(broker: reput.RunningBroker) -> dict[str, int]:
    """The connections that the broker has closed, by reason."""
    return dict(broker._broker.statistics.closed)


def ends(client: Client) -> bool:
    """Wait until the broker has closed a connection."""
    try:
        while client.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


# --- limits --------------------------------------------------------------------------------------


def test_connections_over_the_limit_are_closed(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than MAX_CONNECTIONS is closed at once; the others are served, and one that goes makes room."""
    client.put("orders")
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with Client(broker.address) as second:
        second.put("orders")
        with Client(broker.address) as third:
            assert ends(third)
        assert closed(broker) == {"too_many": 1}
        assert client.put("orders").code == C.SUCCESS
    wait_until(lambda: broker._server.open_connections == 1)
    with Client(broker.address) as again:
        assert again.put("orders").code == C.SUCCESS


@pytest.mark.parametrize("length", [frames.MAX_FRAME_SIZE - 3, 0x7FFFFFFF, -1, 0, 3])
def test_a_frame_of_a_wrong_length_ends_its_connection(
    broker: reput.RunningBroker, client: Client, length: int
) -> None:
    """A length above 16 MiB, or below a header's, is no frame: nothing is reserved for it."""
    with Client(broker.address) as wrong:
        wrong.socket.sendall(struct.pack(">ii", length, 0))
        assert ends(wrong)
    assert closed(broker) == {"no_frame": 1}
    assert client.put("orders").code == C.SUCCESS


def test_unread_input_is_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished frames of all connections together have a bound; the connection that passes it is closed."""
    monkeypatch.setattr(server, "MAX_INPUT", 100_000)
    half = struct.pack(">ii", 200_000, 100) + b"x" * 60_000
    with Client(broker.address) as first, Client(broker.address) as second:
        first.socket.sendall(half)
        wait_until(lambda: broker._server.input_bytes >= 60_000)
        second.socket.sendall(half)
        assert ends(second)
        assert closed(broker) == {"full_input": 1}
        assert client.put("orders").code == C.SUCCESS
    wait_until(lambda: broker._server.input_bytes == 0)


def test_held_pulls_are_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull above MAX_HELD is answered at once, as one that has found nothing."""
    monkeypatch.setattr(holds, "MAX_HELD", 1)
    waiting = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 30_000}
    number = client.send(R.PULL_MESSAGE, **pull_fields("orders", **waiting))
    assert client.pull("orders", 1, **waiting).code == C.PULL_NOT_FOUND
    assert len(broker._broker.holds) == 1
    client.put("orders", b"now")
    assert bodies(client.answer(number)) == [b"now"]


@pytest.mark.parametrize(("limit", "reason"), [("MAX_OUTPUT", "slow_reader"), ("MAX_ALL_OUTPUT", "full_output")])
def test_a_client_that_does_not_read_is_closed(
    broker: reput.RunningBroker, client: Client, limit: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that wait have a bound for each connection, and one for all; only the slow client is closed."""
    for _ in range(4):
        client.put("orders", random.randbytes(1 << 20))
    monkeypatch.setattr(connection if limit == "MAX_OUTPUT" else server, limit, 4 << 20)
    with Client(broker.address) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked: list[tuple[int, bytes, int, dict[str, Any]]] = [
            (R.PULL_MESSAGE, b"", 0, pull_fields("orders", offset=number % 4)) for number in range(16)
        ]
        slow.send_all(asked)
        wait_until(lambda: closed(broker) == {reason: 1})
    assert client.put("orders").code == C.SUCCESS


def test_work_that_waits_for_the_disk_is_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that another thread would do is refused as busy if too many wait; those before it are done."""
    client.put("orders")
    monkeypatch.setattr(state, "MAX_WORK", 0)
    answer = client.ask(R.QUERY_MESSAGE, topic="orders", key="k", maxNum=1, beginTimestamp=0, endTimestamp=1 << 60)
    assert (answer.code, "[OVERLOAD]" in str(answer.remark)) == (C.SYSTEM_BUSY, True)
    monkeypatch.undo()
    answer = client.ask(R.QUERY_MESSAGE, topic="orders", key="k", maxNum=1, beginTimestamp=0, endTimestamp=1 << 60)
    assert answer.code != C.SYSTEM_BUSY


def test_a_full_disk_refuses_sends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a send is refused with 14, pulls are served, and with room again sends are, too."""
    monkeypatch.setattr(append_file, "RESERVE_STEP", 4096)
    path, config = tmp_path / "store", reput.StoreConfig(mapped_file_size_commit_log=1 << 14)

    def full(*_arguments: Any, **_named: Any) -> None:
        with fs.errors_named("somewhere", "reserve"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with reput.serve(path, topics=["orders"], config=config) as broker, Client(broker.address) as client:
        stored = 0
        with monkeypatch.context() as patch:
            patch.setattr(fs, "reserve", full)
            while (answer := client.put("orders", b"%d" % stored)).code == C.SUCCESS:
                stored += 1
            assert (answer.code, "full" in str(answer.remark)) == (C.SERVICE_NOT_AVAILABLE, True)
            numbers = client.send_all([(R.SEND_MESSAGE_V2, b"x", 0, send_fields("orders")) for _ in range(3)])
            assert {client.answer(number).code for number in numbers} == {C.SERVICE_NOT_AVAILABLE}
            assert bodies(client.pull("orders"))[:1] == ([b"0"] if stored else [])
        assert client.put("orders", b"%d" % stored).code == C.SUCCESS
        assert client.ask(R.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"] == str(stored + 1)
    assert_sound(path)


# --- clients that vanish -------------------------------------------------------------------------


def half_a_frame(client: Client) -> None:
    """Send the begin of a frame."""
    client.socket.sendall(struct.pack(">ii", 1000, 100) + b"{")


def a_held_pull(client: Client) -> None:
    """Wait for a message."""
    client.send(R.PULL_MESSAGE, **pull_fields("orders", sysFlag=2 | 4, suspendTimeoutMillis=30_000))


def sends_without_reading(client: Client) -> None:
    """Send, and read no answer."""
    client.send_all([(R.SEND_MESSAGE_V2, b"x" * 1000, 0, send_fields("orders", 1)) for _ in range(200)])


def pulls_without_reading(client: Client) -> None:
    """Pull, and read no answer."""
    client.put("orders", b"x" * 100_000, 1)
    client.send_all([(R.PULL_MESSAGE, b"", 0, pull_fields("orders", 1)) for _ in range(50)])


def a_member_with_locks(client: Client) -> None:
    """Be a consumer that has locked a queue."""
    client.heartbeat("gone", "readers", orders="*")
    queue = {"brokerName": "reput", "topic": "orders", "queueId": 0}
    body = {"clientId": "gone", "consumerGroup": "readers", "mqSet": [queue]}
    client.ask(R.LOCK_BATCH_MQ, str(body).replace("'", '"').encode())


def a_half_message(client: Client) -> None:
    """Be a producer with a transaction that has no end."""
    client.produce("gone", "writers")
    client.put("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01writers\x02UNIQ_KEY\x01u\x02")


STATES = (half_a_frame, a_held_pull, sends_without_reading, pulls_without_reading, a_member_with_locks, a_half_message)


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("state_of", STATES)
def test_a_client_vanishes(broker: reput.RunningBroker, client: Client, state_of: Any, with_reset: bool) -> None:
    """Nothing of a client that is gone is left in the broker's memory, and the others are served."""
    with Client(broker.address) as gone:
        state_of(gone)
        if with_reset:
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    inside = broker._broker
    wait_until(lambda: broker._server.open_connections == 1)
    assert (len(inside.holds), broker._server.input_bytes, inside.producers.all()) == (0, 0, [])
    assert inside.consumers.find("readers") is None
    assert client.put("orders", b"on").code == C.SUCCESS
    assert bodies(client.pull("orders"))[-1] == b"on"


# --- anything ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[reput.RunningBroker]:
    """A broker that gets anything."""
    with reput.serve(tmp_path_factory.mktemp("fuzzed") / "store", topics={"orders": 1}) as running:
        running._broker._worker.submit(int).result()
        yield running


def frame(code: int, header_type: int, body: bytes) -> bytes:
    """The bytes of a request."""
    fields = {name: str(value).lower() for name, value in send_fields("orders").items()}
    return frames.encode(frames.RemotingFrame(code, 1, 0, None, fields, body, header_type=header_type))


FRAMES = st.builds(frame, st.sampled_from([*R, 0, 9999]), st.sampled_from([0, 1]), st.binary(max_size=200))
HEADS = st.builds(struct.pack, st.just(">iI"), st.integers(-9, 1 << 25), st.integers(0, (1 << 32) - 1))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame with bytes changed, cut off or added."""
    data = bytearray(draw(FRAMES))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=9))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pieces=st.lists(FRAMES | HEADS | damaged() | st.binary(max_size=64), min_size=1, max_size=6))
def test_any_bytes_harm_nobody_else(fuzzed: reput.RunningBroker, pieces: list[bytes]) -> None:
    """Any bytes on a connection, cut anywhere, leave another client served, and nothing is kept of them."""
    with Client(fuzzed.address) as other, Client(fuzzed.address) as wild:
        try:
            for piece in pieces:
                wild.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert other.put("orders").code == C.SUCCESS
    wait_until(lambda: (fuzzed._server.open_connections, fuzzed._server.input_bytes) == (0, 0))
