"""Transactions of a producer with `reput serve`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, records
from support.waiting import wait_until

if TYPE_CHECKING:
    from reput.client.received import ReceivedMessage


def bodies_of(broker: reput.RunningBroker) -> list[bytes]:
    """The bodies that consumers of `line` get."""
    with Client(broker.address) as client:
        return [record.body for record in records(client.pull("line"))]


def test_a_message_comes_when_its_block_ends_well(broker: reput.RunningBroker, producer: reput.Producer) -> None:
    """Not before; a block that fails rolls back, and its error goes on."""
    with producer.transaction(reput.Message("line", b"paid")) as transaction:
        assert transaction.result is not None
        assert transaction.result.transaction_id == transaction.result.unique_key
        assert bodies_of(broker) == []
    wait_until(lambda: bodies_of(broker) == [b"paid"])
    with pytest.raises(ZeroDivisionError), producer.transaction(reput.Message("line", b"failed")):
        1 / 0  # noqa: B018
    with producer.transaction(reput.Message("line", b"taken back")) as transaction:
        transaction.end(False)
    with producer.transaction(reput.Message("line", b"last")):
        pass
    wait_until(lambda: len(bodies_of(broker)) == 2)
    assert bodies_of(broker) == [b"paid", b"last"]


def test_the_broker_asks_about_an_open_end(broker: reput.RunningBroker) -> None:
    """`check` gets the half message; its answer commits or rolls back, and None is asked again."""
    asked: list[bytes] = []
    both = threading.Event()

    def check(message: ReceivedMessage) -> bool | None:
        asked.append(message.body)
        assert message.topic == "line"
        if asked.count(b"yes") > 1 and b"no" in asked:
            both.set()
        return {b"yes": True, b"no": False}[message.body] if asked.count(message.body) > 1 else None

    with reput.Producer("checked", broker.address, check=check) as producer:
        for body in (b"yes", b"no"):
            with producer.transaction(reput.Message("line", body)) as transaction:
                transaction.end(None)
        assert both.wait(30)
        wait_until(lambda: bodies_of(broker) == [b"yes"])
        wait_until(lambda: asked.count(b"no") == 2)


def test_another_producer_answers_for_one_that_is_gone(broker: reput.RunningBroker) -> None:
    """A check that fails is asked again, also of another producer of the group."""
    with reput.Producer("checked", broker.address) as producer:
        producer.transaction(reput.Message("line", b"left")).__enter__()
    tries: list[int] = []

    def check(message: ReceivedMessage) -> bool:
        tries.append(message.queue_offset)
        if len(tries) == 1:
            raise RuntimeError("no database")
        return True

    with reput.Producer("checked", broker.address, check=check) as producer:
        # It registers with its first send.
        producer.send(reput.Message("orders", b"x"))
        wait_until(lambda: bodies_of(broker) == [b"left"])
    assert len(tries) == 2


def test_check_may_be_a_coroutine(broker: reput.RunningBroker) -> None:
    """A coroutine function answers as a function does."""

    async def check(message: ReceivedMessage) -> bool:
        return message.body == b"yes"

    with reput.Producer("checked", broker.address, check=check) as producer:
        with producer.transaction(reput.Message("line", b"yes")) as transaction:
            transaction.end(None)
        wait_until(lambda: bodies_of(broker) == [b"yes"])


def test_an_error_of_check_is_named(broker: reput.RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that reput's own code may raise: it was taken for a half message that cannot be read."""
    tries: list[int] = []

    def check(message: ReceivedMessage) -> bool:
        tries.append(message.queue_offset)
        if len(tries) == 1:
            raise ValueError("no number")
        return True

    with reput.Producer("checked", broker.address, check=check) as producer:
        with producer.transaction(reput.Message("line", b"asked")) as transaction:
            transaction.end(None)
        wait_until(lambda: bodies_of(broker) == [b"asked"])
    assert len(tries) == 2
    assert "`check` does not answer" in caplog.text
    assert "sends no half message" not in caplog.text
