"""follow: live indexes, brought up beside a writer or on a store at rest, are byte for byte those of a rebuild."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import reput
from reput.cli.main import run
from reput.config import StoreConfig
from reput.errors import DamagedLogError, EngineError, NotAStoreError, StoreLockedError
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.follow import follow as room
from reput.pipeline.follow import query
from reput.pipeline.follow.follow import Follow, FollowProgress
from reput.pipeline.follow.query import FollowHandle
from reput.pipeline.spark.engine import Engine, LoopEngine, SparkEngine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.frontier import read_frontier
from reput.store.disk.layout import find_store
from reput.store.owner.owner import own_store
from support import growing, stores
from support.broker import broker_at_work
from support.checked import assert_sound
from support.records import LogBuilder
from support.waiting import FOLLOWER_TIMEOUT_S, wait_for_follower

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
BODY_AT = 88


class Notes(ProgressListener):
    """Keeps what a follower says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.lines.append(text)


def follow(store: Path, config: StoreConfig = CONFIG, engine: Engine | None = None, **options: Any) -> Follow:
    """A follower whose steps the test makes itself."""
    return Follow(store, engine or LoopEngine(), config, **options)


def is_source(process: psutil.Process) -> bool:
    """Return True for the process of a streaming source, and False for one that has ended meanwhile."""
    try:
        return any("python_streaming_source_runner" in word for word in process.cmdline())
    except psutil.NoSuchProcess:  # a zombie is one of these
        return False


def put(store: reput.MessageStore, rng: random.Random, count: int) -> None:
    """Messages of a few queues, with tags and keys."""
    for _ in range(count):
        keys, tags = (f"k{rng.randrange(5)}" if rng.random() < 0.7 else None), rng.choice([None, "t", "u"])
        message = reput.Message(rng.choice("abc"), bytes(rng.randrange(200)), keys=keys, tags=tags)
        assert store.put_message(message, rng.randrange(2)).status is reput.PutStatus.PUT_OK


def pull(store: reput.MessageStore, topic: str, queue_id: int) -> list[bytes]:
    """All bodies of a queue, in pulls that each end at a queue file's border."""
    found: list[bytes] = []
    while result := store.get_message(topic, queue_id, len(found), 1000):
        assert [message.queue_offset for message in result] == list(range(len(found), result.next_offset))
        found += [message.body for message in result]
    return found


# --- beside a writer -------------------------------------------------------------------------------


def test_follow_drops_an_index_without_items(tmp_path: Path) -> None:
    """An IndexFile without an item stays, as in RocketMQ, and the first item goes into it."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, stores.SMALL, create=True) as store:
        store.put_message(reput.Message("t", b"no key"))
    before = stores.index_files(path)
    assert len(before) == 1
    reput.follow(path, spark=False, config=stores.SMALL, until_caught_up=True).wait()
    assert stores.index_files(path) == before
    assert reput.info(path).out_of_date == []
    with reput.MessageStore.open(path, stores.SMALL) as store:
        store.put_message(reput.Message("t", b"a key", keys="k"))
    ((name, data),) = stores.index_files(path)
    assert (name, data == before[0][1]) == (before[0][0], False)
    assert reput.info(path).out_of_date == []
    assert_sound(path, stores.SMALL)
    shutil.rmtree(path / "index")
    assert "reput rebuild --only index" in reput.info(path).out_of_date[0]


def test_a_store_without_keys_needs_no_index(tmp_path: Path) -> None:
    """An index that is complete without a file is not missing in `info`, and `dump index` shows none."""
    path = tmp_path / "s"
    config = replace(stores.SMALL, message_index_enable=False)
    with reput.MessageStore.open(path, config, create=True) as store:
        store.put_message(reput.Message("t", b"no key"))
    assert stores.index_files(path) == []
    info = reput.info(path)
    assert info.out_of_date == []
    assert any("no IndexFiles" in note for note in info.notes)
    assert run(["dump", "index", str(path)]) == 0
    assert_sound(path, stores.SMALL)


@pytest.mark.parametrize("seed", range(4))
def test_steps_beside_a_writer(seed: int, tmp_path: Path) -> None:
    """After each step readers find every message once, and in the end the indexes are those of a rebuild."""
    rng = random.Random(seed)
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    follower = follow(path, max_batch_bytes=3000)
    for _ in range(12):
        put(store, rng, rng.randrange(1, 40))
        for _ in range(rng.randrange(4)):
            follower.step()
        if rng.random() < 0.3:
            follower.make_durable()
        total = sum(queue.max_offset for queue in store.queues())
        assert sum(len(pull(store, queue.topic, queue.queue_id)) for queue in store.queues()) == total
    while follower.step():
        pass
    assert follower.progress.frontier == follower.progress.confirmed == store.flush()
    follower.close()
    assert store.behind_bytes == 0
    store.close()
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


def test_a_store_follows_itself(tmp_path: Path) -> None:
    """`open(follow=...)`: indexes come by themselves, lag falls to nothing, closing leaves a whole store."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, follow=True, spark=False, create=True) as store:
        put(store, random.Random(1), 300)
        assert store.is_followed
        wait_for_follower(lambda: store.lag().bytes == 0, "no lag")
        assert store.follower is not None
        assert store.follower.progress.messages == 300
        assert store.lag() == (0, 0, 0)
    assert not (path / paths.ABORT).exists()
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


