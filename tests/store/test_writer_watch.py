"""A store that is open to read sees what a writer puts that comes, or has come and gone, after it was opened."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import parse_properties
from reput.errors import StoreLockedError, TailFullError
from reput.formats import paths
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.open import beside, opening, writer_watch
from reput.store.owner.holders import Writer
from support import golden
from support.records import LogBuilder
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.disk.layout import StoreLayout

CONFIG = reput.StoreConfig(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)


def put(store: reput.MessageStore, count: int) -> None:
    """Messages to one queue, each with a key of its own."""
    for _ in range(count):
        number = store.max_offset("orders", 0)
        result = store.put_message(reput.Message("orders", b"%d" % number, unique_key=f"U{number}"))
        assert result.queue_offset == number


def numbers(store: reput.MessageStore) -> list[int]:
    """The messages of the queue, pulled to the end."""
    found: list[int] = []
    while len(result := store.get_message("orders", 0, len(found), 32)):
        found += [int(message.body) for message in result]
    return found


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "has gone"])
@pytest.mark.parametrize("indexes", [True, False], ids=["indexed", "not indexed"])
def test_a_reader_that_was_first(stays: bool, indexes: bool, tmp_path: Path) -> None:
    """A reader that was open first has right pulls, look-ups and kept results, whatever a later writer does."""
    before = set(threading.enumerate())
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 40)
        store.reput(spark=False)
    with reput.MessageStore.open(tmp_path, CONFIG, read_only=True) as reader:
        for turn in range(1, 4):
            kept = reader.get_message("orders", 0, 0, 32)
            # By one kernel call, which must see it, too.
            assert len(reader.get_message("orders", 0, 1, 8)) == 8
            writer = reput.MessageStore.open(tmp_path, CONFIG, create=True)
            put(writer, 1000)
            if indexes:
                writer.reput(spark=False)
            if not stays:
                writer.close()
            last = 40 + 1000 * turn
            wait_until(lambda last=last: reader.max_offset("orders", 0) == last)  # type: ignore[misc]
            assert numbers(reader) == list(range(last))
            assert [int(one.body) for one in reader.query_message("orders", f"U{last - 1}")] == [last - 1]
            assert [int(message.body) for message in kept] == list(range(32))
            writer.close()
    assert not [one for one in threading.enumerate() if one.name == "reput-writer-watch" and one not in before]


@pytest.mark.golden
def test_a_store_that_reput_never_wrote(tmp_path: Path) -> None:
    """A broker's store, which has no folder of ours: a waiter hears of the first message that reput puts."""
    path = golden.unpack("basic", tmp_path)
    config = reput.StoreConfig.from_properties(parse_properties(golden.CONFIG))
    with reput.MessageStore.open(path, config, read_only=True) as reader:
        topic, queue_id, _, end = reader.queues()[0]
        heard: list[bool] = []
        waiter = threading.Thread(target=lambda: heard.append(reader.wait(topic, queue_id, end, 30)))
        waiter.start()
        with reput.MessageStore.open(path, config, create=True) as writer:
            assert writer.put_message(reput.Message(topic, b"new"), queue_id).queue_offset == end
            waiter.join()
        assert heard == [True]
        (message,) = reader.get_message(topic, queue_id, end)
        assert message.body == b"new"


