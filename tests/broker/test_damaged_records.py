"""A record that is damaged while the broker runs keeps no other message back: it is left out, and the log says so."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import reput
from broker.popping import pop, pop_fields
from broker.remoting import Client
from reput.broker.services import pops
from reput.formats import paths
from reput.formats.log.record import TRANSACTION_COMMIT, decode_message_id
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.store.read.results import GetResult, GetStatus
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

_QUEUE_ID_AT, _BODY_LENGTH_AT, _BODY_AT = 12, 84, 88
BAD = b"the body of the bad one"


def damage(store: Path, at: int, wrong: bytes) -> None:
    """Write wrong bytes at a place of each record that has the body of the bad message."""
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    with path.open("r+b") as file:
        data, body = file.read(1 << 16), -1
        while (body := data.find(BAD, body + 1)) >= 0:
            file.seek(body - _BODY_AT + at)
            file.write(wrong)


@pytest.mark.parametrize("waits", ["delay", "lease"])
def test_one_bad_record_stopped_all_that_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture, waits: str) -> None:
    """Of two messages that wait in one way the good one comes."""
    with reput.serve(tmp_path / "s", topics={"bad": 1, "good": 1}) as broker, Client(broker.address) as client:
        properties = "DELAY\x011\x02" if waits == "delay" else ""
        for topic, body in (("bad", BAD), ("good", b"good")):
            assert client.put(topic, body, properties=properties).code == ResponseCode.SUCCESS
        if waits == "lease":
            assert [one.body for topic in ("bad", "good") for one in pop(client, topic, invisibleTime=1500)]
        damage(tmp_path / "s", _QUEUE_ID_AT, b"\0\0\1\1")
        assert [one.body for one in pop(client, "good", pollTime=20_000)] == [b"good"]
        assert pop(client, "bad") == []
    assert "is left out" in caplog.text


WAITING = {"delay": "DELAY\x011\x02", "lease": "", "timer": "TIMER_DELAY_MS\x011500\x02"}


@pytest.mark.parametrize("waits", WAITING)
def test_a_wrong_body_got_a_crc_that_matched(tmp_path: Path, caplog: pytest.LogCaptureFixture, waits: str) -> None:
    """A message whose body is damaged while it waits is left out: its copy would look sound to all that look."""
    with reput.serve(tmp_path / "s", topics={"bad": 1, "good": 1}) as broker, Client(broker.address) as client:
        for topic, body in (("bad", BAD), ("good", b"good")):
            assert client.put(topic, body, properties=WAITING[waits]).code == ResponseCode.SUCCESS
            assert waits != "lease" or pop(client, topic, invisibleTime=2000)
    damage(tmp_path / "s", _BODY_AT, b"no")
    with reput.serve(tmp_path / "s") as broker, Client(broker.address) as client:
        assert [one.body for one in pop(client, "good", pollTime=20_000)] == [b"good"]
        assert pop(client, "bad") == []
    assert "is left out: log offset 0: the body does not match its CRC" in caplog.text


def test_a_wrong_body_is_not_committed_and_not_sent_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The end of a transaction, and a message sent back, are refused with the place; nobody is asked about it."""
    with reput.serve(tmp_path / "s", topics={"t": 1}) as broker, Client(broker.address) as client:
        half = client.put("t", BAD, properties="TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01u\x02", f=4)
        sent = client.put("t", BAD)
        client.put("t", b"good")
    damage(tmp_path / "s", _BODY_AT, b"no")
    (_, begun), (_, plain) = (decode_message_id(one.fields["msgId"]) or pytest.fail("no id") for one in (half, sent))
    end = {"producerGroup": "pg", "commitOrRollback": TRANSACTION_COMMIT, "fromTransactionCheck": False, "msgId": "u"}
    refused = (
        (RequestCode.END_TRANSACTION, {**end, "tranStateTableOffset": 0, "commitLogOffset": begun}, begun),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "g", "offset": plain, "delayLevel": 0}, plain),
    )
    eager = reput.StoreConfig(transaction_check_interval=50, transaction_time_out=1)
    with reput.serve(tmp_path / "s", config=eager) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        for code, fields, offset in refused:
            answer = client.ask(code, **fields)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert f"log offset {offset}: the body does not match its CRC" in str(answer.remark)
        wait_until(lambda: f"a transaction is left out: log offset {begun}" in caplog.text)
        assert client.asked == []


def test_one_bad_record_stopped_the_pops_of_a_group_with_a_filter(tmp_path: Path) -> None:
    """A pop takes the numbers of its messages from the queue: the lengths of a damaged record may not add up."""
    with reput.serve(tmp_path / "s", topics={"orders": 1}) as broker, Client(broker.address) as client:
        for body, tag in ((b"1", "a"), (b"2", "b"), (BAD, "a"), (b"3", "b"), (b"4", "a")):
            assert client.put("orders", body, properties=f"TAGS\x01{tag}\x02").code == ResponseCode.SUCCESS
    with reput.serve(tmp_path / "s") as broker, Client(broker.address) as client:
        damage(tmp_path / "s", _BODY_LENGTH_AT, b"\x7f\0\0\0")
        answer = client.ask(RequestCode.POP_MESSAGE, **pop_fields(exp="a"))
        assert answer.code == ResponseCode.SUCCESS
        # The client has the bytes of the bad record, too, as from RocketMQ.
        assert broker._store.query_offset("g", "orders", 0) == 5
        (lease,) = broker._broker.leases._leases.values()
        assert sorted(lease.left) == [0, 2, 4]


class OneQueue:
    """A store with one queue, whose entries lead to places in the log, or to none; a pull reads few entries at once."""

    def __init__(self, entries: list[int | None], at_once: int) -> None:
        self.entries, self.at_once = entries, at_once
        self.view = SimpleNamespace(follower=SimpleNamespace(types=SimpleNamespace(batch=frozenset())))

    def get_message(
        self, topic: str, queue_id: int, offset: int, most: int, wanted: Container[int] | None = None
    ) -> GetResult:
        """Return the messages that are wanted, up to as many as asked for, of the entries that are read at once."""
        assert (topic, queue_id) == ("t", 0)
        places, end = [], offset
        for place in self.entries[offset : offset + max(most, self.at_once)]:
            if len(places) == most:
                break
            end += 1
            if place is not None and (wanted is None or place in wanted):
                places.append(place)
        words = np.array([word for place in places for word in (place, 100)], dtype=np.int64)
        status, span = GetStatus.FOUND if places else GetStatus.NO_MATCHED_MESSAGE, OffsetRange(0, len(self.entries))
        return GetResult.of(status, end, span, QueueKey(b"t", 0), words, len(places), ())


@pytest.mark.parametrize("seed", range(60))
def test_a_gap_stopped_the_pops_of_a_group(seed: int) -> None:
    """The numbers of what a pull has found are those of its entries, with gaps and filters, however many are read."""
    chance = random.Random(seed)
    entries = [100 * number if chance.random() < 0.7 else None for number in range(chance.randrange(1, 40))]
    wanted = None if chance.random() < 0.5 else {one for one in entries if one is not None and chance.random() < 0.5}
    queue, begin = OneQueue(entries, chance.choice([1, 3, 64])), chance.randrange(len(entries))
    found = queue.get_message("t", 0, begin, chance.choice([1, 8, 32]), wanted)
    store = cast("reput.MessageStore", queue)
    assert pops._queue_offsets(store, ("t", 0, begin), found) == [one // 100 for one in found.physical_offsets.tolist()]