@pytest.mark.spark
def test_a_store_follows_itself_on_spark(spark: SparkContext, tmp_path: Path) -> None:
    """The same as a Structured Streaming query, whose handle and progress Spark knows."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, follow=True, spark=spark, create=True) as store:
        rng = random.Random(2)
        for _ in range(5):
            put(store, rng, 60)
            wait_for_follower(lambda: store.lag().bytes == 0, "no lag")
        follower = store.follower
        assert follower is not None
        # A machine that is too busy ends a query, and the follower starts it again.
        wait_for_follower(
            lambda: follower.query is not None and follower.query.lastProgress is not None, "Spark's progress"
        )
        assert follower.query is not None
        assert follower.query.name == f"reput follow {path}"
    assert not follower.query.isActive
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


@pytest.mark.spark
def test_a_query_that_spark_ends_is_started_again(spark: SparkContext, tmp_path: Path) -> None:
    """An error of Spark's costs a follower a new query and a note, and no message."""
    notes, path = Notes(), tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, random.Random(3), 60)
        with FollowHandle(follow(path, engine=SparkEngine(spark), listener=notes)) as handle:
            first = handle.query
            wait_for_follower(lambda: store.lag().bytes == 0, "no lag")
            source = next(one for one in psutil.Process().children(recursive=True) if is_source(one))
            source.kill()
            put(store, random.Random(4), 60)
            wait_for_follower(lambda: handle.query is not first and store.lag().bytes == 0, "a new query")
    assert [note for note in notes.lines if note.endswith("Starting it again")]
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


class EndedQuery:
    """A query of Spark's that ended by an error at once."""

    isActive = False  # noqa: N815 - Spark's name

    def exception(self) -> Exception:
        """Return the error as PySpark gives it: the traceback of the JVM is with its cause."""
        broken, cause = OSError("Stream closed"), OSError()
        cause._stackTrace, broken._cause = "java.io.IOException: Stream closed", cause  # type: ignore[attr-defined]
        return broken

    def stop(self) -> None:
        """Do nothing."""


def test_a_query_that_always_ends_ends_its_follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few new starts, a note for each, then Spark's error with the traceback of its JVM."""
    notes, path = Notes(), tmp_path / "store"
    monkeypatch.setattr(query, "_PAUSE_S", 0.0)
    monkeypatch.setattr(FollowHandle, "_start_query", lambda *_: EndedQuery())
    with reput.MessageStore.open(path, CONFIG, create=True):
        handle = FollowHandle(follow(path, engine=SparkEngine.__new__(SparkEngine), listener=notes))
        with pytest.raises(EngineError, match="the streaming query failed: Stream closed") as failed:
            handle.wait(FOLLOWER_TIMEOUT_S)
    assert failed.value.__notes__ == ["In Spark's JVM: java.io.IOException: Stream closed"]
    assert notes.lines == ["warning: the streaming query failed: Stream closed. Starting it again"] * 3
    assert_sound(path, CONFIG)


