"""Pulls that are held: each is answered by the first message that passes its filter, and by no other."""

from __future__ import annotations

from typing import Any

import pytest

import reput
from broker.remoting import Client, bodies, pull_fields
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.waiting import wait_until

HELD = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 60_000}
FILTERS = {
    "a tag": {"subscription": "A || C"},
    "SQL92": {"subscription": "TAGS IN ('A', 'C')", "expressionType": "SQL92"},
}


def tagged(tag: str) -> str:
    """The properties of a message with a tag."""
    return f"TAGS\x01{tag}\x02"


def hold(broker: reput.RunningBroker, client: Client, **fields: Any) -> int:
    """Send a pull that finds nothing; return its number once it is held."""
    before = len(broker._broker.holds)
    number = client.send(RequestCode.PULL_MESSAGE, **pull_fields("orders", **HELD, **fields))
    wait_until(lambda: len(broker._broker.holds) == before + 1)
    return number


@pytest.mark.parametrize("fields", FILTERS.values(), ids=FILTERS)
def test_only_a_message_that_matches_answers_a_held_pull(
    broker: reput.RunningBroker, client: Client, fields: dict[str, Any]
) -> None:
    """Messages that do not pass the filter leave a pull held; the first that does answers it, with an offset after it.

    A pull for all messages is answered by the first message, though another one waits for the same queue.
    """
    holds = broker._broker.holds
    with Client(broker.address) as sender:
        number = hold(broker, client, **fields)
        for count in (1, 2):
            for_all = hold(broker, client, offset=count - 1)
            sender.put("orders", b"other", properties=tagged("B"))
            assert bodies(client.answer(for_all)) == [b"other"]
            # The broker has looked at the message, and the pull waits for the next one.
            wait_until(lambda count=count: [one.seen for one in holds] == [count])
        sender.put("orders", b"wanted", properties=tagged("C"))
    answer = client.answer(number)
    assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"wanted"])
    assert answer.fields["nextBeginOffset"] == "3"
    assert (len(holds), holds._queues) == (0, {})


def test_a_pull_whose_time_is_over_moves_past_messages_that_do_not_match(
    broker: reput.RunningBroker, client: Client
) -> None:
    """A pull that held on while other messages came ends with its time, with 20 and the offset after them."""
    number = hold(broker, client, subscription="A")
    with Client(broker.address) as sender:
        sender.put("orders", properties=tagged("B"))
    holds = broker._broker.holds
    wait_until(lambda: [one.seen for one in holds] == [1])
    (held,) = holds
    broker._broker.soon(holds._answer, held)
    answer = client.answer(number)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")


def test_a_lost_connection_leaves_the_others_of_its_queue(broker: reput.RunningBroker, client: Client) -> None:
    """Pulls of one queue share a wait: the end of one connection leaves those of others held, and they are answered."""
    with Client(broker.address) as gone:
        hold(broker, gone)
        number = hold(broker, client)
    wait_until(lambda: len(broker._broker.holds) == 1)
    with Client(broker.address) as sender:
        sender.put("orders", b"here")
    assert bodies(client.answer(number)) == [b"here"]
