"""Timer messages wait in the timer topic and the timer wheel, and come in the second at which they are due."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from broker.killed import killed_broker
from broker.remoting import Client, bodies, pull_fields, records
from reput.broker.services import due, timers
from reput.files import fs
from reput.formats.config import delay_offset
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, text_properties
from reput.formats.pending import timer_checkpoint, timer_wheel
from reput.formats.topics.system_topics import DATABASE_HALF_TOPIC, TIMER_TOPIC
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.store.pending.timer_wheel import read_timer_checkpoint
from reput.store.write import timer_files
from support import golden
from support.checked import assert_sound
from support.waiting import TIMEOUT_S, wait_until

if TYPE_CHECKING:
    from reput.formats.wire.remoting import RemotingFrame

C = ResponseCode
DAY_MS = 24 * 3_600_000


def now_ms() -> int:
    """The time in ms since 1970."""
    return time.time_ns() // 1_000_000


def put_later(client: Client, body: bytes, queue_id: int = 0, **named: object) -> RemotingFrame:
    """Send a message with properties."""
    return client.put("orders", body, queue_id, properties="".join(f"{k}\x01{v}\x02" for k, v in named.items()))


def held_pull(client: Client, queue_id: int = 0, offset: int = 0) -> RemotingFrame:
    """The answer of a pull that waits for a message."""
    fields = pull_fields("orders", queue_id, offset, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
    return client.answer(client.send(RequestCode.PULL_MESSAGE, **fields))


def set_clock(monkeypatch: pytest.MonkeyPatch, at_ms: int) -> None:
    """Let timers see this time, soon after it is set."""
    monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.02)
    monkeypatch.setattr(timers, "now_ms", lambda: at_ms)
    monkeypatch.setattr(timer_files, "now_ms", lambda: at_ms)


@pytest.mark.behaviour("TimerMessageStoreTest.testPutTimerMessage")
def test_a_timer_message_comes_when_it_is_due(broker: reput.RunningBroker, client: Client) -> None:
    """It waits as RocketMQ keeps it, and comes in the second at which it is due with all that it had."""
    due_ms = now_ms() + 3000
    sent = put_later(client, b"later", 3, TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u1", TAGS="paid")
    assert (sent.code, sent.fields["queueId"]) == (C.SUCCESS, "3")
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (waiting,) = store.get_message(TIMER_TOPIC, 0, 0)
        out_ms = (due_ms - 1) // 1000 * 1000
        assert waiting.properties["TIMER_OUT_MS"] == str(out_ms)
    (record,) = records(held_pull(client, 3))
    assert due_ms <= record.store_timestamp < due_ms + 10_000
    named = text_properties(record.properties)
    assert named | waiting.properties == named
    assert int(named["TIMER_DEQUEUE_MS"]) >= int(named["TIMER_ENQUEUE_MS"])
    wait_until(lambda: not pending(broker.path))


def pending(path: Path) -> list[tuple[str | None, str]]:
    """Unique key and source of the timers that `reput pending` shows."""
    with reput.MessageStore.open(path, read_only=True) as store:
        return [(row.unique_key, row.source) for row in store.pending.timers()]


def taken_in(client: Client) -> bool:
    """Return True if the wheel has all timer messages, and their recalls."""
    table = json.loads(client.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    return bool(table["timerOffsetBehind"] == "0")


@pytest.mark.behaviour("TimerMessageStoreTest.testPutExpiredTimerMessage")
def test_a_time_is_given_in_three_ways(client: Client) -> None:
    """Seconds and milliseconds from now count as a time does; one that is over does not; a delay level counts more."""
    put_later(client, b"seconds", TIMER_DELAY_SEC=1)
    put_later(client, b"ms", TIMER_DELAY_MS=700)
    put_later(client, b"over", TIMER_DELIVER_MS=now_ms() - 1)
    put_later(client, b"level", TIMER_DELAY_SEC=1000, DELAY=1)
    assert bodies(client.pull("orders")) == [b"over"]
    wait_until(lambda: len(bodies(client.pull("orders"))) == 4)
    assert Counter(bodies(client.pull("orders"))) == Counter([b"over", b"seconds", b"ms", b"level"])


def test_a_timer_message_without_room_was_lost(broker: reput.RunningBroker, client: Client) -> None:
    """A message whose properties leave no room for the times that the broker notes is delivered without them."""
    fields = {"TIMER_DELAY_MS": 1000, "UNIQ_KEY": "u1"}
    put_later(client, b"short", pad="x", **fields)
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (waiting,) = store.get_message(TIMER_TOPIC, 0, 0)
    room = 1 + MAX_PROPERTIES_SIZE - len(waiting.record.properties)
    assert put_later(client, b"long", 1, pad="x" * (room + 1), **fields).code == C.MESSAGE_ILLEGAL
    assert put_later(client, b"long", 1, pad="x" * room, **fields).code == C.SUCCESS
    (record,) = records(held_pull(client, 1))
    named = text_properties(record.properties)
    assert (record.body, len(named["pad"])) == (b"long", room)
    assert not named.keys() & {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}


@pytest.mark.behaviour(
    "TimerMessageStoreTest.testDeleteTimerMessage",
    "TimerMessageStoreTest.testPutDeleteTimerMessage",
)
def test_a_message_that_is_recalled_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recall names the message by the handle of its send; another message of its second comes."""
    path, begun_ms = tmp_path / "store", now_ms()
    config, due_ms = reput.StoreConfig(recall_message_enable=True), begun_ms + 60_000
    set_clock(monkeypatch, begun_ms)
    with reput.serve(path, topics={"orders": 4}, config=config) as broker, Client(broker.address) as client:
        first = put_later(client, b"first", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u1")
        put_later(client, b"second", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u2")
        fields = {"producerGroup": "pg", "topic": "orders", "recallHandle": first.fields["recallHandle"]}
        recalled = client.ask(RequestCode.RECALL_MESSAGE, **fields)
        assert (recalled.code, recalled.fields["msgId"]) == (C.SUCCESS, "u1")
        wait_until(lambda: taken_in(client))
        set_clock(monkeypatch, due_ms + 1000)
        assert bodies(held_pull(client)) == [b"second"]
        wait_until(lambda: not pending(path))
        late = client.ask(RequestCode.RECALL_MESSAGE, **fields)
        wrong = [
            client.ask(RequestCode.RECALL_MESSAGE, **{**fields, "recallHandle": handle})
            for handle in ("", "?", "djEgYSBiIGMgZA==")
        ]
        assert {late.code, *(one.code for one in wrong)} == {C.ILLEGAL_OPERATION}
        other = client.ask(RequestCode.RECALL_MESSAGE, **{**fields, "topic": "TBW102"})
        assert (other.code, "topic" in str(other.remark)) == (C.ILLEGAL_OPERATION, True)
    assert_sound(path)


def test_recalls_are_off_unless_they_are_allowed(broker: reput.RunningBroker, client: Client) -> None:
    """The setting recallMessageEnable is false by default, as in RocketMQ."""
    sent = put_later(client, b"later", TIMER_DELAY_SEC=100)
    fields = {"producerGroup": "pg", "topic": "orders", "recallHandle": sent.fields["recallHandle"]}
    assert client.ask(RequestCode.RECALL_MESSAGE, **fields).code == C.NO_PERMISSION
    wait_until(lambda: [source for _, source in pending(broker.path)] == ["wheel"])
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        (timer,) = store.pending.timers()
        assert (timer.topic, timer.queue_id) == ("orders", 0)


def test_a_timer_survives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that waits when the broker is killed comes from the next one, once, even if it was due meanwhile."""
    store = tmp_path / "store"
    with killed_broker(store) as client:
        due_ms = now_ms() + 60_000
        put_later(client, b"meanwhile", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u1")
        put_later(client, b"later", TIMER_DELIVER_MS=due_ms + 3000, UNIQ_KEY="u2")
        wait_until(lambda: pending(store) == [("u1", "wheel"), ("u2", "wheel")])
    set_clock(monkeypatch, due_ms + 1000)
    with reput.serve(store) as broker, Client(broker.address) as client:
        assert bodies(held_pull(client)) == [b"meanwhile"]
        wait_until(lambda: pending(store) == [("u2", "wheel")])
        set_clock(monkeypatch, due_ms + 4000)
        assert bodies(held_pull(client, offset=1)) == [b"later"]
    with reput.serve(store) as broker, Client(broker.address) as client:
        time.sleep(0.3)
        assert bodies(client.pull("orders")) == [b"meanwhile", b"later"]
    assert_sound(store)


@pytest.mark.parametrize("lost", ["checkpoint", "checkpoint and wheel"])
def test_timers_survive_a_kill_before_the_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Messages in the wheel that were due while no broker ran come from the next one, also without a checkpoint."""
    path, due_ms = tmp_path / "store", now_ms() // 1000 * 1000 + 60_000
    with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
        put_later(client, b"first", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u1")
        put_later(client, b"second", TIMER_DELIVER_MS=due_ms + 5000, UNIQ_KEY="u2")
        wait_until(lambda: pending(path) == [("u1", "wheel"), ("u2", "wheel")])
    (path / "config" / timer_checkpoint.FILE_NAME).unlink()
    if "wheel" in lost:
        (path / timer_wheel.FILE_NAME).unlink()
    set_clock(monkeypatch, due_ms + 2000)
    with reput.serve(path) as broker, Client(broker.address) as client:
        assert bodies(held_pull(client)) == [b"first"]
        wait_until(lambda: pending(path) == [("u2", "wheel")])
        set_clock(monkeypatch, due_ms + 8000)
        assert bodies(held_pull(client, offset=1)) == [b"second"]
    assert_sound(path)


def test_a_message_that_is_due_late_is_put_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is due after the wheel's two days goes round once more, and comes at its time."""
    path, begun_ms = tmp_path / "store", now_ms()
    due_ms = begun_ms // 1000 * 1000 + 5 * DAY_MS // 2
    with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
        put_later(client, b"late", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="u1")
        wait_until(lambda: pending(path) == [("u1", "wheel")])
    set_clock(monkeypatch, begun_ms + DAY_MS + 3000)
    with reput.serve(path) as broker, Client(broker.address) as client:
        wait_until(lambda: broker._broker.store.max_offset(TIMER_TOPIC, 0) == 2)
        wait_until(lambda: pending(path) == [("u1", "wheel")])
        assert bodies(client.pull("orders")) == []
    set_clock(monkeypatch, due_ms + 1000)
    with reput.serve(path) as broker, Client(broker.address) as client:
        (record,) = records(held_pull(client))
        assert text_properties(record.properties)["TIMER_ROLL_TIMES"] == "1"
    assert_sound(path)


@pytest.mark.golden
def test_timers_of_rocketmq_are_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every timer message that a broker left comes from ours, in the order of their times, and none is pending then."""
    store = golden.unpack("pending", tmp_path)
    config = reput.StoreConfig.from_properties(dict(line.split("=") for line in golden.CONFIG.split()))
    with reput.MessageStore.open(store, read_only=True) as opened:
        rows = [row for row in opened.pending.timers() if row.state.value == "verified"]
        ends = {(q.topic, q.queue_id): q.max_offset for q in opened.queues()}
    set_clock(monkeypatch, max(row.deliver_timestamp for row in rows) + 2000)
    with reput.serve(store, config=config):
        wait_until(lambda: not pending(store))
    with reput.MessageStore.open(store, read_only=True) as opened:
        for topic, queue_id in {(str(row.topic), row.queue_id or 0) for row in rows}:
            wanted = [row.unique_key for row in rows if (row.topic, row.queue_id) == (topic, queue_id)]
            found, offset = list[str](), ends[topic, queue_id]
            # A pull ends with a file of the queue.
            while len(pull := opened.get_message(topic, queue_id, offset, 10_000)):
                found, offset = [*found, *(one.unique_key for one in pull)], pull.next_offset
            assert found == wanted
    assert rows
    assert_sound(store, config)


@pytest.mark.golden
def test_what_waits_in_rocksdb_is_left_there_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Timer and half messages of RocketMQ's database stay in it, a warning says so, and new timer messages come."""
    store = golden.unpack("pending-rocksdb", tmp_path)
    config = reput.StoreConfig.from_properties(dict(line.split("=") for line in golden.CONFIG.split()))
    with reput.MessageStore.open(store, config) as opened:
        waiting = {timer.physical_offset for timer in opened.pending.timers()}
        delivered = {queue: opened.max_offset("orders", queue) for queue in range(1, 4)}
        half = {"REAL_TOPIC": "orders", "REAL_QID": "1", "UNIQ_KEY": "h", "__transactionId__": "h", "PGROUP": "pg"}
        opened.put_message(reput.Message(DATABASE_HALF_TOPIC, b"half", properties=half), 0)
        end = opened.max_offset("orders", 0)
    caplog.set_level(logging.WARNING, "reput.broker")
    with reput.serve(store, config=config) as broker, Client(broker.address) as client:
        put_later(client, b"new", UNIQ_KEY="new", TIMER_DELAY_MS=1200)
        assert bodies(held_pull(client, 0, end)) == [b"new"]
    said = [line for line in caplog.messages if "rocksdbstore" in line]
    assert len(said) == 1
    assert "timer messages (timerRocksDBEnable) and half messages (transRocksDBEnable)" in said[0]
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert {timer.physical_offset for timer in opened.pending.timers()} == waiting
        assert {queue: opened.max_offset("orders", queue) for queue in range(1, 4)} == delivered


def test_a_plain_store_has_nothing_in_rocksdb_to_say(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A store without the database is served without the warning."""
    with caplog.at_level(logging.WARNING, "reput.broker"), reput.serve(tmp_path / "store"):
        pass
    assert not [line for line in caplog.messages if "RocksDB" in line or "rocksdbstore" in line]


def test_progress_written_by_two_threads_at_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for a note of progress that the disk holds up; the last note begins after it, and is the newest."""
    write_whole, has_begun, may_go_on = fs.write_whole, threading.Event(), threading.Event()
    steps: list[str] = []

    def waiting(path: Path | str, data: bytes, owner: fs.Owner | None = None) -> None:
        if Path(path).name not in {timer_checkpoint.FILE_NAME, delay_offset.FILE_NAME}:
            return write_whole(path, data, owner)
        steps.append("begins")
        if not has_begun.is_set():
            has_begun.set()
            assert may_go_on.wait(TIMEOUT_S)
        write_whole(path, data, owner)
        steps.append("ends")
        return None

    monkeypatch.setattr(fs, "write_whole", waiting)
    with reput.serve(tmp_path / "store", topics={"orders": 1}) as running, Client(running.address) as client:
        for number in range(2):
            assert put_later(client, b"later", TIMER_DELAY_SEC=1000).code == C.SUCCESS
            if number == 0:
                assert has_begun.wait(TIMEOUT_S)
        wait_until(lambda: taken_in(client))
        stopping = threading.Thread(target=running.close)
        stopping.start()
        time.sleep(0.5)
        may_go_on.set()
        stopping.join()
    assert steps == ["begins", "ends"] * (len(steps) // 2)
    checkpoint = read_timer_checkpoint(tmp_path / "store")
    assert checkpoint is not None
    assert checkpoint.last_timer_queue_offset == 2
    assert_sound(tmp_path / "store")
