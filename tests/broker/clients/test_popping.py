"""Leases of pop consumers go from one broker to the other with the store: RocketMQ's and ours end them alike."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from broker.clients import brokers
from broker.popping import ack, got_in, pop, pop_fields
from broker.remoting import Client
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker.clients.brokers import Serving

pytestmark = pytest.mark.clients
SENT = [b"%d" % number for number in range(6)]


@contextlib.contextmanager
def serving(name: str, tmp_path: Path) -> Iterator[Serving]:
    """A broker on the store of the test."""
    store = tmp_path / "store"
    opened = brokers.ours(store) if name == "reput" else brokers.rocketmq(store, tmp_path / f"home-{name}")
    with opened as broker:
        yield broker


@pytest.mark.parametrize(("first", "second"), [("RocketMQ", "reput"), ("reput", "RocketMQ")])
def test_leases_go_over(programs: None, first: str, second: str, tmp_path: Path) -> None:
    """A message that is acked with one broker does not come from the other; all others come, once."""
    with serving(first, tmp_path) as one, Client(one.broker) as client:
        brokers.make_topics(one, {"orders": 1})
        for body in SENT:
            assert client.put("orders", body).code == ResponseCode.SUCCESS
        got = pop(client, maxMsgNums=4, invisibleTime=10_000)
        assert [item.body for item in got] == SENT[:4]
        assert [ack(client, got[number]) for number in (0, 2)] == [ResponseCode.SUCCESS] * 2
    came: list[bytes] = []
    with serving(second, tmp_path) as other, Client(other.broker) as client:
        while len(came) < 4:
            fields = pop_fields(pollTime=15_000, invisibleTime=60_000)
            found = got_in(client.answer(client.send(RequestCode.POP_MESSAGE, **fields)))
            came += [item.body for item in found]
            assert [ack(client, item) for item in found] == [ResponseCode.SUCCESS] * len(found)
        assert pop(client) == []
    assert sorted(came) == [b"1", b"3", b"4", b"5"]
    assert_sound(tmp_path / "store", brokers.config_of())