@pytest.mark.parametrize(("step", "end"), [(300, 2100), (1500, 4500)])
def test_a_reader_beside_a_broker_ended_when_its_tail_was_full(
    step: int, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker says nowhere how far its queues are complete: a reader opens its store again before that fails."""
    for module in (opening, writer_watch):
        monkeypatch.setattr(module, "writer_of", lambda _: Writer.BROKER)
    monkeypatch.setattr(beside, "_BROKER_LOOK_S", 0.0)
    path, log = tmp_path / "store", LogBuilder(1 << 14, tick_ms=100)

    small = reput.StoreConfig(max_hash_slot_num=100, max_index_num=100)

    def go_on(begin: int, count: int) -> None:
        for number in range(begin, begin + count):
            log.message("orders", body=b"%d" % number, unique_key=f"U{number}")
        whole = log.write(tmp_path / "whole")
        reput.rebuild(whole, spark=False, config=small)
        for name in (paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.INDEX, paths.CHECKPOINT):
            subprocess.run(["cp", "-r", whole / name, path], check=True)

    path.mkdir()
    go_on(0, step)
    (path / paths.ABORT).write_bytes(b"1")
    views = set()
    with reput.MessageStore.open(path, replace(small, tail_max_entries=1000), read_only=True) as reader:
        for begin in range(step, end, step):
            go_on(begin, step)
            if step > 1000:
                # The tail does not hold all of these at once; the next look begins with fewer.
                with contextlib.suppress(TailFullError):
                    reader.max_offset("orders", 0)
            assert reader.max_offset("orders", 0) == begin + step
            (last,) = reader.get_message("orders", 0, begin + step - 1)
            assert last.body == b"%d" % last.queue_offset
            views.add(id(reader.view))
        assert numbers(reader) == list(range(end))
    assert len(views) > 1


def test_a_rebuild_beside_a_reader(tmp_path: Path) -> None:
    """Indexes that were swapped meanwhile are opened anew; what the reader gave before is as good as ever."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 3000)
        store.reput(spark=False)
    with reput.MessageStore.open(tmp_path, CONFIG, read_only=True) as reader:
        kept = reader.get_message("orders", 0, 0, 32)
        before = reader.view
        reput.rebuild(tmp_path, spark=False, config=CONFIG)
        wait_until(lambda: bool(reader.max_offset("orders", 0)) and reader.view is not before)
        assert numbers(reader) == list(range(3000))
        assert [int(message.body) for message in kept] == list(range(32))


def test_a_swap_under_way_lets_a_reader_open_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the writer that fails counts as a change; of two threads that see it one opens the store again."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 5)
    with reput.MessageStore.open(tmp_path, CONFIG, read_only=True) as reader:
        before, real = reader.view, writer_watch.writer_of

        def swapping(layout: StoreLayout) -> Writer:
            raise StoreLockedError(f"{layout.root}: a swap of indexes is under way")

        monkeypatch.setattr(writer_watch, "writer_of", swapping)
        assert reader._reopening is not None
        wait_until(lambda: reader._reopening.is_due)
        monkeypatch.setattr(writer_watch, "writer_of", real)
        assert numbers(reader) == list(range(5))
        assert (after := reader.view) is not before
        reader._reopening.renew(pytest.fail)
        assert reader.view is after


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "rocksdb"])
def test_the_end_of_a_broker_s_log_is_in_its_queues(name: str, tmp_path: Path) -> None:
    """It is the end of the last record that a queue names; entries without a record, and empty queues, do not count."""
    path = golden.unpack(name, tmp_path)
    store = StoreOnDisk.find(path, reput.StoreConfig.from_properties(parse_properties(golden.CONFIG)), Purpose.READ)
    log = store.maps()
    end = beside.last_referenced(store.kinds, log).end
    assert log.record_end(end) < 0 < end
    if name == "basic":
        queues = sorted((path / paths.CONSUME_QUEUE).glob("*/*"))
        for file in queues[0].iterdir():
            file.write_bytes(bytes(file.stat().st_size))
        last = max(queues[1].iterdir())
        data = last.read_bytes()
        used = len(data.rstrip(b"\0")) // ENTRY_SIZE * ENTRY_SIZE + ENTRY_SIZE
        wrong = ENTRY.struct.pack(end + 7, 100, 0)
        last.write_bytes(data[: used - ENTRY_SIZE] + wrong + data[used:])
        assert 0 < beside.last_referenced(store.kinds, log).end <= end


def test_a_store_that_is_dropped(tmp_path: Path) -> None:
    """A store that is dropped without being closed leaves no thread."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 3)
    reader = reput.MessageStore.open(tmp_path, CONFIG, read_only=True)
    assert reader._reopening is not None
    thread = reader._reopening._watch._thread
    del reader
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_nobody_comes(tmp_path: Path) -> None:
    """A reader without a writer opens nothing anew; closed, it looks no more."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        put(store, 3)
    reader = reput.MessageStore.open(tmp_path, CONFIG, read_only=True)
    view = reader.view
    assert reader._reopening is not None
    watch = reader._reopening._watch
    time.sleep(0.5)
    assert numbers(reader) == [0, 1, 2]
    assert reader.view is view
    reader.close()
    assert not watch.has_changed
