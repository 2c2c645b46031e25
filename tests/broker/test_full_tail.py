"""A store that takes no messages without durable indexes refuses requests that store one, and serves others."""

from __future__ import annotations

from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING

import reput
from broker.popping import ack, batch_ack, batch_entry, change, pop, pop_fields
from broker.remoting import Client, bodies
from broker.test_send_back import back, offset_of
from broker.test_transactions import begin, end, pending_keys
from reput.broker.services import due
from reput.errors import TailFullError
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.store import putting
from reput.times import now_ms
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutResult

R, C = RequestCode, ResponseCode
RETRY = "%RETRY%g_orders"
CONFIG = reput.StoreConfig(tail_max_entries=60, recall_message_enable=True)


def let_follower_hang(patch: pytest.MonkeyPatch) -> None:
    """Let the broker build no indexes, as if a follower did."""
    patch.setattr(reput.MessageStore, "is_followed", property(lambda _: True))


def test_a_full_tail_stopped_all_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that stores a message is busy at once, and pulls and rollbacks are served; with indexes all of it is done."""
    path, slept = tmp_path / "store", list[float]()
    clock = SimpleNamespace(monotonic=partial(next, count(0, 3)), sleep=slept.append)
    monkeypatch.setattr(putting, "time", clock)
    with reput.serve(path, topics={"orders": 4}, config=CONFIG) as broker, Client(broker.address) as client:
        with monkeypatch.context() as patch:
            let_follower_hang(patch)
            sent = [client.put("orders", b"%d" % number) for number in range(3)]
            first, second, third = pop(client, maxMsgNums=3)
            half, other = begin(client, 0), begin(client, 1)
            due = f"TIMER_DELIVER_MS\x01{now_ms() + 600_000}\x02UNIQ_KEY\x01later\x02"
            handle = client.put("orders", properties=due).fields["recallHandle"]
            while client.put("orders").code == C.SUCCESS:
                pass

            def codes() -> set[int]:
                return {
                    client.put("orders").code,
                    back(client, offset_of(sent[0])).code,
                    end(client, half, TRANSACTION_COMMIT).code,
                    client.ask(R.RECALL_MESSAGE, producerGroup="pg", topic="orders", recallHandle=handle).code,
                    ack(client, first),
                    batch_ack(client, batch_entry([second])),
                    change(client, third, 60_000).code,
                    client.ask(R.POP_MESSAGE, **pop_fields()).code,
                }

            assert codes() == {C.SYSTEM_BUSY}
            assert end(client, other, TRANSACTION_ROLLBACK).code == C.SUCCESS
            assert len(bodies(client.pull("orders"))) == 32
            assert slept == []
        wait_until(lambda: client.put("orders").code == C.SUCCESS)
        assert codes() == {C.SUCCESS}
        wait_until(lambda: pending_keys(path) == [])
    assert_sound(path)


def test_messages_of_a_lease_came_twice_when_the_tail_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail that fills while the messages of a lease come again keeps the rest back; each comes again once."""
    path, put = tmp_path / "store", list[bytes]()
    with reput.serve(path, topics={"orders": 1}) as broker, Client(broker.address) as client:
        store, sent = broker._store, [b"%d" % number for number in range(5)]
        put_message_async = store.put_message_async

        def put_until_full(message: reput.Message, queue_id: int = 0) -> PutFuture[PutResult]:
            if message.topic == RETRY:
                put.append(message.body)
                if len(put) == 3:
                    raise TailFullError("the tail is full")
            return put_message_async(message, queue_id)

        monkeypatch.setattr(store, "put_message_async", put_until_full)
        monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.1)
        for body in sent:
            client.put("orders", body)
        assert len(pop(client, maxMsgNums=5, invisibleTime=1500)) == 5
        wait_until(lambda: not len(broker._broker.leases))
        assert put == [b"0", b"1", b"2", b"2", b"3", b"4"]
        assert sorted(one.body for one in pop(client)) == sent
    assert_sound(path)
