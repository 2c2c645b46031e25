"""A store that is open to read sees what a writer puts that comes, or has come and gone, after it was opened."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import parse_properties
from support import golden
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

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