def test_read_only_beside_a_follower(tmp_path: Path) -> None:
    """A reader in between sees all that is confirmed, whatever is indexed."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store, contextlib.closing(follow(path)) as follower:
        reader = reput.MessageStore.open(path, CONFIG, read_only=True)
        for number in range(60):
            store.put_message(reput.Message("a", b"%d" % number, keys="k"))
            if number % 7 == 0:
                follower.step()
            assert pull(reader, "a", 0) == [b"%d" % found for found in range(number + 1)]
            assert len(reader.query_message("a", "k", 100)) == number + 1
        reader.close()
    assert_sound(path, CONFIG)


def test_only_what_is_confirmed(tmp_path: Path) -> None:
    """A writer's confirmed offset is the end, whatever the log's files hold after it."""
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put(store, random.Random(1), 30)
    follower = follow(path)
    watermarks = Watermarks(find_store(path, CONFIG).own(own.WATERMARKS_NAME))
    confirmed = watermarks["confirmed_offset"]
    middle = store.get_message("a", 0, 2, 1)[0].physical_offset
    watermarks["confirmed_offset"] = middle
    while follower.step():
        pass
    assert follower.progress.frontier == middle < confirmed
    watermarks["confirmed_offset"] = confirmed
    while follower.step():
        pass
    assert follower.progress.frontier == confirmed
    watermarks.close()
    follower.close()
    store.close()
    assert_sound(path, CONFIG)


def test_goes_on_with_the_next_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer ends, another opens the store: the follower lets go of the first and takes up the second."""
    monkeypatch.setattr(room, "_LOOK_S", 0.0)
    path = tmp_path / "store"
    rng = random.Random(3)
    reput.MessageStore.open(path, CONFIG, create=True).close()
    follower = follow(path)
    for _ in range(3):
        store = reput.MessageStore.open(path, CONFIG, create=True)
        put(store, rng, 50)
        while follower.step() or follower.progress.state != "following":
            follower.tend()
        assert follower.progress.frontier == store.flush()
        store.close()
        while follower.progress.state != "idle":
            follower.step()
            follower.tend()
    follower.close()
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


def test_durable_follows_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The durable frontier goes after the visible one, never before it, and only when it is due."""
    monkeypatch.setattr(room, "DURABLE_INTERVAL_S", 0.0)
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    follower = follow(path)
    layout = find_store(path, CONFIG)
    for _ in range(5):
        put(store, random.Random(4), 20)
        before = read_frontier(layout)
        follower.step()
        assert read_frontier(layout) == before
        follower.tend()
        reported = read_frontier(layout)
        assert reported is not None
        assert reported.queue_offset == reported.index_offset == follower.progress.durable == follower.progress.frontier
    follower.close()
    store.close()
    assert_sound(path, CONFIG)


# --- on a store at rest ----------------------------------------------------------------------------


@pytest.mark.parametrize("max_batch_bytes", [700, 1 << 20])
def test_catches_up_a_store_at_rest(max_batch_bytes: int, tmp_path: Path) -> None:
    """A log without indexes, with queues out of order and a torn end, gets them as from a rebuild."""
    log = LogBuilder(4096)
    for number in range(60):
        log.message("ab"[number % 2], keys=f"k{number % 5}", tags="t")
    log.message("a", queue_offset=3)
    log.message("b", queue_offset=40, keys="k")
    store = stores.with_log(tmp_path, log)
    handle = reput.follow(
        store, spark=False, config=stores.SMALL, until_caught_up=True, max_bytes_per_trigger=max_batch_bytes
    )
    assert handle.wait(FOLLOWER_TIMEOUT_S)
    assert handle.progress.frontier == handle.progress.durable == log.end
    assert handle.progress.messages == 62
    stores.assert_as_rebuilt(store, tmp_path / "copy", stores.SMALL)


@pytest.mark.spark
def test_catches_up_on_spark(spark: SparkContext, tmp_path: Path) -> None:
    """The same as a query that ends by itself, and a second time there is nothing to do."""
    log = LogBuilder(4096)
    for number in range(100):
        log.message("ab"[number % 2], keys=f"k{number % 5}", tags="t")
    store = stores.with_log(tmp_path, log)
    for messages in (100, 0):
        handle = reput.follow(store, spark=spark, config=stores.SMALL, until_caught_up=True, max_bytes_per_trigger=3000)
        assert handle.wait(FOLLOWER_TIMEOUT_S)
        assert handle.progress.messages == messages
    stores.assert_as_rebuilt(store, tmp_path / "copy", stores.SMALL)


def test_grows_with_a_log_that_strangers_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose files change while nobody holds the store, a copy that grows for one, is taken up again."""
    monkeypatch.setattr(room, "_LOOK_S", 0.0)
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    follower = follow(store, stores.SMALL)
    for _ in range(4):
        while follower.step() or not follower.caught_up():
            follower.tend()
        assert follower.progress.frontier == log.end
        follower.tend()
        assert follower.progress.state == "idle"
        for _ in range(15):
            log.message("a", keys="k")
        stores.with_log(tmp_path, log)
    while follower.step() or not follower.caught_up():
        follower.tend()
    follower.close()
    stores.assert_as_rebuilt(store, tmp_path / "copy", stores.SMALL)


