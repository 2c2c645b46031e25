"""A store's end: what was given to it is kept, who waits hears of it, and a closed store answers nothing."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import AccessError, ClosedError, FlushError, ReputError
from reput.files import fs, locks
from reput.formats import paths
from reput.formats.own import files as own
from reput.log.append.append import LogAppender
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.pipeline.spark.engine import LoopEngine
from reput.pipeline.spark.listener import ProgressListener
from reput.store import message_store
from reput.store.write.writing import StoreWriter
from support.checked import assert_sound
from support.growing import CatchUpThatWaits, many_splits
from support.opened import CONFIG, bodies, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.log.append.positions import Flushed

OK = reput.PutStatus.PUT_OK


def test_closed(tmp_path: Path) -> None:
    """A closed store answers nothing, and closing twice is no error; results that were taken stay valid."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 3)
    result = store.get_message("t", 0, 0)
    store.close()
    store.close()
    assert [message.body for message in result] == [b"0", b"1", b"2"]
    calls: dict[str, Callable[[], object]] = {
        "put_message": lambda: store.put_message(reput.Message("t", b"")),
        "put_messages": lambda: store.put_messages([]),
        "put_message_async": lambda: store.put_message_async(reput.Message("t", b"")),
        "put_messages_async": lambda: store.put_messages_async([]),
        "get_message": lambda: store.get_message("t", 0, 0),
        "offset_by_time": lambda: store.offset_by_time("t", 0, 0),
        "query_message": lambda: store.query_message("t", "k"),
        "message_at": lambda: store.message_at(0),
        "estimate": lambda: store.estimate("t", 0, 0, 1),
        "queues": store.queues,
        "lag": store.lag,
        "flush": store.flush,
        "reput": lambda: store.reput(spark=False),
        "delete_expired": lambda: store.delete_expired(manual=True),
        "commit_offset": lambda: store.commit_offset("g", "t", 0, 1),
        "query_offset": lambda: store.query_offset("g", "t", 0),
        "reset_offset": lambda: store.reset_offset("g", "t", 0, 1),
        "clean_offsets": lambda: store.clean_offsets(group="g"),
    }
    for call in calls.values():
        with pytest.raises(ClosedError):
            call()


def test_a_close_left_the_catch_up_of_another_thread_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits for a catch-up that is under way, and indexes what came after it."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 3)
    catch_up = CatchUpThatWaits(monkeypatch)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(store.reput, spark=False)
        catch_up.has_begun.wait()
        second = threads.submit(store._writer().catch_up_with, SparkIndexer(LoopEngine()))
        put(store, 2)
        closing = threads.submit(store.close)
        with pytest.raises(TimeoutError):
            closing.result(0.3)
        catch_up.may_go_on.set()
        closing.result()
        assert first.result().messages == 3
        # It may come before the close's own catch-up, or find the store closed.
        assert isinstance(second.exception(), ClosedError | None)
    assert not store.layout.abort.exists()
    assert_sound(tmp_path / "s", CONFIG)


