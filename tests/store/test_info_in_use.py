"""`store_info` of a store that a process holds: its holder, how far it is, and nothing false."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from reput.formats import paths
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.layout import find_store
from reput.store.info.info import store_info
from reput.store.info.values import CLEAN
from reput.store.owner.holders import Who
from reput.store.owner.owner import own_store
from support import golden, inner
from support.broker import broker_at_work, indexed_store
from support.opened import CONFIG, put
from support.records import LogBuilder

if TYPE_CHECKING:
    from reput.store.info.values import StoreInfo


def assert_nothing_false(info: StoreInfo) -> None:
    """A store in use is neither damaged nor torn nor out of date."""
    assert info.damage == info.out_of_date == info.unsupported == []
    assert (info.log.tail, info.log.max_is_exact) == (CLEAN, True)


def spans(info: StoreInfo) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Of each queue the offsets, and how many messages wait for entries."""
    return {
        (topic.topic, queue.queue_id): (queue.min_offset, queue.max_offset, queue.waiting)
        for topic in info.topics
        for queue in topic.queues
    }


def test_beside_a_writer(tmp_path: Path) -> None:
    """A writer is named with its process; all topics are listed, also those that no index has, and what waits."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 5, "orders")
        store.reput(spark=False)
        put(store, 3, "orders")
        put(store, 2, "new", queue_id=1)
        info = store_info(tmp_path)
        assert_nothing_false(info)
        assert (info.held_by, info.held_by_pid, info.follower_pid) == (Who.WRITER, os.getpid(), 0)
        assert info.confirmed_offset == info.log.max_offset == store.view.confirmed()
        assert spans(info) == {("orders", 0): (0, 8, 3), ("new", 1): (0, 2, 2)}
        assert (info.waiting_messages, info.waiting_is_exact) == (5, True)
        assert (info.queue_entries, info.queue_messages) == (5, 10)
        assert info.log.last_store_timestamp == store.store_time("new", 1, 1)
        store.reput(spark=False)
        info = store_info(tmp_path)
        assert_nothing_false(info)
        assert (info.waiting_messages, info.queue_entries) == (0, 10)
    assert store_info(tmp_path).held_by == Who.NOBODY


def test_a_long_tail_is_counted_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail that is too long is counted in part: a lower bound, with the topics of config/topics.json."""
    monkeypatch.setattr("reput.store.info.end._WALK_SECONDS", 0.0)
    monkeypatch.setattr("reput.store.info.end._JUMP_BYTES", 1000)
    with inner.new_store(tmp_path / "s", CONFIG) as store:
        put(store, 900, "orders")
        info = store_info(tmp_path / "s")
        assert_nothing_false(info)
        assert not info.waiting_is_exact
        assert 256 <= info.waiting_messages < 900
        assert info.log.max_offset == store.view.confirmed()
        assert {"batches", "more", "orders"} == {topic.topic for topic in info.topics}
        assert run(["info", str(tmp_path / "s")]) == 0


