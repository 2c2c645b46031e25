"""Half messages, their ends, and questions to producers about transactions without an end."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from broker.killed import killed_broker
from broker.remoting import Client, bodies, records, send_fields
from reput.broker.services import transactions
from reput.broker.state import config_writes
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, text_properties
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_message_id, decode_record
from reput.formats.topics.system_topics import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.store.pending.transactions import HALF
from support import golden
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.wire.remoting import RemotingFrame
    from reput.log.encode.message import Message, PutResult

R, C = RequestCode, ResponseCode
EAGER = reput.StoreConfig(transaction_check_interval=50, transaction_time_out=1)
"""Producers are asked almost at once."""


def half_fields(number: int = 0, **further: str) -> dict[str, object]:
    """The header of a transactional send to queue 2 of `orders`."""
    named = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": f"u{number}", "TAGS": "paid", **further}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
    return send_fields("orders", 2, properties=properties, f=4, g=time.time_ns() // 1_000_000)


def begin(client: Client, number: int = 0, **further: str) -> RemotingFrame:
    """Send a half message."""
    return client.ask(R.SEND_MESSAGE_V2, b"body%d" % number, **half_fields(number, **further))


def end_fields(sent: RemotingFrame, kind: int, **further: object) -> dict[str, object]:
    """The header of the end of a transaction, made of the answer to its half message as clients do."""
    _, offset = decode_message_id(sent.fields["msgId"]) or pytest.fail("no id")
    named = {"producerGroup": "pg", "tranStateTableOffset": sent.fields["queueOffset"], "commitLogOffset": offset}
    return {**named, "commitOrRollback": kind, "fromTransactionCheck": False, "msgId": "u0", **further}


def end(client: Client, sent: RemotingFrame, kind: int, **further: object) -> RemotingFrame:
    """End a transaction."""
    return client.ask(R.END_TRANSACTION, **end_fields(sent, kind, **further))


def pending_keys(path: Path) -> list[str | None]:
    """The unique keys of the transactions that `reput pending` shows."""
    with reput.MessageStore.open(path, read_only=True) as store:
        return [row.unique_key for row in store.pending.transactions()]


def test_a_committed_message_is_delivered(broker: reput.RunningBroker, client: Client) -> None:
    """A half message is nowhere but in the half topic; its commit puts it to its queue, and an op message ends it."""
    sent = begin(client)
    assert (sent.code, sent.fields["queueId"], sent.fields["transactionId"]) == (C.SUCCESS, "2", "u0")
    assert bodies(client.pull("orders", 2)) == []
    assert pending_keys(broker.path) == ["u0"]
    assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
    (record,) = records(client.pull("orders", 2, subscription="paid"))
    _, offset = decode_message_id(sent.fields["msgId"]) or pytest.fail("no id")
    assert (record.body, record.sys_flag, record.prepared_transaction_offset) == (b"body0", TRANSACTION_COMMIT, offset)
    named = text_properties(record.properties)
    assert named | {"TRAN_MSG": "true", "__transactionId__": "u0", "TAGS": "paid"} == named
    assert {"REAL_TOPIC", "REAL_QID"} & named.keys() == set()
    wait_until(lambda: pending_keys(broker.path) == [])
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (half,), (op,) = store.get_message(HALF_TOPIC, 0, 0), store.get_message(OP_TOPIC, 0, 0)
        assert (half.sys_flag, half.properties["REAL_QID"]) == (0, "2")
        assert (op.body, op.tags) == (b"0,", "d")


def test_a_message_that_is_rolled_back_never_comes(broker: reput.RunningBroker, client: Client) -> None:
    """A rollback ends the transaction; ends of one read share an op message."""
    sent = [begin(client, number) for number in range(3)]
    unknown = end(client, begin(client, 3), 0)
    requests = [(R.END_TRANSACTION, b"", 0, end_fields(one, TRANSACTION_ROLLBACK)) for one in sent]
    answers = [client.answer(number).code for number in client.send_all(requests)]
    assert (answers, unknown.code) == ([C.SUCCESS] * 3, C.SUCCESS)
    wait_until(lambda: pending_keys(broker.path) == ["u3"])
    assert bodies(client.pull("orders", 2)) == []
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        assert [one.body for one in store.get_message(OP_TOPIC, 0, 0)] == [b"0,1,2,"]


def test_a_second_end_does_nothing(broker: reput.RunningBroker, client: Client) -> None:
    """A commit that comes twice delivers once, and a rollback after it takes nothing back."""
    sent = begin(client)
    fields = end_fields(sent, TRANSACTION_COMMIT)
    numbers = client.send_all([(R.END_TRANSACTION, b"", 0, fields)] * 2)
    answers = [client.answer(number).code for number in numbers]
    assert [*answers, end(client, sent, TRANSACTION_ROLLBACK).code] == [C.SUCCESS] * 3
    assert bodies(client.pull("orders", 2)) == [b"body0"]
    wait_until(lambda: pending_keys(broker.path) == [])


def test_an_end_that_does_not_fit_is_refused(client: Client) -> None:
    """Another group, another place, and a record that is no half message are refused; nothing is delivered."""
    sent = begin(client)
    other = client.put("orders", b"other", 1)
    _, offset = decode_message_id(other.fields["msgId"]) or pytest.fail("no id")
    wrong: list[dict[str, object]] = [
        {"producerGroup": "others"},
        {"tranStateTableOffset": 7},
        {"commitLogOffset": offset},
        {"commitLogOffset": offset + 1},
        {"commitLogOffset": 1 << 60},
    ]
    for fields in wrong:
        answer = end(client, sent, TRANSACTION_COMMIT, **fields)
        assert (answer.code, bool(answer.remark)) == (C.SYSTEM_ERROR, True)
    assert bodies(client.pull("orders", 2)) == []


def test_a_producer_is_asked_about_an_end(tmp_path: Path) -> None:
    """A producer of the group gets the message with the places of its copy; its commit delivers once."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        begin(client)
        asked = client.next_asked()
        assert (asked.code, asked.is_one_way) == (R.CHECK_TRANSACTION_STATE, True)
        record = decode_record(memoryview(asked.body))
        assert (record.topic, record.queue_id, record.body) == (b"orders", 2, b"body0")
        assert text_properties(record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
        places = {name: asked.fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        assert int(places["commitLogOffset"]) == record.physical_offset
        fields = {"producerGroup": "pg", "commitOrRollback": TRANSACTION_COMMIT, "msgId": asked.fields["msgId"]}
        assert client.ask(R.END_TRANSACTION, **places, **fields, fromTransactionCheck=True).code == C.SUCCESS
        wait_until(lambda: pending_keys(path) == [])
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    with reput.MessageStore.open(path, read_only=True) as store:
        assert store.query_offset(TRANSACTION_GROUP, HALF_TOPIC, 0) > 0
    assert_sound(path)


def test_an_end_of_long_ago_was_taken_again(tmp_path: Path) -> None:
    """A second end does nothing, also when the half message is passed; an end counts for a copy of a copy."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        sent, inside = begin(client), broker._broker
        asked = [client.next_asked() for _ in range(3)]
        assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
        wait_until(lambda: not inside.transactions._ended and inside.transactions._done)
        for one in (sent, *asked):
            places = {name: one.fields[name] for name in ("tranStateTableOffset", "commitLogOffset") if one is not sent}
            assert end(client, sent, TRANSACTION_COMMIT, **places).code == C.SUCCESS
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    assert_sound(path)


def test_a_late_end_counts_for_the_copy(tmp_path: Path) -> None:
    """A producer that was asked, and ends the transaction by its first answer, is asked no more; it comes once."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        sent = begin(client)
        asked = client.next_asked()
        assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
        wait_until(lambda: pending_keys(path) == [])
        places = {name: asked.fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        assert end(client, sent, TRANSACTION_COMMIT, **places).code == C.SUCCESS
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    assert_sound(path)


@pytest.mark.parametrize("kind", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_a_late_end_of_the_first_half_was_a_second_delivery(tmp_path: Path, kind: int) -> None:
    """An answer to a question ends the transaction; the sender's own commit, rounds later, delivers nothing."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        sent, inside = begin(client), broker._broker
        asked = client.next_asked()
        places = {name: asked.fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        assert end(client, sent, kind, **places, fromTransactionCheck=True).code == C.SUCCESS
        wait_until(lambda: not inside.transactions._ended and inside.transactions._done)
        assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
        assert bodies(client.pull("orders", 2)) == [b"body0"] * (kind == TRANSACTION_COMMIT)
    assert_sound(path)


@pytest.mark.parametrize("kind", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_an_end_while_a_copy_is_put_was_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """An end that comes while the half message is put again ends its copy, too: nobody is asked, and it comes once."""
    path, put = tmp_path / "store", transactions.Transactions._put
    is_copied, is_ended = threading.Event(), threading.Event()

    async def slow(self: transactions.Transactions, message: Message) -> PutResult | None:
        result = await put(self, message)
        is_copied.set()
        while not is_ended.is_set():  # noqa: ASYNC110 - an event of another thread
            await asyncio.sleep(0.001)
        return result

    monkeypatch.setattr(transactions.Transactions, "_put", slow)
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        sent = begin(client)
        assert is_copied.wait(10)
        assert end(client, sent, kind).code == C.SUCCESS
        is_ended.set()
        wait_until(lambda: pending_keys(path) == [])
        time.sleep(0.2)
        assert (client.asked, bodies(client.pull("orders", 2))) == ([], [b"body0"] * (kind == TRANSACTION_COMMIT))
    assert_sound(path)


def test_a_transaction_that_nobody_ends_is_given_up(tmp_path: Path) -> None:
    """After transactionCheckMax questions a half message goes to its own topic, and is pending no more."""
    path = tmp_path / "store"
    config = replace(EAGER, transaction_check_max=2, flush_consumer_offset_interval=20)
    with reput.serve(path, topics={"orders": 4}, config=config) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        begin(client)
        asked = [client.next_asked() for _ in range(2)]
        times = [text_properties(decode_record(memoryview(one.body)).properties) for one in asked]
        assert [one["TRANSACTION_CHECK_TIMES"] for one in times] == ["1", "2"]
        wait_until(lambda: bodies(client.pull(GIVEN_UP_TOPIC)) == [b"body0"])
        wait_until(lambda: pending_keys(path) == [])
    assert_sound(path)


def test_a_refusal_ended_all_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While no topic can be made for a transaction that is given up, the log says so; later it is given up."""
    path = tmp_path / "store"
    config = replace(EAGER, transaction_check_max=1)
    with reput.serve(path, topics={"orders": 4}, config=config) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        monkeypatch.setattr(config_writes, "MAX_UNWRITTEN", 0)
        begin(client)
        wait_until(lambda: "transactions are not checked now: [OVERLOAD]system busy" in caplog.text)
        monkeypatch.undo()
        wait_until(lambda: bodies(client.pull(GIVEN_UP_TOPIC)) == [b"body0"])
    assert_sound(path)


def room_of_half(broker: reput.RunningBroker, client: Client) -> int:
    """The bytes that a property `pad` may have in a half message of `begin`, so that a record holds it."""
    assert end(client, begin(client, pad="x"), TRANSACTION_ROLLBACK).code == C.SUCCESS
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        half = store.get_message(HALF_TOPIC, 0, 0)[0]
        return 1 + MAX_PROPERTIES_SIZE - len(half.record.properties)


def test_a_half_message_without_room_stopped_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no room for the count of questions is given up, and the producer is asked about those after it."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        monkeypatch.setattr(transactions, "MAX_HALF_PROPERTIES", 2 * MAX_PROPERTIES_SIZE)
        room = room_of_half(broker, client)
        client.produce("c@1", "pg")
        longest = {"pad": "x" * room}
        assert begin(client, 1, **longest).code == C.SUCCESS
        immune = {**longest, "pad": "x" * (room - 34), "CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
        assert begin(client, 2, **immune).code == C.SUCCESS
        begin(client, 3)
        assert client.next_asked().fields["msgId"] == "u3"
        wait_until(lambda: bodies(client.pull(GIVEN_UP_TOPIC)) == [b"body1", b"body2"])
    assert_sound(path)


def test_a_transaction_has_room_for_what_the_broker_adds(tmp_path: Path) -> None:
    """A half message without it is refused; the longest one is asked about, and comes, also if it is due later."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        # With the place of a checksum.
        room = room_of_half(broker, client) - (MAX_PROPERTIES_SIZE - transactions.MAX_HALF_PROPERTIES) - 20
        client.produce("c@1", "pg")
        refused = begin(client, 1, pad="x" * (room + 1))
        assert (refused.code, "at most 32640" in str(refused.remark)) == (C.MESSAGE_ILLEGAL, True)
        due = {"TIMER_DELAY_MS": "1000"}
        begin(client, 2, pad="x" * (room - sum(len(f"{name}={value};") for name, value in due.items())), **due)
        asked = client.next_asked()
        places = {name: asked.fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        fields = {"producerGroup": "pg", "commitOrRollback": TRANSACTION_COMMIT, "msgId": "u2", **places}
        assert client.ask(R.END_TRANSACTION, **fields, fromTransactionCheck=True).code == C.SUCCESS
        wait_until(lambda: bodies(client.pull("orders", 2)) == [b"body2"])
    assert_sound(path)


def test_a_time_without_questions_is_kept(tmp_path: Path) -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS: nobody is asked before, and a commit meanwhile ends the transaction for good."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        sent = begin(client, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        wait_until(lambda: client.ask(R.GET_MAX_OFFSET, topic=HALF_TOPIC, queueId=0).fields["offset"] > "1")
        assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
        time.sleep(0.3)
    with reput.serve(path, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        time.sleep(0.3)
        assert bodies(client.pull("orders", 2)) == [b"body0"]
        assert client.asked == []
    assert_sound(path)


def test_an_end_that_names_the_first_place_ends_the_copy(tmp_path: Path) -> None:
    """A half message that a broker put again, and whose end reaches the next broker, is pending no more."""
    path, unhurried = tmp_path / "store", reput.StoreConfig(transaction_check_interval=60_000)
    with reput.serve(path, topics={"orders": 4}, config=EAGER) as broker, Client(broker.address) as client:
        sent = begin(client, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        wait_until(lambda: client.ask(R.GET_MAX_OFFSET, topic=HALF_TOPIC, queueId=0).fields["offset"] > "1")
    assert pending_keys(path) == ["u0"]
    with reput.serve(path, config=unhurried) as broker, Client(broker.address) as client:
        assert end(client, sent, TRANSACTION_COMMIT).code == C.SUCCESS
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    with reput.MessageStore.open(path, read_only=True) as store:
        assert [one.body for one in store.get_message(OP_TOPIC, 0, 0)] == [b"0,"]
    assert pending_keys(path) == []
    assert_sound(path)


def test_a_transaction_survives_a_kill(tmp_path: Path) -> None:
    """After a kill the next broker knows which transactions have ended, and asks about the others."""
    store = tmp_path / "store"
    with killed_broker(store, queues=4) as client:
        sent = [begin(client, number) for number in range(3)]
        end(client, sent[0], TRANSACTION_COMMIT)
        end(client, sent[1], TRANSACTION_ROLLBACK)
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    assert pending_keys(store) == ["u2"]
    with reput.serve(store, config=EAGER) as broker, Client(broker.address) as client:
        client.produce("c@1", "pg")
        assert client.next_asked().fields["msgId"] == "u2"
        assert bodies(client.pull("orders", 2)) == [b"body0"]
    assert_sound(store)


@pytest.mark.golden
def test_transactions_of_rocketmq_are_asked_about(tmp_path: Path) -> None:
    """Every half message that a broker left without an end is asked about by ours."""
    store = golden.unpack("pending", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened:
        # Others wait as timer messages.
        rows = [row for row in opened.pending.transactions() if row.source == HALF]
    config = reput.StoreConfig.from_properties({**dict(line.split("=") for line in golden.CONFIG.split())})
    config = config.with_given(EAGER).with_given(reput.StoreConfig(file_reserved_time=10**6, delete_expired=False))
    with reput.serve(store, config=config) as broker, Client(broker.address) as client:
        for group in {row.producer_group for row in rows}:
            client.produce("c@1", str(group))
        asked: set[str | None] = set()
        # Before the producers are known, nobody is asked, and the next round asks again.
        while len(asked) < len(rows):
            asked.add(client.next_asked().fields["msgId"])
    assert asked == {row.unique_key for row in rows}
    assert rows
    assert_sound(store, config)
