"""The server of clients: the order and the turns in which it serves what comes, and what it does each second."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from broker.remoting import Client, bodies, send_fields
from reput.broker import server
from reput.broker.handlers.table import HANDLERS
from reput.broker.wire.answers import Answer
from reput.errors import DamagedLogError
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import IS_ONE_WAY
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import reput
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

R, C = RequestCode, ResponseCode


@pytest.mark.parametrize("code", [R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE])
def test_a_batch_overtook_single_sends_of_the_same_read(client: Client, code: RequestCode) -> None:
    """Single sends and batches of one write lie in their queue in the order of their requests."""
    batch = encode_messages(InnerMessage(0, body, b"") for body in (b"2", b"3"))
    sends = [
        (R.SEND_MESSAGE_V2, b"0", 0, send_fields("orders")),
        (R.SEND_MESSAGE_V2, b"1", 0, send_fields("orders")),
        (code, batch, 0, send_fields("orders", m=code == R.SEND_MESSAGE_V2)),
        (R.SEND_MESSAGE_V2, b"4", 0, send_fields("orders")),
    ]
    answers = [client.answer(number) for number in client.send_all(sends)]
    assert [(one.code, one.fields["queueOffset"]) for one in answers] == [(C.SUCCESS, n) for n in ("0", "1", "2", "4")]
    assert bodies(client.pull("orders")) == [b"0", b"1", b"2", b"3", b"4"]


def test_one_read_kept_the_other_clients_waiting(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of one write take turns with another client's, one-way ones too; sends before each are stored."""
    served: list[str] = []
    has_asked = threading.Event()

    def note(_: Broker, request: Request) -> Answer:
        served.append(request.text("name"))
        has_asked.wait(30)
        return Answer()

    monkeypatch.setitem(HANDLERS, R.GET_KV_CONFIG, note)
    monkeypatch.setattr(server, "TURN_S", 0.0)
    asked = [(R.GET_KV_CONFIG, b"", IS_ONE_WAY, {"name": "first"}), (R.SEND_MESSAGE_V2, b"", 0, send_fields("orders"))]
    asked = [(code, b"%d" % number, flag, fields) for number in range(50) for code, _, flag, fields in asked]
    with Client(broker.address) as other:
        numbers = client.send_all(asked)
        wait_until(lambda: served)
        number = other.send(R.GET_KV_CONFIG, name="other")
        has_asked.set()
        assert other.answer(number).code == C.SUCCESS
    offsets = [int(client.answer(number).fields["queueOffset"]) for number in numbers[1::2]]
    assert offsets == list(range(50))
    assert len(served) == 51
    assert served.index("other") < 5
    assert bodies(client.pull("orders")) == [b"%d" % number for number in range(32)]


class Build:
    """A build of indexes that waits until it may end."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = threading.Event()
        self.error: Exception | None = None

    def run(self, spark: bool, **_further: object) -> None:
        """Take the place of `MessageStore.reput`."""
        assert not spark
        self.count += 1
        self.may_end.wait(60)
        if self.error is not None:
            raise self.error


@pytest.fixture
def build(broker: reput.RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """A build of a broker's indexes, which has begun and does not end by itself."""
    begun = Build()
    monkeypatch.setattr(broker._broker.store, "reput", begun.run)
    broker._broker.ask_for_indexes()
    wait_until(lambda: begun.count)
    yield begun
    begun.may_end.set()


def test_a_build_of_indexes_stopped_what_is_done_each_second(
    broker: reput.RunningBroker, client: Client, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While indexes are built progress is written and idle connections are closed, and no other build begins."""
    noted: list[None] = []
    monkeypatch.setattr(broker._broker.delays, "persist", lambda: noted.append(None))
    broker._broker.ask_for_indexes()
    wait_until(lambda: len(noted) > 1)
    assert (build.count, broker._broker.wants_indexes) == (1, True)
    monkeypatch.setattr(server, "IDLE_S", 0.0)
    with pytest.raises(ConnectionResetError):
        client.receive()
    build.may_end.set()
    wait_until(lambda: build.count == 2)


def test_a_stop_waits_for_the_indexes_that_are_built(broker: reput.RunningBroker, build: Build) -> None:
    """A stop closes the store when the build has ended, and begins no other one."""
    broker._broker.ask_for_indexes()
    stop = threading.Thread(target=broker.close)
    stop.start()
    wait_until(lambda: not broker._thread.is_alive())
    stop.join(0.2)
    assert stop.is_alive()
    build.may_end.set()
    stop.join()
    assert build.count == 1


@pytest.mark.parametrize("error", [DamagedLogError("the log is damaged"), ValueError("an error of ours")])
def test_a_build_that_fails_is_logged(
    broker: reput.RunningBroker, build: Build, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names what a build of indexes ended with, and the next one begins when it is wanted."""
    build.error = error
    build.may_end.set()
    wait_until(lambda: str(error) in caplog.text)
    assert "the indexes are not up to date" in caplog.text
    broker._broker.ask_for_indexes()
    wait_until(lambda: build.count == 2)
