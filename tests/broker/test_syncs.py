"""Sends with sync flush: bounded while they wait, answered when they are durable, or late; all share the syncs."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, bodies, pull_fields, send_fields
from reput.broker.services import syncs
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.append import append_file
from reput.times import now_ms
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

R, C = RequestCode, ResponseCode


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[reput.RunningBroker, threading.Event]]:
    """A broker with sync flush whose syncs wait until the event is set; its store is sound afterwards."""
    path, mended, sync = tmp_path / "store", threading.Event(), append_file.AppendFile.sync
    config = reput.StoreConfig(flush_disk_type="SYNC_FLUSH", sync_flush_timeout=500)
    with reput.serve(path, topics={"orders": 2}, config=config) as running:

        def wait_and_sync(self: append_file.AppendFile) -> None:
            mended.wait(60)
            sync(self)

        monkeypatch.setattr(append_file.AppendFile, "sync", wait_and_sync)
        yield running, mended
        mended.set()
    assert_sound(path)


@pytest.mark.behaviour("FlushDiskWatcherTest.testTimeout")
def test_a_send_that_waits_long_for_its_sync_is_answered(stuck: tuple[reput.RunningBroker, threading.Event]) -> None:
    """After syncFlushTimeout the answer is FLUSH_DISK_TIMEOUT with the message's place, where it is."""
    broker, mended = stuck
    with Client(broker.address) as client:
        for number in range(2):
            answer = client.put("orders", b"%d" % number)
            assert (answer.code, answer.fields["queueOffset"]) == (C.FLUSH_DISK_TIMEOUT, str(number))
        # Both wait until their sync ends.
        assert len(broker._broker.syncs) == 2
        mended.set()
        wait_until(lambda: len(broker._broker.syncs) == 0)
        assert client.put("orders", b"2").code == C.SUCCESS
        assert bodies(client.pull("orders")) == [b"0", b"1", b"2"]


