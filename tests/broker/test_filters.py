"""A client's filter does not hold up others: its size has a bound, and what one turn of the loop evaluates of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.popping import pop, pop_fields
from broker.remoting import Client, bodies, pull_fields, send_fields
from reput.broker.services import holds
from reput.broker.services.broker import Broker
from reput.broker.state import consumers
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.waiting import wait_until

if TYPE_CHECKING:
    from reput.broker.services.pops import PopAsk, Popped

R, C = RequestCode, ResponseCode
HELD = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 60_000}
SQL = "SQL92"
STEPS = 50
HEAVY = " OR ".join(f"n = {1_000_000 + number}" for number in range(STEPS - 1)) + " OR n = 999"
TOO_MANY = " OR ".join(f"a > {number}" for number in range(consumers.MAX_WORDS // 4 + 1))


def numbered(number: int, tag: str = "") -> str:
    """The properties of a message with a number, and perhaps a tag."""
    return f"n\x01{number}\x02" + (f"TAGS\x01{tag}\x02" if tag else "")


def put_numbers(client: Client, count: int, queue_id: int = 0) -> None:
    """Send messages with the numbers from 0 on."""
    fields = [send_fields("orders", queue_id, properties=numbered(number)) for number in range(count)]
    for sent in client.send_all([(R.SEND_MESSAGE_V2, b"%d" % n, 0, one) for n, one in enumerate(fields)]):
        assert client.answer(sent).code == C.SUCCESS


def hold_all(broker: reput.RunningBroker, client: Client, filters: list[dict[str, Any]]) -> list[int]:
    """Send a pull of a group of its own with each filter; return their numbers once all are held."""
    fields = [pull_fields("orders", consumerGroup=f"g{n}", **HELD, **one) for n, one in enumerate(filters)]
    sent = client.send_all([(R.PULL_MESSAGE, b"", 0, one) for one in fields])
    wait_until(lambda: len(broker._broker.holds) == len(filters))
    return sent


# --- held pulls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [holds._STEPS_A_TURN, 64], ids=["a turn", "many turns"])
def test_a_thousand_held_filters_are_each_answered_by_their_message(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Of 1,000 filters on one queue, by tags and SQL92, each is answered by its own message and by no other."""
    monkeypatch.setattr(holds, "_STEPS_A_TURN", steps)
    filters = [
        {"subscription": f"n = {n} AND TAGS = 't{n}'", "expressionType": SQL} if n % 2 else {"subscription": f"t{n}"}
        for n in range(1000)
    ]
    sent = hold_all(broker, client, filters)
    order = random.Random(1).sample(range(1000), 1000)
    with Client(broker.address) as sender:
        sender.put("orders", b"for none", properties=numbered(5000, "other"))
        wait_until(lambda: {one.seen for one in broker._broker.holds} == {1})
        assert len(broker._broker.holds) == 1000
        sender.put("orders", b"%d" % order[0], properties=numbered(order[0], f"t{order[0]}"))
        assert bodies(client.answer(sent[order[0]])) == [b"%d" % order[0]]
        assert len(broker._broker.holds) == 999
        rest = [send_fields("orders", properties=numbered(n, f"t{n}")) for n in order[1:]]
        sender.send_all([(R.SEND_MESSAGE_V2, b"%d" % n, 0, one) for n, one in zip(order[1:], rest, strict=True)])
        for n in order[1:]:
            answer = client.answer(sent[n])
            assert (answer.code, bodies(answer)) == (C.SUCCESS, [b"%d" % n])
    assert (len(broker._broker.holds), broker._broker.holds._queues) == (0, {})