@pytest.mark.parametrize("stays", [True, False])
def test_a_close_failed_when_a_follower_had_just_come(
    stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that comes between the look and the catch-up gets the work, unless it has gone again."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 3)
    follower = contextlib.ExitStack()
    refuse = store.refuse_catch_up

    def comes_first() -> None:
        monkeypatch.undo()
        with follower:
            follower.enter_context(locks.follower_lock(store.layout.own(own.FOLLOWER_NAME), ""))
            try:
                refuse()
            finally:
                if stays:
                    # Beyond this call.
                    later.push(follower.pop_all())

    with contextlib.ExitStack() as later:
        monkeypatch.setattr(store, "refuse_catch_up", comes_first)
        store.close()
        assert store.layout.abort.exists() == stays
    if stays:
        reput.follow(tmp_path / "s", spark=False, until_caught_up=True).wait()
    assert_sound(tmp_path / "s", CONFIG)


def test_a_close_in_the_thread_of_a_catch_up_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener, or the handler of a signal, may close the store: the catch-up ends with an error, or completes."""
    many_splits(monkeypatch, 700)
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 20)

    class Closing(ProgressListener):
        def advance(self, *_: object, **__: object) -> None:
            store.close(reput=False)

    with contextlib.suppress(ReputError):
        store.reput(spark=False, listener=Closing())
    assert not store.is_writing
    with reput.MessageStore.open(tmp_path / "s", CONFIG) as store:
        assert len(bodies(store)) == 20
    assert_sound(tmp_path / "s", CONFIG)


def test_a_close_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's lock is gone then, so nothing can be put any more; what was put is there for the next."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 3)
    assert store._housekeeper is not None

    def breaks_off() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store._housekeeper, "join", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    with pytest.raises(ClosedError):
        put(store, 1)
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as following:
        put(following, 1)
        assert following.max_offset("t", 0) == 4


def test_progress_does_not_outlive_a_log_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close whose log the disk refuses says so, leaves `abort`, and keeps the offsets of before.

    A power cut may now take the messages that the newer ones rest on.
    """
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 1)
    store.commit_offset("g", "t", 0, 1)

    def refuse(_file: object) -> None:
        raise ReputError("the disk refuses")

    with monkeypatch.context() as patched:
        patched.setattr("reput.log.append.append_file.AppendFile.sync", refuse)
        with pytest.raises(FlushError, match="the disk refuses"):
            store.close()
    assert store.layout.abort.exists()
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        assert store.query_offset("g", "t", 0) == -1
        assert len(bodies(store)) == 1


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_who_waits_hears_of_what_was_under_way(flush: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter is called as soon as a message is visible, not by the thread that flushes: it may put, too."""
    monkeypatch.setattr(message_store, "_TICK_S", 3600)
    config = StoreConfig(flush_disk_type=flush, mapped_file_size_commit_log=1 << 16)
    heard = queue.SimpleQueue[reput.PutResult]()
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        store.on_arrival("t", 0, 99, lambda: heard.put(store.put_message(reput.Message("answers", b"x"))))
        futures = [store.put_message_async(reput.Message("t", b"x")) for _ in range(100)]
        assert heard.get(timeout=60).status is OK
        assert [future.result(60).status for future in futures] == [OK] * 100


def test_a_callback_that_closes_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, since it runs in a thread that would have to end, and the store is as it was."""
    config = StoreConfig(flush_disk_type="SYNC_FLUSH", mapped_file_size_commit_log=1 << 16)
    heard, may_sync, true = queue.SimpleQueue[Exception](), threading.Event(), fs.sync_data

    def sync(descriptor: int) -> None:
        assert may_sync.wait(60)
        true(descriptor)

    def close(_: object) -> None:
        try:
            store.close()
        except AccessError as error:
            heard.put(error)

    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        monkeypatch.setattr(fs, "sync_data", sync)
        future = store.put_message_async(reput.Message("t", b"x"))
        future.add_done_callback(close)
        may_sync.set()
        assert "cannot close" in str(heard.get(timeout=60))
        assert store.put_message(reput.Message("t", b"x")).status is OK
    assert not (tmp_path / "s" / paths.ABORT).exists()


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_what_is_under_way_is_kept_at_close(flush: str, tmp_path: Path) -> None:
    """A store that is closed has kept what it promised."""
    config = StoreConfig(flush_disk_type=flush, mapped_file_size_commit_log=1 << 16)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        futures = [store.put_message_async(reput.Message("t", b"x")) for _ in range(100)]
    assert [future.result(0).status for future in futures] == [OK] * 100
    with reput.MessageStore.open(tmp_path / "s", config, read_only=True) as reader:
        assert reader.max_offset("t", 0) == 100
        with pytest.raises(AccessError):
            reader.put_message_async(reput.Message("t", b"x"))


@pytest.mark.parametrize(
    ("config", "properties"),
    [
        (StoreConfig(transient_store_pool_enable=True, commit_interval_commit_log=60_000), None),
        (StoreConfig(flush_disk_type="SYNC_FLUSH"), {"WAIT": "false"}),
    ],
    ids=["write buffer", "put that does not wait"],
)
@pytest.mark.parametrize("catch_up", [True, False])
def test_what_is_not_confirmed_yet_counts_at_close(
    config: StoreConfig, properties: dict[str, str] | None, catch_up: bool, tmp_path: Path
) -> None:
    """Messages that readers have not seen are indexed at close, or `abort` stays and shows RocketMQ a crash."""
    config = replace(config, mapped_file_size_commit_log=1 << 16)
    store = reput.MessageStore.open(tmp_path / "s", config, create=True)
    try:
        put(store, 5, properties=properties)
        put(store, 5, "u", properties=properties)
    finally:
        store.close(reput=catch_up)
    assert store.layout.abort.exists() is not catch_up
    if catch_up:
        assert_sound(tmp_path / "s", config)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        assert store.view.follower.records == (0 if catch_up else 10)
        assert len(bodies(store)) == len(bodies(store, "u")) == 5


def test_a_put_amid_a_close_is_refused_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that comes after the last flush of a close raises: it would be answered, and not be durable."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    put(store, 3)
    outcomes: list[object] = []
    true_flush = LogAppender.flush

    def flush(appender: LogAppender) -> Flushed:
        done = true_flush(appender)
        try:
            outcomes.append(appender.append(reput.Message("t", b"late")).status)
        except ClosedError as error:
            outcomes.append(error)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(LogAppender, "flush", flush)
        store.close(reput=False)
    assert outcomes
    assert all(isinstance(outcome, ClosedError) for outcome in outcomes), outcomes
    with reput.MessageStore.open(tmp_path / "s", CONFIG) as store:
        assert len(bodies(store)) == 3


def test_who_opens_or_closes_a_store_is_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever RocketMQ's lock is taken or let go of, reput's own is held: readers take nobody else for a broker."""
    found = []
    true_lock = locks.broker_lock

    @contextlib.contextmanager
    def watched(*arguments: object, **named: object) -> Iterator[None]:
        found.append(locks.owner_is_live(layout.own(own.LOCK_NAME)))
        with true_lock(*arguments, **named):  # type: ignore[arg-type]
            yield
        found.append(locks.owner_is_live(layout.own(own.LOCK_NAME)))

    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        layout = store.layout
    monkeypatch.setattr(locks, "broker_lock", watched)
    with reput.MessageStore.open(tmp_path / "s", CONFIG):
        pass
    assert found == [True, True]


def test_the_housekeeper_died_of_an_error_that_is_not_of_reput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step that fails is kept as `background_error` and logged, and the other steps go on: offsets are saved."""

    def fail(_self: StoreWriter) -> None:
        raise FileNotFoundError("no temporary folder")

    config = replace(CONFIG, flush_consumer_offset_interval=1)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        monkeypatch.setattr(StoreWriter, "catch_up", fail)
        store.commit_offset("g", "t", 0, 5)
        offsets = tmp_path / "s" / paths.CONFIG / "consumerOffset.json"
        deadline = time.monotonic() + 20
        while not (offsets.exists() and isinstance(store.background_error, FileNotFoundError)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "the housekeeper of" in caplog.text