@pytest.mark.behaviour("FlushDiskWatcherTest.testWatcher")
@pytest.mark.parametrize(("bound", "most"), [("MAX_SYNCS", 3), ("MAX_SYNC_BYTES", 4000)])
def test_sends_that_wait_for_a_sync_are_bounded(
    stuck: tuple[reput.RunningBroker, threading.Event], bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send above the bound is refused as busy, and not stored; with the sync the others are answered as stored."""
    broker, mended = stuck
    monkeypatch.setattr(syncs, bound, most)
    monkeypatch.setattr(broker._broker.syncs, "_time_out_ms", 60_000)
    with Client(broker.address) as client:
        sends = [(R.SEND_MESSAGE_V2, b"x" * 1000, 0, send_fields("orders", queue_id=1)) for _ in range(8)]
        numbers = client.send_all(sends)
        refused = client.answer(numbers[3])
        assert (refused.code, "[OVERLOAD]" in str(refused.remark)) == (C.SYSTEM_BUSY, True)
        mended.set()
        codes = [client.answer(number).code for place, number in enumerate(numbers) if place != 3]
        assert codes == [C.SUCCESS] * 3 + [C.SYSTEM_BUSY] * 4
        assert len(bodies(client.pull("orders", 1))) == 3
        assert client.put("orders").code == C.SUCCESS


def test_batches_that_wait_for_a_sync_are_bounded(
    stuck: tuple[reput.RunningBroker, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch above the bound in bytes of sends that wait for a sync is refused as busy; a smaller one is looked at."""
    broker, _ = stuck
    monkeypatch.setattr(syncs, "MAX_SYNC_BYTES", 2000)
    with Client(broker.address) as client:
        answer = client.ask(R.SEND_BATCH_MESSAGE, bytes(3000), **send_fields("orders", m=True))
        assert (answer.code, "[OVERLOAD]" in str(answer.remark)) == (C.SYSTEM_BUSY, True)
        assert client.ask(R.SEND_BATCH_MESSAGE, bytes(100), **send_fields("orders", m=True)).code == C.MESSAGE_ILLEGAL


def test_batches_share_the_sync_of_all_sends(
    stuck: tuple[reput.RunningBroker, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a sync hangs, batches and single messages are stored beside one another; the next sync answers them all."""
    broker, mended = stuck
    monkeypatch.setattr(broker._broker.syncs, "_time_out_ms", 60_000)
    batch = encode_messages(InnerMessage(0, body, b"") for body in (b"one", b"two"))
    sends = [
        (R.SEND_BATCH_MESSAGE, batch, 0, send_fields("orders", m=True)),
        (R.SEND_MESSAGE_V2, b"single", 0, send_fields("orders")),
    ] * 4
    with Client(broker.address) as client:
        numbers = client.send_all(sends)
        wait_until(lambda: len(broker._broker.syncs) == len(sends))
        assert broker._broker._working == 0
        mended.set()
        assert [client.answer(number).code for number in numbers] == [C.SUCCESS] * len(sends)
        assert sorted(bodies(client.pull("orders"))) == sorted([b"one", b"two", b"single"] * 4)


@contextlib.contextmanager
def closing(broker: reput.RunningBroker) -> Iterator[None]:
    """Let another thread close a broker."""
    thread = threading.Thread(target=broker.close)
    thread.start()
    yield
    thread.join()


def test_a_stop_left_sends_that_waited_for_their_sync_without_an_answer(
    stuck: tuple[reput.RunningBroker, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop keeps connections open for sends under way, and serves no further one; with the sync all are answered."""
    broker, mended = stuck
    monkeypatch.setattr(broker._broker.syncs, "_time_out_ms", 60_000)
    batch = encode_messages([InnerMessage(0, b"batch", b"")])
    sends = [
        (R.SEND_MESSAGE_V2, b"single", 0, send_fields("orders")),
        (R.SEND_BATCH_MESSAGE, batch, 0, send_fields("orders", m=True)),
    ]
    with Client(broker.address) as client, Client(broker.address) as reader:
        held = reader.send(R.PULL_MESSAGE, **pull_fields("orders", 1, sysFlag=2 | 4, suspendTimeoutMillis=30_000))
        numbers = client.send_all(sends)
        wait_until(lambda: (len(broker._broker.syncs), len(broker._broker.holds)) == (2, 1))
        with closing(broker):
            assert reader.answer(held).code == C.PULL_NOT_FOUND
            client.send_all(sends)
            client.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.receive()
            client.socket.settimeout(30)
            mended.set()
            assert [client.answer(number).code for number in numbers] == [C.SUCCESS] * 2
            with pytest.raises(ConnectionResetError):
                client.receive()
    with reput.MessageStore.open(broker.path, read_only=True) as store:
        assert store.max_offset("orders", 0) == 2


def test_a_stop_waits_no_longer_for_syncs_than_their_senders(
    stuck: tuple[reput.RunningBroker, threading.Event],
) -> None:
    """A send whose sync hangs while the broker stops is answered as late, and its connection is closed."""
    broker, mended = stuck
    with Client(broker.address) as client:
        number = client.send(R.SEND_MESSAGE_V2, b"late", **send_fields("orders"))
        wait_until(lambda: len(broker._broker.syncs) == 1)
        with closing(broker):
            assert client.answer(number).code == C.FLUSH_DISK_TIMEOUT
            with pytest.raises(ConnectionResetError):
                client.receive()
            mended.set()


def test_a_recall_was_answered_before_it_was_durable(
    stuck: tuple[reput.RunningBroker, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer waits for the disk, at most syncFlushTimeout: a power cut would let the message come all the same."""
    broker, mended = stuck
    monkeypatch.setattr(broker._broker.timers, "is_recall_enabled", True)
    due = f"TIMER_DELIVER_MS\x01{now_ms() + 60_000}\x02UNIQ_KEY\x01u\x02"
    with Client(broker.address) as client:
        sent = client.put("orders", b"late", properties=due)
        fields = {"producerGroup": "g", "topic": "orders", "recallHandle": sent.fields["recallHandle"]}
        begun = time.monotonic()
        assert client.ask(R.RECALL_MESSAGE, **fields).code == C.SUCCESS
        assert time.monotonic() - begun > 0.4
        mended.set()
        assert client.ask(R.RECALL_MESSAGE, **fields).code == C.SUCCESS