def test_falls_forward(tmp_path: Path) -> None:
    """Log files deleted before they were indexed: a warning, and on at the log's beginning."""
    log = LogBuilder(4096)
    for _ in range(120):
        log.message("a", keys="k", body=bytes(100))
    store = stores.with_log(tmp_path, log)
    notes = Notes()
    follower = follow(store, stores.SMALL, max_batch_bytes=1000, listener=notes)
    assert follower.step()
    files = sorted((store / paths.COMMIT_LOG).iterdir())
    for file in files[:3]:
        file.unlink()
    while follower.step():
        pass
    assert follower.progress.frontier == log.end
    follower.close()
    assert [line for line in notes.lines if line.startswith("warning: the log begins at 12288 now")]
    report = reput.check(store, spark=False, config=stores.SMALL)
    assert not [finding for finding in report.findings if finding.severity == "error"], report.findings


@pytest.mark.parametrize("splits", ["one", "many"])
@pytest.mark.parametrize("what", ["magic", "body"])
def test_damage_stops_it(what: str, splits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage ends the follower: records before it are indexed, none after it, and the error names the offset."""
    if splits == "many":
        growing.many_splits(monkeypatch, 700, above_bytes=500)
    log = LogBuilder(4096)
    for _ in range(30):
        log.message("a", keys="k")
    bad = log.message("a", keys="k").offset
    for _ in range(100):
        log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    file = store / paths.COMMIT_LOG / paths.offset_name(bad // 4096 * 4096)
    data = bytearray(file.read_bytes())
    at = bad % 4096 + (4 if what == "magic" else BODY_AT)
    data[at : at + 4] = b"\1\2\3\4"
    file.write_bytes(data)
    for _ in range(2):
        handle = reput.follow(store, spark=False, config=stores.SMALL)
        with pytest.raises(DamagedLogError, match=str(bad)):
            handle.wait(FOLLOWER_TIMEOUT_S)
        assert handle.progress.frontier == bad
        assert len(stores.entries(store, "a")[1]) == 30


# --- who may ---------------------------------------------------------------------------------------


def test_lets_go_for_a_writer(tmp_path: Path) -> None:
    """A follower that is catching up gives the store to a program that opens it to write, and goes on beside it."""
    log = LogBuilder(1 << 14)
    for number in range(2000):
        log.message("ab"[number % 2], keys=f"k{number % 5}", tags="t")
    path = stores.with_log(tmp_path, log)
    with reput.follow(path, spark=False, config=CONFIG, max_bytes_per_trigger=2000) as follower:
        wait_for_follower(lambda: follower.progress.batches > 3, "some batches")
        assert follower.progress.state == "catching up"
        with reput.MessageStore.open(path, CONFIG, create=True) as store:
            assert store.put_message(reput.Message("a", b"new")).queue_offset == 1000
            wait_for_follower(lambda: follower.progress.state == "following", "following beside the writer")
            wait_for_follower(lambda: store.lag().bytes == 0, "no lag")
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


def test_second_follower_is_refused(tmp_path: Path) -> None:
    """One process follows a store; the other is refused, and works once the first is gone."""
    store = stores.with_log(tmp_path, LogBuilder(4096))
    first = follow(store, stores.SMALL)
    with pytest.raises(StoreLockedError, match="Stop it first, or keep it"):
        follow(store, stores.SMALL)
    first.close()
    follow(store, stores.SMALL).close()


def test_catching_up_by_hand_is_refused_beside_it(tmp_path: Path) -> None:
    """`store.reput()` does not work against the follower, nor does a rebuild while it is at work."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, random.Random(1), 10)
        follower = follow(path)
        with pytest.raises(StoreLockedError, match="what this call would do"):
            store.reput(spark=False)
        with pytest.raises(StoreLockedError):
            stores.rebuild(path, CONFIG)
        follower.close()
        store.reput(spark=False)
    assert_sound(path, CONFIG)


def test_beside_a_broker_it_refuses(tmp_path: Path) -> None:
    """A live broker builds its own queues; reading beside it is allowed."""
    log = LogBuilder(4096)
    log.message("a")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    before = stores.digest(store)
    with broker_at_work(store):
        with pytest.raises(StoreLockedError, match="running broker"):
            follow(store, stores.SMALL)
        with reput.MessageStore.open(store, stores.SMALL, read_only=True) as reader:
            assert len(reader.get_message("a", 0, 0)) == 1
    assert stores.digest(store) == before


def test_waits_while_another_job_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild takes an idle follower's store over: it waits, says so once, and then starts."""
    monkeypatch.setattr(room, "_LOOK_S", 0.0)
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    notes = Notes()
    states: list[str] = []
    follower = follow(store, stores.SMALL, listener=notes, on_progress=lambda progress: states.append(progress.state))
    while follower.step() or follower.progress.state != "idle":
        follower.tend()
    log.message("a", keys="k")
    stores.with_log(tmp_path, log)
    with own_store(find_store(store, stores.SMALL)):
        for _ in range(3):
            assert not follower.step()
        assert follower.progress.state == "waiting"
    assert len([line for line in notes.lines if line.startswith("waiting: ")]) == 1
    while follower.step() or not follower.caught_up():
        pass
    assert follower.progress.frontier == log.end
    follower.close()
    assert "catching up" in states
    stores.assert_as_rebuilt(store, tmp_path / "copy", stores.SMALL)


@pytest.mark.parametrize("name", ["nowhere", "file", "empty"])
def test_no_store(name: str, tmp_path: Path) -> None:
    """A folder that is no store is refused by its path, and nothing is made there."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStoreError, match=name):
        follow(tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "file"]


# --- killed ----------------------------------------------------------------------------------------


def write(path: str, ready: int, follow_it: bool) -> None:
    """Put for ever; a byte for every hundred messages."""
    store = reput.MessageStore.open(path, CONFIG, follow=follow_it, spark=False, create=True)
    rng = random.Random(5)
    while True:
        put(store, rng, 100)
        os.write(ready, b"x")


def killed_writer(path: Path, follow_it: bool, hundreds: int) -> None:
    """A process that writes, perhaps follows itself, and is killed."""
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=write, args=(str(path), writing, follow_it))
    process.start()
    # Else nobody would hear of a process that ends by itself.
    os.close(writing)
    reported = [os.read(reading, 1) for _ in range(hundreds)]
    os.close(reading)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert reported == [b"x"] * hundreds


@pytest.mark.parametrize("hundreds", [1, 5, 12])
def test_driver_and_writer_killed(hundreds: int, tmp_path: Path) -> None:
    """Killed with its follower, a store is caught up by the next one to what a rebuild makes."""
    path = tmp_path / "store"
    for _ in range(2):
        killed_writer(path, True, hundreds)
        handle = reput.follow(path, spark=False, config=CONFIG, until_caught_up=True)
        assert handle.wait(FOLLOWER_TIMEOUT_S)
        stores.assert_as_rebuilt(path, tmp_path / f"copy{time.monotonic_ns()}", CONFIG)


def test_writer_killed_beside_a_follower(tmp_path: Path) -> None:
    """A follower in another process lives on when the writer dies, and goes on with the next."""
    path = tmp_path / "store"
    reput.MessageStore.open(path, CONFIG, create=True).close()
    with reput.follow(path, spark=False, config=CONFIG) as handle:
        for _ in range(2):
            killed_writer(path, False, 4)
        wait_for_follower(lambda: handle.progress.state == "idle" and handle.follow.caught_up(), "all indexed")
        assert handle.progress.messages >= 400
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert sum(queue.max_offset for queue in store.queues()) >= 800
    stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)


def test_progress_as_values() -> None:
    """A follower reports plain values by name."""
    reported = FollowProgress(lag_bytes=3).as_dict()
    assert reported["lag_bytes"] == 3
    assert set(reported) >= {"frontier", "durable", "lag_messages", "lag_ms", "messages_per_s", "batch_ms"}
