"""Answers by one kernel call: they are those of the general way, and follow every change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.queue.by_time import Boundary
from reput.store.read.queue_answers import PullLimits

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 12, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
QUEUES = [("t", 0), ("t", 1), ("other", 0), ("nowhere", 0)]


def filled(path: Path, count: int, *, indexed: bool) -> reput.MessageStore:
    """A store of small files with messages in three queues."""
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put_more(store, count)
    if indexed:
        store.reput(spark=False)
    return store


def put_more(store: reput.MessageStore, count: int) -> None:
    """Messages whose keys come again."""
    for number in range(count):
        topic, queue_id = QUEUES[number % 3]
        message = reput.Message(topic, bytes(number), keys=["k", f"k{number % 7}"], unique_key=f"u{number}", tags="a")
        assert store.put_message(message, queue_id).status is reput.PutStatus.PUT_OK


def answers(store: reput.MessageStore) -> list[Any]:
    """The answers to pulls from everywhere, and to questions by time and key."""
    reported: list[Any] = []
    for topic, queue_id in QUEUES:
        end = store.max_offset(topic, queue_id)
        for offset in (-1, 0, 1, 7, end - 1, end, end + 1, 1 << 70):
            for most, most_bytes in ((1, 1 << 20), (3, 200), (32, 1 << 20), (32, 600), (5000, 1 << 80)):
                got = store.get_message(topic, queue_id, offset, most, None, most_bytes)
                reported.append((got.status, got.next_offset, got.min_offset, got.max_offset, got.total_bytes))
                reported.append((got.physical_offsets.tolist(), [message.body for message in got]))
        times = [store.store_time(topic, queue_id, offset) for offset in (0, 5, end - 1)]
        for time in (-(1 << 70), 0, *times, times[-1] + 1, 1 << 70):
            reported += [store.offset_by_time(topic, queue_id, time, boundary) for boundary in Boundary]
        for key in ("k", "k3", "u4", "u5", "none", "ключ"):
            for most in (0, 1, 2, 64):
                result = store.query_message(topic, key, most)
                reported.append((result.physical_offsets, result.more, [message.keys for message in result]))
    return reported


@pytest.mark.parametrize("limits", [None, PullLimits(4, 500)])
@pytest.mark.parametrize("indexed", [False, True])
def test_asked_again_the_answer_is_the_same(tmp_path: Path, indexed: bool, limits: PullLimits | None) -> None:
    """Files, tail or both, with or without limits: the first answer, given in the general way, is given each time."""
    path = tmp_path / "store"
    filled(path, 90, indexed=indexed).close(reput=False)
    with reput.MessageStore.open(path, CONFIG, limits=limits, create=True) as store:
        for _ in range(2):
            first = answers(store)
            for _ in range(3):
                assert answers(store) == first
            put_more(store, 5)


def test_a_put_a_reput_and_a_deletion_are_seen_at_once(tmp_path: Path) -> None:
    """An answer knows of new messages, moved frontiers and expired files, whatever was prepared before."""
    with filled(tmp_path / "store", 90, indexed=True) as store:
        for _ in range(3):
            for _ in range(3):
                answers(store)
            end = store.max_offset("t", 0)
            put_more(store, 3)
            assert len(store.get_message("t", 0, end)) == 1
            assert store.get_message("t", 0, end - 1).max_offset == end + 1
            assert store.offset_by_time("t", 0, 1 << 60) == end + 1
            count = len(store.query_message("t", "k"))
            store.reput(spark=False)
            assert len(store.query_message("t", "k")) == count
            assert len(store.get_message("t", 0, end)) == 1


def test_a_reader_beside_a_writer_sees_each_put(tmp_path: Path) -> None:
    """A read-only store looks at the writer's watermarks in every call, the prepared ones too."""
    path = tmp_path / "store"
    with filled(path, 30, indexed=True) as store, reput.MessageStore.open(path, read_only=True) as reader:
        for number in range(30, 40):
            for _ in range(3):
                assert reader.max_offset("t", 0) == store.max_offset("t", 0)
                assert reader.get_message("t", 0, 5).max_offset == store.max_offset("t", 0)
                assert len(reader.query_message("t", "k")) == len(store.query_message("t", "k"))
            put_more(store, 3)
            if number % 3 == 0:
                store.reput(spark=False)


def test_results_outlive_the_store(tmp_path: Path) -> None:
    """A result stays readable when the store is closed."""
    store = filled(tmp_path / "store", 30, indexed=True)
    for _ in range(4):
        pulled, queried = store.get_message("t", 0, 3, 4), store.query_message("t", "u0")
    store.close()
    assert [message.queue_offset for message in pulled] == [3, 4, 5, 6]
    assert [message.unique_key for message in queried] == ["u0"]
    with pytest.raises(reput.ClosedError):
        store.get_message("t", 0, 3, 4)