def test_a_filter_of_many_groups_is_asked_once(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulls with the same filter and the same offset are one question an arrival, and all of them are answered."""
    view, asked = broker._broker.store.view, []
    real = view.have_matches
    monkeypatch.setattr(view, "have_matches", lambda *question: asked.append(len(question[4])) or real(*question))
    wanted = [{"subscription": "n = 1", "expressionType": SQL}, {"subscription": "t || u"}, {"subscription": "u||t"}]
    sent = hold_all(broker, client, wanted * 5)
    with Client(broker.address) as sender:
        sender.put("orders", properties=numbered(0, "other"))
        wait_until(lambda: {one.seen for one in broker._broker.holds} == {1})
        sender.put("orders", b"both", properties=numbered(1, "t"))
    assert [bodies(client.answer(number)) for number in sent] == [[b"both"]] * 15
    assert asked == [2, 2]


def test_a_message_answers_a_heavy_filter_that_has_passed_many(broker: reput.RunningBroker, client: Client) -> None:
    """A held pull whose filter looks at few messages at once is answered by its message after any number of others."""
    (sent,) = hold_all(broker, client, [{"subscription": HEAVY, "expressionType": SQL}])
    with Client(broker.address) as sender:
        put_numbers(sender, 1000)
    answer = client.answer(sent)
    assert (answer.code, bodies(answer), answer.fields["nextBeginOffset"]) == (C.SUCCESS, [b"999"], "1000")


# --- bounds --------------------------------------------------------------------------------------


def test_words_of_a_filter_are_bounded(broker: reput.RunningBroker, client: Client) -> None:
    """A SQL92 filter with too many words is refused by each request that brings it; other clients are served."""
    with Client(broker.address) as heavy:
        refused = [
            heavy.pull("orders", subscription=TOO_MANY, expressionType=SQL),
            heavy.ask(R.POP_MESSAGE, **pop_fields(exp=TOO_MANY, expType=SQL)),
            heavy.beat("one", subscribing(TOO_MANY)),
        ]
    for answer in refused:
        assert (answer.code, "more than 1,024 words and signs" in str(answer.remark)) == (23, True)
    assert len(broker._broker.consumers) == 0
    client.put("orders", b"served", properties=numbered(3))
    most = TOO_MANY.rpartition(" OR ")[0]
    for wanted in (most, " OR ".join(f"n = '{number}'" for number in range(256))):
        assert bodies(client.pull("orders", subscription=wanted, expressionType=SQL)) == [b"served"] * ("n" in wanted)
        assert client.beat("one", subscribing(wanted)).code == C.SUCCESS


def subscribing(wanted: str) -> dict[str, Any]:
    """A consumer of a heartbeat with a SQL92 filter."""
    one = {"topic": "orders", "subString": wanted, "subVersion": 1, "expressionType": SQL}
    return {"groupName": "readers", "subscriptionDataSet": [one], "consumeType": "CONSUME_PASSIVELY"}


def test_a_heavy_filter_answers_in_pieces(client: Client) -> None:
    """A pull looks at as many messages as the steps of its filter allow, says where it is, and so reaches the end."""
    put_numbers(client, 1000)
    offset, looked_at, found = 0, [], []
    while (answer := client.pull("orders", 0, offset, subscription=HEAVY, expressionType=SQL)).code != C.PULL_NOT_FOUND:
        assert answer.code == (C.SUCCESS if bodies(answer) else C.PULL_RETRY_IMMEDIATELY)
        found += bodies(answer)
        looked_at.append(int(answer.fields["nextBeginOffset"]) - offset)
        offset += looked_at[-1]
    assert (offset, found) == (1000, [b"999"])
    assert set(looked_at[:-1]) == {consumers.MAX_STEPS // STEPS}
    light = client.pull("orders", subscription="n > 5000", expressionType=SQL)
    assert light.fields["nextBeginOffset"] == "800"


def test_a_heavy_filter_of_a_pop_serves_others_in_between(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pop that waits reads its queues in pieces, each in a turn of the loop, until it has found its message."""
    for queue_id in range(4):
        put_numbers(client, 200 if queue_id else 1000, queue_id)
    popped: list[int] = []
    real = Broker.pop

    def counted(self: Broker, ask: PopAsk) -> Popped:
        found = real(self, ask)
        popped.append(found.steps)
        return found

    monkeypatch.setattr(Broker, "pop", counted)
    got = pop(client, pollTime=20_000, exp=HEAVY, expType=SQL)
    assert [one.body for one in got] == [b"999"]
    assert max(popped) <= 2 * consumers.MAX_STEPS
    assert len(popped) > 10
