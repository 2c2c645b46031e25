"""A topic is deleted and made again: nothing that groups held of the old one touches messages of the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.killed import killed_broker
from broker.popping import ack, handle_fields, pop
from broker.remoting import Client
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from pathlib import Path

NEW = [b"new%d" % number for number in range(8)]


def fill(client: Client, bodies: list[bytes]) -> None:
    """Send messages to the topic's first queue, which makes the topic if it is not there."""
    for body in bodies:
        assert client.put("orders", body).code == ResponseCode.SUCCESS


def made_again(client: Client) -> None:
    """Delete the topic, and put the new messages."""
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="orders").code == ResponseCode.SUCCESS
    fill(client, NEW)


def popped(client: Client, **further: object) -> list[bytes]:
    """Pop, and ack, all that the group gets."""
    found = []
    while got := pop(client, **further):
        found += [one.body for one in got]
        for one in got:
            assert ack(client, one) == ResponseCode.SUCCESS
    return found


@pytest.mark.parametrize("order", [False, True], ids=["pop", "in order"])
@pytest.mark.parametrize("restart", [False, True])
def test_late_acks_of_the_old_topic_moved_the_group_over_new_messages(
    tmp_path: Path, order: bool, restart: bool
) -> None:
    """Acked before, acked late, or never: the group gets each new message once."""
    with reput.serve(tmp_path / "s", topics={"orders": 1}) as broker, Client(broker.address) as client:
        fill(client, [b"old%d" % number for number in range(5)])
        got = pop(client, order=order, invisibleTime=2000)
        assert len(got) == 5
        assert ack(client, got[0]) == ResponseCode.SUCCESS
        made_again(client)
        late = client.ask(RequestCode.ACK_MESSAGE, **handle_fields(got[1]))
        assert late.code != ResponseCode.SUCCESS
        if not restart:
            assert popped(client, order=order) == NEW
            # The time of the old messages is over.
            assert pop(client, order=order, pollTime=3000) == []
    if restart:
        with reput.serve(tmp_path / "s") as broker, Client(broker.address) as client:
            assert popped(client, order=order) == NEW


def test_a_start_after_a_kill_moved_the_group_over_new_messages(tmp_path: Path) -> None:
    """The acks of the old topic came after the offsets were written last."""
    with killed_broker(tmp_path / "s") as client:
        fill(client, [b"old%d" % number for number in range(5)])
        assert len(popped(client)) == 5
        made_again(client)
    with reput.serve(tmp_path / "s") as broker, Client(broker.address) as client:
        assert popped(client) == NEW


def test_messages_that_came_again_outlived_their_topic(tmp_path: Path) -> None:
    """The retry topics of groups go with a topic, as RocketMQ has it."""
    with reput.serve(tmp_path / "s", topics={"orders": 1}) as broker, Client(broker.address) as client:
        fill(client, [b"old"])
        assert len(pop(client, invisibleTime=1000)) == 1
        (again,) = pop(client, invisibleTime=1000, pollTime=20_000)
        assert again.body == b"old"
        made_again(client)
        assert popped(client) == NEW
        assert pop(client, pollTime=2000) == []