@pytest.mark.parametrize("name", ["file", "double"])
def test_a_writer_that_never_rests(name: str, tmp_path: Path) -> None:
    """Whenever one looks at a store whose writer puts and indexes all the time, nothing false is said."""
    path = tmp_path / "store"
    inner.new_store(path, inner.KINDS[name]).close()
    command = [sys.executable, "-m", "support.inner", str(path), name, "1"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        reading = threading.Thread(target=process.stdout.read)
        reading.start()
        try:
            ends = []
            for _ in range(20):
                info = store_info(path)
                assert_nothing_false(info)
                assert (info.held_by_pid, info.follower_pid) == (process.pid, process.pid)
                ends.append(info.log.max_offset)
            assert ends == sorted(ends)
            assert ends[0] < ends[-1]
        finally:
            process.kill()
            reading.join()


def test_a_checkpoint_between_its_creation_and_its_first_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of 0 bytes is not written yet, as for RocketMQ: it is no damage, and like one that is missing."""
    seen: list[StoreInfo] = []
    resize = os.ftruncate

    def looked(descriptor: int, size: int) -> None:
        if checkpoint.exists() and os.path.samestat(os.fstat(descriptor), checkpoint.stat()):
            seen.append(store_info(tmp_path))
        resize(descriptor, size)

    checkpoint = tmp_path / paths.CHECKPOINT
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 5)
        assert not checkpoint.exists()
        monkeypatch.setattr(os, "ftruncate", looked)
        store.flush()
    (info,) = seen
    assert_nothing_false(info)
    assert info.checkpoint is None
    checkpoint.write_bytes(b"")
    info = store_info(tmp_path)
    assert [text for text in info.out_of_date if str(checkpoint) in text] == [
        f"{checkpoint}: not written yet; RocketMQ then looks through the whole log when it opens"
    ]
    assert info.damage == []


def test_a_follower_at_work(tmp_path: Path) -> None:
    """A follower on a store that nobody writes is named, and what is out of date is its work."""
    store = reput.MessageStore.open(tmp_path, CONFIG, create=True)
    put(store, 50)
    store.close(reput=False)
    follower = Follow(tmp_path, LoopEngine(), CONFIG, max_batch_bytes=1500)
    follower.step()
    info = store_info(tmp_path)
    follower.close()
    assert (info.held_by, info.held_by_pid, info.damage) == (Who.FOLLOWER, os.getpid(), [])
    (out_of_date,) = info.out_of_date
    assert f"a reput follower, process {os.getpid()} adds them" in out_of_date
    assert info.waiting_messages == 50 - info.queue_entries > 0


def test_beside_a_broker(tmp_path: Path) -> None:
    """A live broker's log is whole up to what its queues refer to; what it writes after that is not torn."""
    store, log = indexed_store(tmp_path)
    end = log.end
    log.message("orders")
    log.garbage(b"half a record")
    log.write(store)
    with broker_at_work(store) as pid:
        info = store_info(store)
        assert_nothing_false(info)
        assert (info.held_by, info.held_by_pid, info.broker_running) == (Who.BROKER, pid, True)
        assert info.confirmed_offset == info.log.max_offset == end
        assert run(["info", str(store)]) == 0
    assert [text for text in store_info(store).out_of_date if "torn tail" in text]


@pytest.mark.golden
def test_a_healthy_store_beside_its_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker's own store, with `abort` as while it runs, is all well, and its whole log is confirmed."""
    store = golden.unpack("basic", tmp_path)
    (store / paths.ABORT).touch()
    quiet = store_info(store)
    with broker_at_work(store) as pid:
        info = store_info(store)
        assert_nothing_false(info)
        assert (info.log.max_offset, spans(info)) == (quiet.log.max_offset, spans(quiet))
        assert run(["info", str(store)]) == 0
    out, err = capsys.readouterr()
    assert f"a RocketMQ broker, process {pid}" in out
    assert "not closed cleanly" not in out + err


def test_a_job_at_work(tmp_path: Path) -> None:
    """While a rebuild holds a store its indexes are not judged, and a note says so."""
    log = LogBuilder(4096)
    log.message("orders", keys="k")
    store = log.write(tmp_path)
    assert any("reput follow" in text for text in store_info(store).out_of_date)
    with own_store(find_store(store, reput.StoreConfig())):
        info = store_info(store)
        assert (info.held_by, info.held_by_pid, info.out_of_date) == (Who.JOB, os.getpid(), [])
        assert any("indexes are not judged" in note for note in info.notes)


def test_damage_is_said_beside_a_writer(tmp_path: Path) -> None:
    """Bytes below the confirmed offset that are no record are damage, with any writer."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        placed = put(store, 20)
        path = tmp_path / paths.COMMIT_LOG / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[placed[10] + 4] ^= 0xFF
        path.write_bytes(data)
        (damage,) = store_info(tmp_path).damage
        assert f"(log offset {placed[10]})" in damage
        data[placed[10] + 4] ^= 0xFF
        path.write_bytes(data)


@pytest.mark.parametrize("keys", ["k", None])
def test_indexes_that_are_only_behind_are_followed(tmp_path: Path, keys: str | None) -> None:
    """Messages that only wait for their indexes make `info` advise `follow`, which brings them."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 5, keys=keys)
        store.reput(spark=False)
        put(store, 7, keys=keys)
        store.close(reput=False)
    out_of_date = store_info(tmp_path).out_of_date
    assert out_of_date
    assert all(f"`reput follow {tmp_path} --until-caught-up`" in text for text in out_of_date)
    # An IndexFile without an item does not say its sizes.
    sizes = ["--set", "maxHashSlotNum=16", "--set", "maxIndexNum=8"]
    assert run(["follow", str(tmp_path), "--until-caught-up", "--no-spark", "--quiet", *sizes]) == 0
    assert store_info(tmp_path).out_of_date == []


@pytest.mark.golden
def test_indexes_that_lost_entries_are_rebuilt(tmp_path: Path) -> None:
    """A follower does not look for what is missing below the frontier: there a rebuild is advised."""
    store = golden.unpack("basic", tmp_path)
    max((store / paths.INDEX).iterdir()).unlink()
    (out_of_date,) = store_info(store).out_of_date
    assert "`reput rebuild --only index`" in out_of_date


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "batch"])
def test_info_and_check_count_alike(name: str) -> None:
    """Entries are entries and messages are messages, in both commands."""
    store = golden.shared(name)
    info, report = store_info(store), reput.check(store, spark=False)
    assert (info.queue_entries, info.queue_messages) == (report.queue_entries, report.queue_messages)
    assert (report.queue_entries < report.queue_messages) == (name == "batch")


def test_an_empty_index_file_spans_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An IndexFile without an item shows no times, neither in `info` nor in `dump index`."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, random.Random(1).randrange(1, 5))
    (file,) = store_info(tmp_path).index_files
    assert (file.items, file.begin_timestamp, file.end_timestamp) == (0, None, None)
    assert run(["info", str(tmp_path)]) == 0
    assert run(["dump", "index", str(tmp_path), "--set", "maxHashSlotNum=16", "--set", "maxIndexNum=8"]) == 0
    assert "1970" not in capsys.readouterr().out
