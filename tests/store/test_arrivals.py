"""Waiting for messages: each waiter of a queue is called when its message is readable, and no other is."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats import paths
from reput.store.read.arrivals import Arrivals, Waiter

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=2000, max_hash_slot_num=16, max_index_num=80
)
SOON_S = 20


def put_later(store: reput.MessageStore, topic: str, queue_id: int = 0) -> threading.Timer:
    """A message, a moment from now."""
    timer = threading.Timer(0.05, lambda: store.put_message(reput.Message(topic, b"x"), queue_id))
    timer.start()
    return timer


def test_wait(tmp_path: Path) -> None:
    """It returns at once for what is there, when it comes for what is not, and at the time-out for what never comes."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        store.put_message(reput.Message("a", b"x"))
        assert store.wait("a", 0, 0, 0.0)
        assert not store.wait("a", 0, 1, 0.01)
        timer = put_later(store, "a")
        assert store.wait("a", 0, 1, SOON_S)
        timer.join()
        assert len(store.get_message("a", 0, 1)) == 1


def test_wait_for_another_process(tmp_path: Path) -> None:
    """A read-only store beside a writer waits too, and sees the messages that woke it."""
    with (
        reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store,
        reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as reader,
    ):
        timer = put_later(store, "new")
        assert reader.wait("new", 0, 0, SOON_S)
        timer.join()
        assert len(reader.get_message("new", 0, 0)) == 1


def test_waiters_are_told_once_and_alone(tmp_path: Path) -> None:
    """Each of thousands of waiters is called exactly once, and only for its own queue."""
    heard: dict[int, int] = {}
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:

        def arrived(number: int) -> None:
            heard[number] = heard.get(number, 0) + 1

        waiters = [
            store.on_arrival("a", number, 0, lambda number=number: arrived(number))  # type: ignore[misc]
            for number in range(3000)
        ]
        for number in range(0, 3000, 500):
            store.put_message(reput.Message("a", b"x"), number)
        assert heard == dict.fromkeys(range(0, 3000, 500), 1)
        store.put_messages([reput.Message("a", b"x")] * 3, 7)
        assert heard[7] == 1
        store.stop_waiting(waiters[9])
        store.put_message(reput.Message("a", b"x"), 9)
        assert 9 not in heard
    assert len(heard) == 3000 - 1
    assert set(heard.values()) == {1}


def test_close_wakes_everybody(tmp_path: Path) -> None:
    """Nobody waits for a store that is closed."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    woken = threading.Event()
    store.on_arrival("a", 0, 0, woken.set)
    store.close()
    assert woken.is_set()


def test_names_that_cannot_be(tmp_path: Path) -> None:
    """A topic or queue that cannot be is refused, not waited for."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        with pytest.raises(ConfigError):
            store.wait("a/../b", 0, 0, 0.0)
        with pytest.raises(ConfigError):
            store.wait("a", -1, 0, 0.0)


def test_reached_tells_those_in_front() -> None:
    """A queue that has reached an offset calls the waiters of the offsets below it."""
    arrivals, heard = Arrivals(), []
    for offset in range(5):
        arrivals.add(Waiter("a", 0, offset, lambda offset=offset: heard.append(offset)))  # type: ignore[misc]
    arrivals.reached("a", 1, 9)
    arrivals.reached("a", 0, 3)
    assert heard == [0, 1, 2]
    assert arrivals.waits("a", 0)
    arrivals.reached("a", 0, 5)
    assert heard == [0, 1, 2, 3, 4]
    assert not arrivals


def test_lag(tmp_path: Path) -> None:
    """Lag is the log that no index covers: bytes, messages and the age of its first message."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        assert store.lag() == (0, 0, 0)
        first = store.put_message(reput.Message("a", b"x"))
        size = first.size
        for _ in range(9):
            store.put_message(reput.Message("a", b"x"))
        time.sleep(0.01)
        lag = store.lag()
        assert (lag.bytes, lag.messages) == (10 * size, 10)
        assert 10 <= lag.ms < 10_000
        store.reput(spark=False)
        assert store.lag() == (0, 0, 0)


def test_puts_ask_about_their_own_queues_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand waiters of other queues, puts look at the queues that they put to, and wake these."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        monkeypatch.setattr(store, "_notify_arrivals", lambda: None)
        woken: list[str] = []
        for queue_id in range(1000):
            store.on_arrival("other", queue_id, 0, lambda: woken.append("other"))
        for queue_id in range(3):
            store.on_arrival("own", queue_id, 0, lambda: woken.append("own"))
        asked: list[tuple[str, int]] = []
        true = store.view.max_offset
        monkeypatch.setattr(store.view, "max_offset", lambda *queue: (asked.append(queue), true(*queue))[1])
        store.put_messages((reput.Message("own", b"x") for _ in range(2)), [0, 1])
        store.put_message(reput.Message("own", b"x"), 2)
        assert sorted(asked) == [("own", queue_id) for queue_id in range(3)]
        assert woken == ["own"] * 3


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_callback_that_fails_left_the_store_open_and_others_waiting(flush: str, tmp_path: Path) -> None:
    """A callback wakes a loop that is closed by now: the put is acknowledged, others are called, the close is whole."""
    config = replace(CONFIG, flush_disk_type=flush)
    called = threading.Event()

    def fail() -> None:
        raise RuntimeError("Event loop is closed")

    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        store.on_arrival("a", 0, 0, fail)
        store.on_arrival("a", 0, 0, called.set)
        assert store.put_message(reput.Message("a", b"x")).status is reput.PutStatus.PUT_OK
        assert called.wait(SOON_S)
        store.commit_offset("g", "a", 0, 1)
        store.on_arrival("a", 0, 1, fail)
    assert not (tmp_path / "s" / paths.ABORT).exists()
    with reput.MessageStore.open(tmp_path / "s", config) as store:
        assert store.query_offset("g", "a", 0) == 1
